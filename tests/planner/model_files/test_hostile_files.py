"""Hostile model files are refused with a sentence, within the memory and time of the process."""

import gzip
import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper

from apps.core.errors import InvalidInput, TooLarge
from apps.planner.model_files import process
from apps.planner.model_files.limits import MAX_MEMORY_BYTES
from apps.planner.model_files.process import ReaderBusy, ReaderUnavailable
from apps.planner.model_files.uploads import MAX_FILE_BYTES, store_upload
from tests.planner.model_files.graphs import (
    lenet,
    model,
    nested,
    read,
    refusal,
    untyped,
    value,
    weight,
)

node = helper.make_node
RELU = node("Relu", ["x"], ["y"])
X = value("x", "n", 4)


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def inside(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def truncated() -> bytes:
    return lenet().SerializeToString()[:-7]


def random_bytes() -> bytes:
    return b"\x08" + random.Random(1).randbytes(10_000)


def only_a_version() -> bytes:
    return b"\x08\x0a"


def claims_two_gigabytes() -> bytes:
    return b"\x08\x0a" + varint(7 << 3 | 2) + varint((1 << 31) - 1) + b"x" * 100


def cycle() -> ModelProto:
    return model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], [X], ["b"])


def own_output() -> ModelProto:
    return model([node("Add", ["x", "y"], ["y"])], [X])


def reads_nothing() -> ModelProto:
    return model([node("Add", ["x", "missing"], ["y"])], [X])


def computed_twice() -> ModelProto:
    return model([RELU, node("Sigmoid", ["x"], ["y"])], [X])


def same_weight_twice() -> ModelProto:
    return model([node("Add", ["x", "w"], ["y"])], [X], weights=[weight("w", 4), weight("w", 4)])


def negative_input() -> ModelProto:
    return model([RELU], [value("x", 1, -7)])


def negative_weight() -> ModelProto:
    return model([node("MatMul", ["x", "w"], ["y"])], [X], weights=[weight("w", 4, -4)])


def huge_weight() -> ModelProto:
    return model([node("MatMul", ["x", "w"], ["y"])], [X], weights=[weight("w", 4, 1 << 62)])


def product_of_dimensions_overflows() -> ModelProto:
    return model([RELU], [value("x", 1, 1 << 32, 1 << 32, 1 << 32)])


def many_dimensions() -> ModelProto:
    return model([RELU], [value("x", *[1] * 100_000)])


def shape_without_content() -> ModelProto:
    lying = weight("w", 4, 1 << 29)  # 2 GiB
    lying.raw_data = b"0123456789"
    return model([node("MatMul", ["x", "w"], ["y"])], [X], weights=[lying])


def more_content_than_shape() -> ModelProto:
    lying = weight("w", 4)
    lying.float_data.extend([0.0] * 100)
    return model([node("Add", ["x", "w"], ["y"])], [X], weights=[lying])


def unknown_type() -> ModelProto:
    return model([node("Add", ["x", "w"], ["y"])], [X], weights=[weight("w", 4, kind=99)])


def external(path: str, dims: int = 4) -> TensorProto:
    tensor = weight("w", dims)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=path)
    return tensor


def external_path() -> ModelProto:
    weights = [external("../../etc/passwd")]
    return model([node("Add", ["x", "w"], ["y"])], [X], weights=weights)


def external_in_a_constant() -> ModelProto:
    constant = node("Constant", [], ["c"], value=external("/etc/shadow"))
    return model([constant, node("Add", ["x", "c"], ["y"])], [X])


def external_in_a_subgraph() -> ModelProto:
    graph = nested(2)
    graph.node[0].attribute[0].g.initializer.append(external("/dev/zero"))
    return model([node("If", ["x"], ["y"], then_branch=graph)], [X])


def deep_subgraphs() -> ModelProto:
    return model([node("If", ["x"], ["y"], then_branch=nested(9))], [X])


def deeper_than_protobuf_reads() -> bytes:
    graph = b""
    for _ in range(400):
        graph = inside(1, inside(5, inside(6, graph)))  # graph → node → attribute → graph
    return b"\x08\x0a" + inside(7, graph)


def a_million_nodes() -> bytes:
    one = inside(1, RELU.SerializeToString())
    return b"\x08\x0a" + inside(7, one * 1_000_000)


def a_million_constants() -> bytes:
    return b"\x08\x0a" + inside(7, inside(5, b"\x10\x01") * 1_000_000)


def function_calls_itself() -> ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    calls = [node("F", ["a"], ["b"], domain="f")]
    function = helper.make_function("f", "F", ["a"], ["b"], calls, opsets)
    return model([node("F", ["x"], ["y"], domain="f")], [X], functions=[function], domains=["f"])


def functions_double_thirty_times() -> ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = []
    for level in range(30):
        kind = f"F{level - 1}" if level else "Relu"
        calls = [node(kind, ["a"], ["m"], domain="f" if level else ""),
                 node(kind, ["m"], ["b"], domain="f" if level else "")]  # fmt: skip
        functions.append(helper.make_function("f", f"F{level}", ["a"], ["b"], calls, opsets))
    return model([node("F29", ["x"], ["y"], domain="f")], [X], functions=functions, domains=["f"])


def shapes_do_not_fit() -> ModelProto:
    return model([node("MatMul", ["x", "w"], ["y"])], [X], weights=[weight("w", 5, 5)])


def sum_beyond_64_bits() -> ModelProto:
    size = 1 << 20
    nodes = [node("MatMul", ["x", "w"], [f"y{i}"]) for i in range(16)]
    return model(nodes, [value("x", 1, size, size)], ["y0"], [weight("w", size, size)])


def name_is_not_utf8() -> bytes:
    return model([RELU], [X]).SerializeToString().replace(b"Relu", b"\xff\xfe\xff\xfe")


def no_input() -> ModelProto:
    return model([node("Relu", ["w"], ["y"])], [], weights=[weight("w", 4)])


def sparse_weights() -> ModelProto:
    built = model([RELU], [X])
    built.graph.sparse_initializer.add().dims.append(1 << 40)
    return built


def result_is_huge() -> ModelProto:
    """The result of a node has 2^60 elements."""
    many = helper.make_tensor("s", TensorProto.INT64, [3], [1 << 20] * 3)
    return model([node("Expand", ["x", "s"], ["y"])], [value("x", 1)], weights=[many])


BUILDERS: list[Callable[[], ModelProto | bytes]] = [
    truncated, random_bytes, only_a_version, claims_two_gigabytes, cycle, own_output, reads_nothing,
    computed_twice, same_weight_twice, negative_input, negative_weight, huge_weight,
    product_of_dimensions_overflows, many_dimensions, shape_without_content,
    more_content_than_shape, unknown_type, external_path, external_in_a_constant,
    external_in_a_subgraph, deep_subgraphs, deeper_than_protobuf_reads, a_million_nodes,
    a_million_constants, function_calls_itself, functions_double_thirty_times, shapes_do_not_fit,
    sum_beyond_64_bits, name_is_not_utf8, no_input, sparse_weights, result_is_huge,
]  # fmt: skip


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("build", BUILDERS)
def test_a_hostile_file_is_refused_with_a_sentence(build: Callable[[], ModelProto | bytes]) -> None:
    content = build()
    data = content if isinstance(content, bytes) else content.SerializeToString()
    assert len(data) <= MAX_FILE_BYTES
    del content
    before = resident_bytes()
    message = refusal(data)
    assert resident_bytes() - before < 8 << 20  # the server reads no file itself
    assert message.endswith(".")
    assert len(message) < 400
    assert message.isprintable()
    assert "reads model files cannot read" not in message  # foreseen, so no crash


def test_external_paths_are_not_opened_and_the_command_is_named() -> None:
    with pytest.raises(InvalidInput, match="in another file") as caught:
        read(external_path())
    assert "labcarbon-collect plan --onnx" in caught.value.hint


NAMES = (
    "\x00\x1b[31m\x07red",
    "<script>alert(1)</script>",
    "\u202eevil",
    "a" * 100_000,
    "\r\n=1+1",
)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_are_harmless(name: str) -> None:
    nodes = [node("Relu", ["x"], ["m"], name=name), node(name, ["m"], ["y"], domain=name)]
    built = model(nodes, [X], domains=[name])
    built.graph.name = name
    costs = read(built)
    for text in (costs.name, costs.layers[0].name, costs.unknown[0].kind):
        assert text.isprintable()
        assert len(text) <= 120
    assert costs.layers[0].macs == 0
    assert [group.nodes for group in costs.unknown] == [1]


def packed(kind: str) -> bytes:
    content = b"\x00" * (50 << 20)
    if kind == "gzip":
        return gzip.compress(content)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.onnx", content)
    return buffer.getvalue()


@pytest.mark.parametrize(("content", "words"), [
    (packed("zip"), "ZIP archive"), (packed("gzip"), "gzip file"), (b"\x80\x04pickle", "pickle"),
    (b"\x89HDF\r\n", "HDF5"), (b"{}", "no ONNX model"), (b"", "empty"),
], ids=["zip", "gzip", "pickle", "hdf5", "json", "empty"])  # fmt: skip
def test_archives_and_other_formats_are_refused_unread(content: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        store_upload(io.BytesIO(content))


class Endless(io.RawIOBase):
    """A body without an end."""

    given = 0

    def read(self, size: int = -1) -> bytes:
        self.given += size
        return b"\x08" * size


def test_a_body_beyond_the_limit_is_not_read_further() -> None:
    body, before = Endless(), resident_bytes()
    with pytest.raises(TooLarge, match="64 MiB"):
        store_upload(body)
    assert body.given == MAX_FILE_BYTES + 1
    assert resident_bytes() - before < 8 << 20


def run_instead(monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    """Let the process run ``lines`` under its limits, in place of reading a file."""
    program = f"import sys; sys.path.insert(0, sys.argv.pop())\n{lines}"
    monkeypatch.setattr(process, "_PROGRAM", program)


ENDED = "cannot read this file, and ended"
LIMITED = (
    "import json, os, signal, socket\n"
    "from apps.planner.model_files import limits\n"
    "limits.limit_resources()\n"
)


@pytest.mark.parametrize(("lines", "words"), [
    (f"{LIMITED}os.kill(os.getpid(), signal.SIGSEGV)", ENDED),
    (f"{LIMITED}os.abort()", ENDED),
    (f"{LIMITED}print('no JSON')", ENDED),
    (f"{LIMITED}print(json.dumps({{'costs': {{'macs': -1}}}}))", ENDED),
    (f"{LIMITED}print(json.dumps({{}}))", ENDED),
    (f"{LIMITED}sys.stdout.write('x' * 9000000)", "too many layers"),
])  # fmt: skip
def test_a_process_that_fails_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, lines: str, words: str
) -> None:
    run_instead(monkeypatch, lines)
    assert words in refusal(lenet())


@pytest.mark.parametrize("start", ["", "import os; os.close(1)\n"])
def test_endless_waiting_ends_at_the_limit_of_time(
    monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setattr(process, "MAX_WALL_S", 1.0)
    run_instead(monkeypatch, f"{start}import time\ntime.sleep(600)")
    assert "longer than 1 s" in refusal(lenet())


def test_endless_work_ends_at_the_limit_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run_instead(
        monkeypatch,
        "from apps.planner.model_files import limits\n"
        "limits.MAX_CPU_S = 1\nlimits.limit_resources()\nwhile True: pass",
    )
    assert "processor time" in refusal(lenet())


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "from apps.planner.model_files import child, limits\n"
        "def read(content, given): return {'x': bytearray(limits.MAX_MEMORY_BYTES)}\n"
        "child._load_reader = lambda: read\n"
        "child.main()"
    )
    run_instead(monkeypatch, lines)
    assert f"more than {MAX_MEMORY_BYTES >> 20} MiB of memory" in refusal(lenet())


def test_the_process_reaches_no_file_no_network_and_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LABCARBON_SECRET_KEY", "secret-of-the-server")
    lines = f"""{LIMITED}
import resource, subprocess
environment = dict(os.environ)
limits.filter_system_calls()
def attempt(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0
result = [attempt(action) for action in (
    lambda: open("/etc/passwd"), lambda: open("/tmp/x", "w"), lambda: socket.socket(),
    lambda: os.fork(), lambda: os.kill(os.getppid(), 9), lambda: os.listdir("/"),
    lambda: os.execv("/bin/true", ["true"]), lambda: os.unlink("/tmp/x"))]
limit = resource.RLIMIT_AS
text = json.dumps({{"errors": result, "environment": environment}})
print(json.dumps({{"refused": {{"message": text, "hint": "x", "field": "file"}}}}))
"""
    run_instead(monkeypatch, lines)
    seen = json.loads(refusal(lenet()))
    assert seen["errors"] == [1] * 8  # EPERM
    assert "secret-of-the-server" not in str(seen["environment"])
    assert set(seen["environment"]) <= {"LC_ALL", "LC_CTYPE", "OPENBLAS_NUM_THREADS",
                                        "OMP_NUM_THREADS"}  # fmt: skip


def test_without_limits_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "from apps.planner.model_files import child, limits\n"
        "limits._ARCHITECTURES.clear()\n"
        "child.main()"
    )
    run_instead(monkeypatch, lines)
    with pytest.raises(ReaderUnavailable, match="reads none"):
        read(lenet())


def test_one_file_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_WAIT_S", 0.05)
    with process._RUNNING, pytest.raises(ReaderBusy) as caught:
        read(lenet())
    assert (caught.value.status, caught.value.retry_after_s) == (503, 10)
    assert read(lenet()).macs > 0


def test_values_of_subgraphs_are_unknown_and_not_zero() -> None:
    branch = helper.make_graph([node("Relu", ["x"], ["b"])], "g", [], [untyped("b")])
    condition = value("c", kind=TensorProto.BOOL)
    nodes = [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    costs = read(model(nodes, [X, condition]))
    assert [(group.kind, group.reason) for group in costs.unknown] == [("If", "operator")]
