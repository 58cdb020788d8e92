"""Reads an ONNX file into costs. Runs only in the child process."""

from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

from apps.planner.model_files.graph_checks import check_model, check_order
from apps.planner.model_files.inference import drop_weights, expand_functions, infer_shapes
from apps.planner.model_files.input_shapes import set_input_shapes
from apps.planner.model_files.layers import GraphCosts, count_layers
from apps.planner.model_files.operators import Shape
from apps.planner.model_files.refusals import Refused, shown

MAX_COUNT = (1 << 63) - 1


def read_costs(content: bytes, given: Mapping[str, Shape]) -> dict[str, Any]:
    """Return the costs of a model, or why it is refused, as a JSON object."""
    try:
        return {"costs": _read(content, given)}
    except Refused as refusal:
        return {
            "refused": {
                "message": refusal.message,
                "hint": refusal.hint,
                "field": refusal.field,
            }
        }


def _read(content: bytes, given: Mapping[str, Shape]) -> dict[str, Any]:
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise Refused(
            "The file is no ONNX model, is incomplete, or is nested too deeply.",
            hint="Export the model again, or copy the file again.",
        ) from error
    del content
    check_model(model)
    model.ClearField("training_info")
    drop_weights(model.graph)
    for function in model.functions:
        drop_weights(function)
    model = expand_functions(model)
    check_order(model.graph)
    inputs = set_input_shapes(model.graph, given)
    costs = count_layers(model.graph, infer_shapes(model))
    if not costs.layers and not costs.unknown:
        raise Refused("No node of the model reads an input.", hint="Export the model again.")
    return _summary(model, inputs, costs)


def _summary(model: ModelProto, inputs: Mapping[str, Shape], costs: GraphCosts) -> dict[str, Any]:
    layers = costs.layers
    unknown = [
        {"kind": kind, "reason": reason, "nodes": group.nodes, "parameters": group.parameters}
        for (kind, reason), group in sorted(costs.unknown.items())
    ]
    totals = {
        "parameters": sum(layer.parameters for layer in layers)
        + sum(group.parameters for group in costs.unknown.values()),
        "macs": sum(layer.macs for layer in layers),
        "operations": sum(layer.operations for layer in layers),
        "layer_outputs": sum(layer.output_elements for layer in layers),
        "parameter_layer_outputs": sum(
            layer.output_elements for layer in layers if layer.parameters
        ),
        "input_elements": sum(map(prod, inputs.values())),
        "buffer_elements": costs.buffer_elements,
    }
    if max(totals.values()) > MAX_COUNT:
        raise Refused(
            "The costs of the model exceed 64 bits.", hint="Check the shapes of its inputs."
        )
    return {
        "name": shown(model.graph.name),
        "inputs": [{"name": shown(name), "shape": list(shape)} for name, shape in inputs.items()],
        **totals,
        "largest_output": max((layer.output_elements for layer in layers), default=None),
        "layers": [asdict(layer) for layer in layers],
        "unknown": unknown,
    }
