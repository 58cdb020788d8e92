"""Layers of a graph: its nodes that compute or copy values of a sample, with their costs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from apps.planner.formulas.model_costs import LayerCosts
from apps.planner.model_files.graph_checks import label, subgraphs
from apps.planner.model_files.operators import (
    SHAPE_READERS,
    VIEWS,
    Node,
    NodeCosts,
    Shape,
    UnusualNode,
    count_node,
    is_known,
)
from apps.planner.model_files.refusals import shown

_STANDARD = ("", "ai.onnx")
_FLOATS = frozenset({
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE,
    TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ, TensorProto.FLOAT4E2M1,
})  # fmt: skip
# Positions of inputs: integers that are quantized weights; statistics that no gradient changes;
# settings of the operator.
_QUANTIZED = {
    "ConvInteger": (1,), "DequantizeLinear": (0,), "MatMulInteger": (1,), "QLinearConv": (3, 8),
    "QLinearMatMul": (3,),
}  # fmt: skip
_STATISTICS = {"BatchNormalization": (3, 4)}
_SETTINGS = {"Clip": (1, 2), "Pad": (1, 2, 3), "Resize": (1, 2, 3), "Upsample": (1,)}


@dataclass
class UnknownNodes:
    """Nodes of one operator whose costs are unknown: of an unknown operator, or with an unknown
    shape.
    """

    nodes: int = 0
    parameters: int = 0


@dataclass
class GraphCosts:
    """Layers of a graph. ``unknown``: by operator and reason ('operator' or 'shape')."""

    layers: list[LayerCosts] = field(default_factory=list)
    unknown: dict[tuple[str, str], UnknownNodes] = field(default_factory=dict)
    buffer_elements: int = 0


def count_layers(graph: GraphProto, shapes: Mapping[str, Shape]) -> GraphCosts:
    """Return the layers of a checked graph, in its order. ``shapes``: of its values."""
    costs, weights = GraphCosts(), _Weights(graph)
    for node in graph.node:
        kind = _kind(node)
        if _is_constant(node, weights):
            weights.derive(node, kind)
            continue
        if kind in VIEWS:
            continue
        parameters, buffers = weights.claim(node, kind)
        costs.buffer_elements += buffers
        counted, reason = _count(node, kind, shapes)
        if counted is None:
            group = costs.unknown.setdefault((shown(kind), reason), UnknownNodes())
            group.nodes += 1
            group.parameters += parameters
            continue
        activations = [name for name in node.input if name not in weights.sources]
        costs.layers.append(
            LayerCosts(
                name=label(node),
                kind=kind,
                parameters=parameters,
                macs=counted.macs,
                operations=counted.operations,
                input_elements=_elements(activations, shapes),
                output_elements=_elements(node.output, shapes),
            )
        )
    return costs


class _Weights:
    """Constant values of a graph. Each weight counts once, at the first layer that reads it."""

    def __init__(self, graph: GraphProto) -> None:
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        # The weights from which each constant value derives.
        self.sources = {name: frozenset({name}) for name in self._tensors}
        self._counted: set[str] = set()
        self._quantized: set[str] = set()

    def derive(self, node: NodeProto, kind: str) -> None:
        """Add the outputs of a node whose result is the same for every sample."""
        self._note_quantized(node, kind)
        sources = frozenset[str]().union(*(self.sources.get(name, ()) for name in node.input))
        for name in filter(None, node.output):
            self.sources[name] = sources
        if kind == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.HasField("t"):
                    self._tensors[node.output[0]] = attribute.t
                    self.sources[node.output[0]] = frozenset({node.output[0]})

    def claim(self, node: NodeProto, kind: str) -> tuple[int, int]:
        """Return the parameters and buffer elements that no earlier layer has."""
        self._note_quantized(node, kind)
        parameters = buffers = 0
        for position, value in enumerate(node.input):
            for name in sorted(self.sources.get(value, frozenset()) - self._counted):
                if position in _SETTINGS.get(kind, ()):
                    continue
                self._counted.add(name)
                tensor = self._tensors[name]
                if position in _STATISTICS.get(kind, ()):
                    buffers += prod(tensor.dims)
                elif self._is_learned(name, tensor):
                    parameters += prod(tensor.dims)
        return parameters, buffers

    def _is_learned(self, name: str, tensor: TensorProto) -> bool:
        """Return whether a tensor is a parameter. Numbers without a dimension are settings."""
        is_weight = tensor.data_type in _FLOATS or name in self._quantized
        return is_weight and len(tensor.dims) > 0

    def _note_quantized(self, node: NodeProto, kind: str) -> None:
        for position in _QUANTIZED.get(kind, ()):
            if position < len(node.input):
                self._quantized |= self.sources.get(node.input[position], frozenset())


def _kind(node: NodeProto) -> str:
    return shown(node.op_type if node.domain in _STANDARD else f"{node.domain}.{node.op_type}")


def _is_constant(node: NodeProto, weights: _Weights) -> bool:
    """Return whether the result is the same for every sample. Shapes are fixed, so they are."""
    if node.domain not in _STANDARD:
        return False
    if node.op_type == "Constant" or node.op_type in SHAPE_READERS:
        return True
    read = [name for name in node.input if name]
    return bool(read) and all(name in weights.sources for name in read) and not _has_graph(node)


def _has_graph(node: NodeProto) -> bool:
    return next(subgraphs(node), None) is not None


def _count(node: NodeProto, kind: str, shapes: Mapping[str, Shape]) -> tuple[NodeCosts | None, str]:
    if node.domain not in _STANDARD or not is_known(kind):
        return None, "operator"
    if any(name and name not in shapes for name in (*node.input, *node.output)):
        return None, "shape"
    try:
        costs = count_node(
            Node(
                kind=kind,
                inputs=tuple(shapes.get(name) for name in node.input),
                outputs=tuple(shapes.get(name) for name in node.output),
                attributes={part.name: _value(part) for part in node.attribute},
            )
        )
    except UnusualNode:
        costs = None
    return costs, "operator"


def _value(attribute: AttributeProto) -> object:
    if attribute.type == AttributeProto.INT:
        return attribute.i
    if attribute.type == AttributeProto.INTS:
        return tuple(attribute.ints)
    if attribute.type == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    return None


def _elements(names: Iterable[str], shapes: Mapping[str, Shape]) -> int:
    return sum(prod(shapes[name]) for name in names if name)
