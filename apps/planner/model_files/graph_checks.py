"""Checks of a parsed ONNX model: sizes, nesting, names, order, tensors. Nothing is computed yet."""

from collections.abc import Iterable, Iterator
from math import prod

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from apps.planner.model_files.refusals import Refused, shown

MAX_NODES = 20_000  # with those of subgraphs and of functions wherever they are used
MAX_DEPTH = 8
MAX_RANK = 16
MAX_ELEMENTS = 1 << 40  # of one tensor
MAX_TENSORS = 200_000
_EXPORT = "Export the model again."
_BITS: dict[int, int] = {
    TensorProto.FLOAT: 32, TensorProto.UINT8: 8, TensorProto.INT8: 8, TensorProto.UINT16: 16,
    TensorProto.INT16: 16, TensorProto.INT32: 32, TensorProto.INT64: 64, TensorProto.BOOL: 8,
    TensorProto.FLOAT16: 16, TensorProto.DOUBLE: 64, TensorProto.UINT32: 32,
    TensorProto.UINT64: 64, TensorProto.COMPLEX64: 64, TensorProto.COMPLEX128: 128,
    TensorProto.BFLOAT16: 16, TensorProto.FLOAT8E4M3FN: 8, TensorProto.FLOAT8E4M3FNUZ: 8,
    TensorProto.FLOAT8E5M2: 8, TensorProto.FLOAT8E5M2FNUZ: 8, TensorProto.UINT4: 4,
    TensorProto.INT4: 4, TensorProto.FLOAT4E2M1: 4,
}  # fmt: skip
_TYPED_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data",
                 "uint64_data")  # fmt: skip


def check_model(model: ModelProto) -> None:
    """Raise Refused for a model whose graph is not as the ONNX format demands, or too large."""
    if not model.HasField("graph") or not model.ir_version:
        raise Refused("The file contains no ONNX graph.", hint="Choose a file of a model in ONNX.")
    nodes = tensors = 0
    for graph, depth in _graphs(model):
        if depth > MAX_DEPTH:
            raise Refused(f"Graphs are nested deeper than {MAX_DEPTH} levels.", hint=_EXPORT)
        nodes += len(graph.node)
        if nodes > MAX_NODES:
            raise _too_many_nodes()
        if not all(isinstance(name, str) for name in _names(graph)):
            raise Refused("The file contains a name that is not UTF-8.", hint=_EXPORT)
        for tensor in _tensors(graph):
            tensors += 1
            if tensors > MAX_TENSORS:
                raise Refused(f"The model has more than {MAX_TENSORS} tensors.", hint=_EXPORT)
            check_tensor(tensor)
        if isinstance(graph, GraphProto) and graph.sparse_initializer:
            raise Refused(
                "The model has sparse weights, which are not supported.",
                hint="Export it with dense weights.",
            )
    _check_functions(model)


def check_order(graph: GraphProto) -> None:
    """Raise Refused unless each value has one producer, which precedes its readers."""
    producers = {value.name for value in graph.input}
    weights = [tensor.name for tensor in graph.initializer]
    if len(set(weights)) < len(weights) or len(producers) < len(graph.input):
        raise Refused("Two inputs or weights of the model have the same name.", hint=_EXPORT)
    producers.update(weights)
    produced_later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        for name in node.input:
            if not name or name in producers:
                continue
            reason = (
                "reads a value that is computed after it: the nodes form a cycle or are not sorted"
                if name in produced_later
                else "reads a value that nothing computes"
            )
            raise Refused(f"The node {label(node)!r} {reason} ({shown(name)!r}).", hint=_EXPORT)
        for name in filter(None, node.output):
            if name in producers:
                raise Refused(f"The value {shown(name)!r} is computed twice.", hint=_EXPORT)
            producers.add(name)


def check_tensor(tensor: TensorProto) -> None:
    """Raise Refused for a tensor whose shape and content do not match, or whose content is in
    another file.
    """
    name = shown(tensor.name)
    if tensor.external_data or tensor.data_location == TensorProto.EXTERNAL:
        raise Refused(
            f"The weights of {name!r} are in another file, which is not read.",
            hint="Upload the graph only: labcarbon-collect plan --onnx FILE.",
        )
    count = check_shape(tensor.dims, name)
    bits = _BITS.get(tensor.data_type)
    if bits is None:
        if tensor.data_type == TensorProto.STRING:
            return
        raise Refused(f"The tensor {name!r} has an unknown type of numbers.", hint=_EXPORT)
    stored = sum(len(getattr(tensor, field)) for field in _TYPED_FIELDS)
    is_complex = tensor.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
    if (tensor.raw_data and len(tensor.raw_data) != (count * bits + 7) // 8) or (
        stored > count * (2 if is_complex else 1)
    ):
        raise Refused(
            f"The tensor {name!r} does not have as many numbers as its shape states.", hint=_EXPORT
        )


def check_shape(dims: Iterable[int], name: str) -> int:
    """Return the number of elements. Raises Refused for negative and huge dimensions."""
    sizes = list(dims)
    if any(size < 0 for size in sizes):
        raise Refused(f"The tensor {name!r} has a negative dimension.", hint=_EXPORT)
    count = prod(sizes) if len(sizes) <= MAX_RANK else MAX_ELEMENTS + 1
    if count > MAX_ELEMENTS or any(size > MAX_ELEMENTS for size in sizes):
        raise Refused(
            f"The tensor {name!r} has more than {MAX_RANK} dimensions or more than 2^40 elements.",
            hint=_EXPORT,
        )
    return count


def label(node: NodeProto) -> str:
    """Return the name of a node, else that of its first output."""
    return shown(node.name or next(filter(None, node.output), "") or node.op_type)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs in the attributes of a node."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _graphs(model: ModelProto) -> Iterator[tuple[GraphProto | FunctionProto, int]]:
    waiting: list[tuple[GraphProto | FunctionProto, int]] = [(model.graph, 0)]
    waiting += [(function, 0) for function in model.functions]
    while waiting:
        graph, depth = waiting.pop()
        yield graph, depth
        waiting += [(each, depth + 1) for node in graph.node for each in subgraphs(node)]


def _names(graph: GraphProto | FunctionProto) -> Iterator[object]:
    """Yield each name of a graph: bytes instead of a text where it is not UTF-8."""
    yield graph.name
    if isinstance(graph, FunctionProto):
        yield graph.domain
        yield from (*graph.input, *graph.output, *graph.attribute)
    else:
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from (part.dim_param for part in value.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    yield from (tensor.name for tensor in _tensors(graph))


def _tensors(graph: GraphProto | FunctionProto) -> Iterator[TensorProto]:
    if isinstance(graph, GraphProto):
        yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _check_functions(model: ModelProto) -> None:
    """Raise Refused for functions that call themselves, or whose expansion has too many nodes."""
    functions = {(each.domain, each.name): each for each in model.functions}
    if len(functions) < len(model.functions):
        raise Refused("Two functions of the model have the same name.", hint=_EXPORT)
    sizes: dict[tuple[str, str], int] = {}
    open_calls: set[tuple[str, str]] = set()

    def size_of(graph: GraphProto | FunctionProto) -> int:
        total = 0
        for node in graph.node:
            call = (node.domain, node.op_type)
            total += called_size(call) if call in functions else 1
            total += sum(size_of(each) for each in subgraphs(node))
            if total > MAX_NODES:
                raise _too_many_nodes()
        return total

    def called_size(call: tuple[str, str]) -> int:
        if call not in sizes:
            if call in open_calls or len(open_calls) >= MAX_DEPTH * 4:
                raise Refused(
                    f"The function {shown(call[1])!r} calls itself, or calls are nested deeper "
                    f"than {MAX_DEPTH * 4} levels.",
                    hint=_EXPORT,
                )
            open_calls.add(call)
            sizes[call] = size_of(functions[call])
            open_calls.discard(call)
        return sizes[call]

    size_of(model.graph)


def _too_many_nodes() -> Refused:
    return Refused(f"The model has more than {MAX_NODES} nodes.", hint="Plan a part of it.")
