"""Operations of ONNX operators, from the shapes of their inputs and outputs. Pure.

Definitions of the operators: ONNX operator schemas, opset 28 (https://onnx.ai/onnx/operators/).
Operations are those of a layer table (``formulas.layer_kinds``): MACs, biases and element-wise
operations, so that a model has the same costs from both sources.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from apps.planner.formulas.layer_kinds import ELEMENT_OPERATIONS

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a graph. Shapes are known; None is an omitted optional input or output."""

    kind: str
    inputs: tuple[Shape | None, ...]
    outputs: tuple[Shape | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def input(self, position: int) -> Shape | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def required(self, position: int) -> Shape:
        shape = self.input(position)
        if shape is None:
            raise UnusualNode
        return shape

    @property
    def output(self) -> Shape:
        if not self.outputs or self.outputs[0] is None:
            raise UnusualNode
        return self.outputs[0]


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """``operations`` contains the MACs."""

    macs: int
    operations: int


class UnusualNode(Exception):
    """The node does not have the inputs or attributes of its operator's definition."""


def count_node(node: Node) -> NodeCosts | None:
    """Return the costs of a node, None if its operator is not known. Raises UnusualNode."""
    counter = _COUNTERS.get(node.kind)
    if counter is None:
        return None
    try:
        return counter(node)
    except (LookupError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UnusualNode from error


def is_known(kind: str) -> bool:
    """Return whether the operator has a count."""
    return kind in _COUNTERS


def _elements(shape: Shape | None) -> int:
    return 0 if shape is None else prod(shape)


def _per_output(operations: int) -> Callable[[Node], NodeCosts]:
    return lambda node: NodeCosts(0, operations * _elements(node.output))


def _per_input(operations: int) -> Callable[[Node], NodeCosts]:
    return lambda node: NodeCosts(0, operations * _elements(node.required(0)))


def _pairwise(node: Node) -> NodeCosts:
    """n inputs need n − 1 operations for an output element; one input is only copied."""
    return NodeCosts(0, (len(node.inputs) - 1) * _elements(node.output))


def _mean(node: Node) -> NodeCosts:
    return NodeCosts(0, len(node.inputs) * _elements(node.output))


def _conv(bias: int | None) -> Callable[[Node], NodeCosts]:
    def count(node: Node) -> NodeCosts:
        weight = node.required(_weight_position(node.kind))
        macs = _elements(node.output) * prod(weight[1:])  # (input channels ÷ groups) × kernel
        has_bias = bias is not None and node.input(bias) is not None
        return NodeCosts(macs, macs + has_bias * _elements(node.output))

    return count


def _weight_position(kind: str) -> int:
    return 3 if kind.startswith("QLinear") else 1


def _conv_transpose(node: Node) -> NodeCosts:
    weight = node.required(1)  # input channels × (output channels ÷ groups) × kernel
    macs = _elements(node.required(0)) * prod(weight[1:])
    return NodeCosts(macs, macs + (node.input(2) is not None) * _elements(node.output))


def _gemm(node: Node) -> NodeCosts:
    first = node.required(0)
    depth = first[0] if node.attributes.get("transA") else first[1]
    macs = _elements(node.output) * depth
    return NodeCosts(macs, macs + (node.input(2) is not None) * _elements(node.output))


def _matmul(node: Node) -> NodeCosts:
    macs = _elements(node.output) * node.required(0)[-1]
    return NodeCosts(macs, macs)


def _einsum(node: Node) -> NodeCosts | None:
    """Return the costs of one or two operands: each combination of all indices is one MAC."""
    equation = str(node.attributes["equation"]).replace(" ", "")
    if "." in equation or len(node.inputs) > 2:
        return None
    extents: dict[str, int] = {}
    terms = equation.split("->")[0].split(",")
    if len(terms) != len(node.inputs):
        raise UnusualNode
    for position, term in enumerate(terms):
        shape = node.required(position)
        if len(term) != len(shape):
            raise UnusualNode
        for index, size in zip(term, shape, strict=True):
            extents[index] = max(size, extents.get(index, 1))
    total = prod(extents.values())
    return NodeCosts(total, total) if len(terms) == 2 else NodeCosts(0, total)


def _recurrent(gates: int, per_unit: int) -> Callable[[Node], NodeCosts]:
    """``per_unit``: element-wise operations of a hidden unit in a step, without biases."""

    def count(node: Node) -> NodeCosts:
        steps_and_batch = prod(node.required(0)[:2])  # in either layout
        directions, rows, width = node.required(1)
        hidden = rows // gates
        units = steps_and_batch * directions * hidden
        macs = units * gates * (width + hidden)
        biases = 2 * gates * units if node.input(3) is not None else 0
        peepholes = 3 * units if node.kind == "LSTM" and node.input(7) is not None else 0
        return NodeCosts(macs + peepholes, macs + peepholes + biases + per_unit * units)

    return count


def _attention(node: Node) -> NodeCosts:
    """Two matrix products and a softmax (ONNX Attention of opset 23)."""
    query, key, value = (node.required(position) for position in range(3))
    if len(query) == 4:
        batch, heads, queries, depth = query
        keys, value_depth = key[2], value[3]
    else:
        batch, queries, width = query
        heads, kv_heads = node.attributes["q_num_heads"], node.attributes["kv_num_heads"]
        depth, keys, value_depth = width // heads, key[1], value[2] // kv_heads
    past = node.input(4)
    keys += past[2] if past is not None else 0
    scores = batch * heads * queries * keys
    macs = scores * (depth + value_depth)
    return NodeCosts(macs, macs + _SOFTMAX * scores)


def _pool(per_kernel: int, extra: int) -> Callable[[Node], NodeCosts]:
    def count(node: Node) -> NodeCosts:
        kernel = prod(node.attributes["kernel_shape"])
        return NodeCosts(0, (per_kernel * kernel + extra) * _elements(node.output))

    return count


def _local_response(node: Node) -> NodeCosts:
    """Return squares and sums of the neighbours, then scale, power and division."""
    return NodeCosts(0, (2 * node.attributes["size"] + 3) * _elements(node.output))


def _resize(node: Node) -> NodeCosts | None:
    """Return one MAC and one addition for each neighbour, less the first addition."""
    neighbours = {"nearest": 1, "linear": 2, "cubic": 4}.get(node.attributes.get("mode", "nearest"))
    if neighbours is None:
        return None
    axes = sum(before != after for before, after in zip(node.required(0), node.output, strict=True))
    taps = int(neighbours**axes)
    return NodeCosts(0, 0 if taps == 1 else (2 * taps - 1) * _elements(node.output))


def _copy(_: Node) -> NodeCosts:
    return NodeCosts(0, 0)


_SOFTMAX = ELEMENT_OPERATIONS["softmax"]

_SIGMOID, _TANH = ELEMENT_OPERATIONS["sigmoid"], ELEMENT_OPERATIONS["tanh"]

# A node of these gives its input another name or shape. It is no layer.
VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
# Fixed shapes make these constants.
SHAPE_READERS = frozenset({"Shape", "Size"})

_ONE = [
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Ceil", "Celu", "Cos", "Cosh", "Div",
    "Elu", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual", "HardSigmoid",
    "HardSwish", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log", "Mish", "Mod", "Mul", "Neg",
    "Not", "Or", "Pow", "Reciprocal", "Round", "Selu", "Shrink", "Sign", "Sin",
    "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Tan", "Where", "Xor",
]  # fmt: skip
_ACTIVATIONS = {
    "Clip": "relu", "Gelu": "gelu", "LeakyRelu": "leaky relu", "LogSoftmax": "softmax",
    "PRelu": "leaky relu", "Relu": "relu", "Sigmoid": "sigmoid", "Softmax": "softmax",
    "Swish": "silu", "Tanh": "tanh", "ThresholdedRelu": "relu",
}  # fmt: skip
_COPIES = [
    "Cast", "CastLike", "CenterCropPad", "Compress", "Concat", "ConstantOfShape",
    "DepthToSpace", "Expand", "EyeLike", "Gather", "GatherElements", "GatherND", "OneHot",
    "Pad", "Range", "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth",
    "Split", "TensorScatter", "Tile", "Transpose", "Trilu",
]  # fmt: skip
_REDUCTIONS = [
    "ArgMax", "ArgMin", "Col2Im", "CumSum", "GlobalAveragePool", "GlobalMaxPool", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
]  # fmt: skip
_REDUCTIONS_OF_TWO = [
    "GlobalLpPool", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceSumSquare",
]  # fmt: skip

_COUNTERS: dict[str, Callable[[Node], NodeCosts | None]] = {
    **dict.fromkeys(_ONE, _per_output(1)),
    **{kind: _per_output(ELEMENT_OPERATIONS[same]) for kind, same in _ACTIVATIONS.items()},
    **dict.fromkeys(_COPIES, _copy),
    **dict.fromkeys(_REDUCTIONS, _per_input(1)),
    **dict.fromkeys(_REDUCTIONS_OF_TWO, _per_input(2)),
    **dict.fromkeys(("Max", "Min", "Sum"), _pairwise),
    "Attention": _attention,
    "AveragePool": _pool(1, 0),
    "BatchNormalization": _per_output(4),  # subtract, divide, scale, shift
    "Conv": _conv(2),
    "ConvInteger": _conv(None),
    "ConvTranspose": _conv_transpose,
    "DequantizeLinear": _per_output(2),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "GroupNormalization": _per_output(8),
    "GRU": _recurrent(3, 2 * _SIGMOID + _TANH + 8),  # 4 sums, 3 products, 1 complement
    "Hardmax": _per_output(1),
    "InstanceNormalization": _per_output(8),
    "LayerNormalization": _per_output(8),
    "LpNormalization": _per_output(3),
    "LpPool": _pool(2, 0),
    "LRN": _local_response,
    "LSTM": _recurrent(4, 3 * _SIGMOID + 2 * _TANH + 8),  # 5 sums, 3 products
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "MaxPool": _pool(1, -1),
    "Mean": _mean,
    "MeanVarianceNormalization": _per_output(5),
    "QLinearConv": _conv(8),
    "QLinearMatMul": _matmul,
    "QuantizeLinear": _per_output(3),
    "Resize": _resize,
    "RMSNormalization": _per_output(4),
    "RNN": _recurrent(1, _TANH + 1),  # 1 sum
    "Upsample": _resize,
}
