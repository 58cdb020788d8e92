"""The costs of an ONNX graph as the server returns them, checked; as text and as JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from labcarbon_collect.plan.model_costs import LayerCosts, ModelCosts
from labcarbon_collect.plan.text import bytes_text, count_text, layer_table, rows

_PARTS = {
    "weights": "Weights",
    "copy": "16-bit copy of the weights",
    "buffers": "Buffers",
    "optimiser": "Optimiser state",
    "input": "Input",
    "working": "Activations and gradients",
    "runtime": "Runtime of the GPU",
}
_COUNTS = ("parameters", "macs", "operations", "input_elements", "output_elements")
_TOTALS = (
    "parameters", "macs", "operations", "layer_outputs", "parameter_layer_outputs",
    "input_elements", "buffer_elements",
)  # fmt: skip


class InvalidCosts(Exception):
    """The response has no known format."""


@dataclass(frozen=True)
class PartRange:
    """Bytes of a part of the memory."""

    key: str
    low: int
    likely: int
    high: int

    @property
    def text(self) -> str:
        likely = bytes_text(self.likely)
        if self.low == self.high:
            return likely
        return f"{likely} ({bytes_text(self.low)} to {bytes_text(self.high)})"


@dataclass(frozen=True)
class OnnxResult:
    """``message``: sentences about nodes of unknown cost. ``response``: all that was returned."""

    costs: ModelCosts
    operations: int
    message: str
    memory: Tuple[PartRange, ...]
    total: Optional[PartRange]
    trained_parameters: int
    response: Mapping[str, Any]

    def to_json(self) -> Dict[str, Any]:
        others = ("operations", "inputs", "unknown", "message", "memory")
        return {
            "model": self.costs.to_json(),
            **{name: self.response.get(name) for name in others},
        }


def parse_result(body: Mapping[str, Any]) -> OnnxResult:
    """Return the costs of a response. Raises InvalidCosts."""
    totals = _integers(body, _TOTALS)
    layers = body.get("layers")
    if not isinstance(layers, list):
        raise InvalidCosts
    largest = body.get("largest_output")
    memory = body.get("memory")
    memory = memory if isinstance(memory, dict) else None
    return OnnxResult(
        costs=ModelCosts(
            name=_text(body, "name") or "model",
            input=_text(body, "input"),
            largest_output=largest if type(largest) is int else None,
            layers=tuple(_layer(layer) for layer in layers),
            source="ONNX file",
            origin="",
            parameters=totals["parameters"],
            macs=totals["macs"],
            layer_outputs=totals["layer_outputs"],
            parameter_layer_outputs=totals["parameter_layer_outputs"],
            input_elements=totals["input_elements"],
            buffer_elements=totals["buffer_elements"],
        ),
        operations=totals["operations"],
        message=_text(body, "message", 2000),
        memory=tuple(_parts(memory)),
        total=None if memory is None else _range("total", memory.get("total")),
        trained_parameters=0
        if memory is None
        else _integers(memory, ("trained_parameters",))["trained_parameters"],
        response=body,
    )


def format_result(result: OnnxResult, training: str, trained: str) -> Iterator[str]:
    """Yield the lines: model, memory and largest layers. ``training`` and ``trained``: in words."""
    costs = result.costs
    yield f"{costs.name}, input {costs.input}, {costs.source}"
    yield ""
    pairs = [("Parameters", count_text(costs.parameters))]
    if result.total is not None:
        pairs.append(("  trainable", f"{count_text(result.trained_parameters)}, {trained}"))
    pairs += [
        ("MACs of the forward pass", f"{count_text(costs.macs)} per sample"),
        ("Operations of it", f"{count_text(result.operations)} per sample"),
        ("Layer outputs", f"{count_text(costs.layer_outputs)} per sample"),
    ]
    if costs.layers:
        layer = max(costs.layers, key=lambda layer: layer.output_elements)
        pairs.append(
            (
                "Largest layer output",
                f"{count_text(layer.output_elements)} per sample, {layer.name}",
            )
        )
    yield from rows(pairs)
    if result.message:
        yield f"Not counted: {result.message}"
    if result.total is not None:
        yield ""
        yield f"Memory of a training step, {training}"
        yield from rows(
            [
                *((_PARTS.get(part.key, part.key), part.text) for part in result.memory),
                ("Total", result.total.text),
            ]
        )
        yield "Activations are counted from the layers. The code of the model is more exact:"
        yield "labcarbon-collect plan --model"
    yield ""
    yield from layer_table(costs.layers)


def _layer(layer: Any) -> LayerCosts:
    if not isinstance(layer, dict):
        raise InvalidCosts
    return LayerCosts(
        name=_text(layer, "name"), kind=_text(layer, "kind"), **_integers(layer, _COUNTS)
    )


def _parts(memory: Optional[Mapping[str, Any]]) -> List[PartRange]:
    if memory is None:
        return []
    parts = memory.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise InvalidCosts
    return [_range(_text(part, "key"), part) for part in parts]


def _range(key: str, value: Any) -> PartRange:
    if not isinstance(value, dict):
        raise InvalidCosts
    return PartRange(key, **_integers(value, ("low", "likely", "high")))


def _integers(values: Mapping[str, Any], names: Tuple[str, ...]) -> Dict[str, int]:
    integers = {name: values.get(name) for name in names}
    if not all(type(value) is int and value >= 0 for value in integers.values()):
        raise InvalidCosts
    return {name: int(value) for name, value in integers.items() if value is not None}


def _text(values: Mapping[str, Any], name: str, length: int = 200) -> str:
    text = values.get(name)
    if not isinstance(text, str):
        raise InvalidCosts
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:length]
