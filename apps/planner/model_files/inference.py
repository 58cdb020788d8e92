"""Shapes of all values of a model, from the shapes of its inputs."""

import re

from google.protobuf.message import DecodeError
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    TensorProto,
    ValueInfoProto,
    inliner,
    shape_inference,
)

from apps.planner.model_files.graph_checks import check_shape, subgraphs
from apps.planner.model_files.operators import Shape
from apps.planner.model_files.refusals import Refused, shown

_KEPT_ELEMENTS = 1024  # of integers, which can be shapes
_PREFIX = re.compile(r"\[\w+\] *|Inference error\(s\): *")
_INTEGERS = (TensorProto.INT64, TensorProto.INT32)


def expand_functions(model: ModelProto) -> ModelProto:
    """Return the model with the nodes of its functions in place of their calls. Raises Refused."""
    if not model.functions:
        return model
    try:
        expanded: ModelProto = inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, TypeError, DecodeError) as error:
        raise Refused(
            f"The functions of the model cannot be expanded: {_reason(error)}.",
            hint="Export the model without functions.",
        ) from error
    return expanded


def drop_weights(graph: GraphProto | FunctionProto) -> None:
    """Remove the numbers of weights, so that shape inference does not copy them."""
    tensors = list(graph.initializer) if isinstance(graph, GraphProto) else []
    for node in graph.node:
        for each in subgraphs(node):
            drop_weights(each)
        for attribute in node.attribute:
            tensors += [attribute.t] if attribute.HasField("t") else []
            tensors += attribute.tensors
    for tensor in tensors:
        count = check_shape(tensor.dims, shown(tensor.name))
        if tensor.data_type not in _INTEGERS or count > _KEPT_ELEMENTS:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data",
                          "uint64_data", "string_data"):  # fmt: skip
                tensor.ClearField(field)


def infer_shapes(model: ModelProto) -> dict[str, Shape]:
    """Return the known shape of each value of the main graph. Raises Refused.

    Only the inputs and the weights count: shapes that the file states for other values are ignored.
    """
    graph = model.graph
    graph.ClearField("value_info")
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError, DecodeError) as error:
        raise Refused(
            f"The shapes of the model do not fit together: {_reason(error)}.",
            hint="Check the shapes of its inputs, or export the model again.",
            field="input",
        ) from error
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in [*inferred.graph.value_info, *inferred.graph.output, *graph.input]:
        shape = _known_shape(value)
        if shape is not None:
            check_shape(shape, shown(value.name))
            shapes[value.name] = shape
    return shapes


def _known_shape(value: ValueInfoProto) -> Shape | None:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    if not all(part.HasField("dim_value") for part in dims):
        return None
    return tuple(part.dim_value for part in dims)


def _reason(error: Exception) -> str:
    """Return the last line of an error of the onnx package, without its prefixes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = _PREFIX.sub("", lines[-1]) if lines else ""
    return shown(text.rstrip(".") or type(error).__name__)
