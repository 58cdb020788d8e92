"""The graph of an ONNX file: what is left out, hostile files, memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.model_files import graph as graph_module
from labcarbon_collect.plan.model_files.graph import read_graph
from onnx import GraphProto, ModelProto, TensorProto, helper

from tests.planner.model_files.graphs import lenet, model, nested, value, weight
from tests.planner.model_files.test_hostile_files import BUILDERS, external, inside, varint

NUMBERS = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data",
           "uint64_data")  # fmt: skip
RELU = helper.make_node("Relu", ["x"], ["y"])


def strip(folder: Path, content: ModelProto | bytes) -> ModelProto:
    """Return the graph of a file, which stays as it is."""
    data = content if isinstance(content, bytes) else content.SerializeToString()
    path = folder / "model.onnx"
    path.write_bytes(data)
    stripped = ModelProto()
    stripped.ParseFromString(read_graph(path).content)
    assert path.read_bytes() == data
    return stripped


def outcome(path: Path) -> tuple[int, str]:
    """Return the size of the graph of a file, and why it is refused."""
    try:
        return len(read_graph(path).content), ""
    except CommandError as error:
        return 0, str(error)


def clear_numbers(graph: GraphProto) -> None:
    """The oracle: the same by the onnx package."""
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                tensors.append(attribute.t)
            tensors.extend(attribute.tensors)
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                clear_numbers(inner)
    for tensor in tensors:
        size = 1
        for dim in tensor.dims:
            size *= dim
        is_kept = tensor.data_type in (TensorProto.INT64, TensorProto.INT32) and size <= 1024
        for name in NUMBERS:
            if not (is_kept and name in ("int32_data", "int64_data", "raw_data")):
                tensor.ClearField(name)


@st.composite
def tensors(draw: st.DrawFn) -> TensorProto:
    kind = draw(st.sampled_from([TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64,
                                 TensorProto.DOUBLE]))  # fmt: skip
    dims = draw(st.lists(st.integers(0, 40), max_size=3))
    size = 1
    for dim in dims:
        size *= dim
    is_raw = draw(st.booleans())
    made: TensorProto
    if is_raw:
        width = 4 if kind in (TensorProto.FLOAT, TensorProto.INT32) else 8
        made = helper.make_tensor("t", kind, dims, bytes(size * width), raw=True)
    else:
        made = helper.make_tensor("t", kind, dims, [1] * size)
    made.name = draw(st.text(max_size=20))
    return made


@settings(max_examples=60, deadline=None)
@given(st.lists(tensors(), max_size=4), tensors(), st.integers(0, 3))
def test_numbers_of_weights_are_left_out(
    tmp_path_factory: pytest.TempPathFactory,
    weights: list[TensorProto],
    constant: TensorProto,
    depth: int,
) -> None:
    graph = nested(depth)
    graph.initializer.extend(weights)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant),
        helper.make_node("If", ["x"], ["i"], then_branch=graph),
        helper.make_node("Clip", ["x"], ["y"], name="clip", min=0.5, list=[1, 2], text="a"),
    ]
    built = model(nodes, [value("x", "batch", 4)], weights=weights)
    built.ClearField("producer_name")
    stripped = strip(tmp_path_factory.mktemp("models"), built)
    clear_numbers(built.graph)
    assert stripped == built


def test_texts_metadata_and_training_are_left_out(tmp_path: Path) -> None:
    built = lenet()
    plain = strip(tmp_path, built).SerializeToString(deterministic=True)
    built.doc_string, built.producer_name = "SECRET", "SECRET"
    built.metadata_props.add(key="SECRET", value="SECRET")
    built.training_info.add().algorithm.name = "SECRET"
    built.graph.doc_string = "SECRET"
    built.graph.input[0].doc_string = "SECRET"
    built.graph.node[0].doc_string = "SECRET"
    built.graph.node[0].metadata_props.add(key="stack", value="/home/SECRET")
    built.graph.node[0].attribute[0].doc_string = "SECRET"
    built.graph.initializer[0].doc_string = "SECRET"
    stripped = strip(tmp_path, built).SerializeToString(deterministic=True)
    assert b"SECRET" not in stripped
    assert stripped == plain


def test_references_to_other_files_are_left_out(tmp_path: Path) -> None:
    built = model([RELU], [value("x", 1, 4)], weights=[external("../../etc/passwd", 4)])
    tensor = strip(tmp_path, built).graph.initializer[0]
    assert (tensor.name, list(tensor.dims), tensor.data_type) == ("w", [4], TensorProto.FLOAT)
    assert not tensor.external_data
    assert not tensor.HasField("data_location")


def test_functions_and_sparse_weights(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    numbers = helper.make_tensor("t", TensorProto.FLOAT, [2], [1, 2])
    body = [
        helper.make_node("Constant", [], ["c"], value=numbers),
        helper.make_node("Add", ["a", "c"], ["b"]),
    ]
    function = helper.make_function("f", "F", ["a"], ["b"], body, opsets)
    call = helper.make_node("F", ["x"], ["y"], domain="f")
    built = model([call], [value("x", 1, 2)], functions=[function], domains=["f"])
    sparse = built.graph.sparse_initializer.add()
    sparse.values.CopyFrom(helper.make_tensor("s", TensorProto.FLOAT, [2], [1, 2]))
    sparse.dims.append(100)
    stripped = strip(tmp_path, built)
    assert stripped.functions[0].node[0].attribute[0].t.dims == [2]
    assert not stripped.functions[0].node[0].attribute[0].t.float_data
    assert stripped.graph.sparse_initializer[0].dims == [100]
    assert not stripped.graph.sparse_initializer[0].values.float_data


def test_packed_dimensions(tmp_path: Path) -> None:
    def graph(*dims: int) -> bytes:
        packed = inside(1, b"".join(map(varint, dims)))
        tensor = packed + b"\x10\x07" + inside(8, b"w") + inside(9, bytes(16))
        return b"\x08\x0a" + inside(7, inside(5, tensor))

    assert strip(tmp_path, graph(2)).graph.initializer[0].raw_data == bytes(16)
    assert not strip(tmp_path, graph(2, 1 << 40)).graph.initializer[0].raw_data


@pytest.mark.parametrize("build", BUILDERS)
def test_a_hostile_file_gives_a_graph_or_a_sentence(
    tmp_path: Path, build: Callable[[], ModelProto | bytes]
) -> None:
    content = build()
    path = tmp_path / "model.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    size, message = outcome(path)
    assert size <= path.stat().st_size
    assert not message or str(path) in message
    assert len(message) < 400


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 2000), st.integers(0, 255))
def test_any_bytes_give_a_graph_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, position: int, byte: int
) -> None:
    damaged = bytearray(SMALL)
    damaged[position % len(damaged)] = byte
    for data in (content, b"\x08\x0a" + inside(7, content), bytes(damaged)):
        path = tmp_path_factory.getbasetemp() / "any.onnx"
        path.write_bytes(data)
        message = outcome(path)[1]
        assert not message or "ONNX" in message


SMALL = lenet().SerializeToString()


@pytest.mark.parametrize(("content", "words"), [
    (b"", "contains no ONNX graph"),
    (b"PK\x03\x04checkpoint", "a ZIP archive, such as a checkpoint of PyTorch, not ONNX"),
    (b"\x80\x02}q", "a Python pickle, not ONNX"),
    (b"\x89HDF\r\n", "an HDF5 file, not ONNX"),
    (b"import torch\n", "is no ONNX model, or is damaged"),
    (b"\x08\x0a", "contains no ONNX graph"),
    (inside(7, b""), "contains no ONNX graph"),
    (SMALL[:-7], "is no ONNX model, or is damaged"),
    (b"\x08\x0a" + varint(7 << 3 | 2) + varint(1 << 40), "a field is longer than its message"),
    (b"\x08" + b"\xff" * 20, "a number does not end"),
    (b"\x0b", "a field has an unknown type"),
])  # fmt: skip
def test_what_is_no_onnx_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=words):
        read_graph(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/null"), Path("/dev/zero")):
        with pytest.raises(CommandError, match=r"is no file|cannot be read"):
            read_graph(path)
    with pytest.raises(CommandError, match="No such file"):
        read_graph(tmp_path / "missing")


def test_graphs_nested_too_deeply(tmp_path: Path) -> None:
    node = helper.make_node("If", ["x"], ["y"], then_branch=nested(20))
    with pytest.raises(CommandError, match="deeper than 16 levels"):
        strip(tmp_path, model([node], [value("x", 1)]))


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = helper.make_node("Foo", ["x"], ["y"], table=b"1" * 5000)
    with monkeypatch.context() as patch:
        patch.setattr(graph_module, "MAX_GRAPH_BYTES", 4000)
        with pytest.raises(CommandError, match="has more than 0 MiB without its weights"):
            strip(tmp_path, model([node], [value("x", 1)]))
    monkeypatch.setattr(graph_module, "MAX_FIELDS", 20)
    with pytest.raises(CommandError, match="too many fields"):
        strip(tmp_path, lenet())


def test_a_large_file_is_not_read_into_memory(tmp_path: Path) -> None:
    """A file with a hole of 3 GiB, which needs no disk."""
    hole = 3 << 30
    path = tmp_path / "large.onnx"
    named = weight("w", 1 << 15, 3 << 15).SerializeToString() + varint(9 << 3 | 2) + varint(hole)
    rest = inside(2, b"after")
    tensor = varint(5 << 3 | 2) + varint(len(named) + hole) + named
    with path.open("wb") as file:
        file.write(b"\x08\x0a" + varint(7 << 3 | 2))
        file.write(varint(len(tensor) + hole + len(rest)) + tensor)
        file.seek(hole, os.SEEK_CUR)
        file.write(rest)
    tracemalloc.start()
    try:
        content = read_graph(path).content
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        path.unlink()
    stripped = ModelProto()
    stripped.ParseFromString(content)
    assert stripped.graph.name == "after"
    assert stripped.graph.initializer[0] == weight("w", 1 << 15, 3 << 15)
    assert peak < 1 << 20
