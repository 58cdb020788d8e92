"""The response of the process that reads a model file: its costs, or why it is refused.

It is input like any other: a hostile file may have taken over the process. So each value is checked
again.
"""

from typing import Annotated

import msgspec

from apps.planner.formulas.model_costs import LayerCosts, ModelCosts

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=600)]
_Name = Annotated[str, msgspec.Meta(max_length=120)]


class Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    message: _Text
    hint: _Text
    field: Annotated[str, msgspec.Meta(pattern="^(file|input)$")]


class InputShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    shape: Annotated[tuple[_Count, ...], msgspec.Meta(max_length=16)]


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    kind: _Name
    parameters: _Count
    macs: _Count
    operations: _Count
    input_elements: _Count
    output_elements: _Count


class UnknownGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes of one operator whose costs are unknown. ``reason``: 'operator' or 'shape'."""

    kind: _Name
    reason: Annotated[str, msgspec.Meta(pattern="^(operator|shape)$")]
    nodes: _Count
    parameters: _Count


class OnnxCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Costs of one sample of an ONNX model. Totals are without the nodes of ``unknown``, except
    ``parameters``.
    """

    name: _Name
    inputs: tuple[InputShape, ...]
    parameters: _Count
    macs: _Count
    operations: _Count
    layer_outputs: _Count
    parameter_layer_outputs: _Count
    input_elements: _Count
    buffer_elements: _Count
    largest_output: _Count | None
    layers: tuple[Layer, ...]
    unknown: tuple[UnknownGroup, ...]


class ReaderResponse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    costs: OnnxCosts | None = None
    refused: Refusal | None = None
    is_unlimited: bool = False


def model_costs(costs: OnnxCosts, *, name: str) -> ModelCosts:
    """Return the costs in the shape that all sources of model costs share."""
    return ModelCosts(
        name=name or costs.name or "model",
        input=input_text(costs),
        parameters=costs.parameters,
        macs=costs.macs,
        layer_outputs=costs.layer_outputs,
        parameter_layer_outputs=costs.parameter_layer_outputs,
        input_elements=costs.input_elements,
        buffer_elements=costs.buffer_elements,
        largest_output=costs.largest_output,
        layers=tuple(LayerCosts(**msgspec.structs.asdict(layer)) for layer in costs.layers),
        source="ONNX file",
    )


def input_text(costs: OnnxCosts) -> str:
    """Return the shape of one sample, such as '3x224x224', or of each input with its name."""
    texts = []
    for each in costs.inputs:
        shape = each.shape[1:] if len(each.shape) > 1 and each.shape[0] == 1 else each.shape
        texts.append("x".join(map(str, shape)))
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{each.name} {text}" for each, text in zip(costs.inputs, texts))


def unknown_text(costs: OnnxCosts) -> str:
    """Return sentences about the nodes of unknown cost, '' without any."""
    texts = []
    for reason, one, several in (
        ("operator", "operator of unknown cost", "operators of unknown cost"),
        ("shape", "node of unknown shape", "nodes of unknown shape"),
    ):
        groups = [group for group in costs.unknown if group.reason == reason]
        nodes = sum(group.nodes for group in groups)
        if groups:
            kinds = ", ".join(group.kind for group in groups)
            texts.append(f"{nodes} {one if nodes == 1 else several}: {kinds}.")
    return " ".join(texts)
