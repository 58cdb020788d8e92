"""ONNX models for tests: small builders, and networks of the literature without numbers in their
weights.
"""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from apps.core.errors import LabCarbonError
from apps.planner.model_files.onnx_costs import OnnxCosts
from apps.planner.model_files.operators import Shape
from apps.planner.model_files.process import read_file


def weight(name: str, *dims: int, kind: int = TensorProto.FLOAT) -> TensorProto:
    """A weight whose numbers were removed."""
    return TensorProto(name=name, dims=dims, data_type=kind)


def sizes(name: str, *values: int) -> TensorProto:
    """A list of integers with its numbers."""
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def value(name: str, *dims: int | str | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, dims)


def untyped(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[str] = ("y",),
    weights: Sequence[TensorProto] = (),
    *,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> ModelProto:
    graph = helper.make_graph(nodes, "graph", inputs, list(map(untyped, outputs)), weights)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(each, 1) for each in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions)


def read(content: ModelProto | bytes, inputs: Mapping[str, Shape] | None = None) -> OnnxCosts:
    """Read a model as the server does, in a process with limits."""
    data = content if isinstance(content, bytes) else content.SerializeToString()
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return read_file(file, inputs or {})


def refusal(content: ModelProto | bytes, inputs: Mapping[str, Shape] | None = None) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(LabCarbonError) as caught:
        read(content, inputs)
    assert caught.value.hint
    return caught.value.message


class Network:
    """Builds a network of convolutions layer by layer. ``shape``: of the last output, without the
    batch.
    """

    def __init__(self, name: str, *shape: int) -> None:
        self.name, self.shape, self.input_shape = name, shape, shape
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.last = "x"

    def add(
        self, kind: str, *weights: TensorProto, also: Sequence[str] = (), **attributes: Any
    ) -> str:
        output = f"v{len(self.nodes)}"
        names = [self.last, *also, *(each.name for each in weights)]
        self.nodes.append(helper.make_node(kind, names, [output], **attributes))
        self.weights += weights
        self.last = output
        return output

    def conv(
        self, channels: int, kernel: int, *, stride: int = 1, pad: int = 0, bias: bool = True,
        groups: int = 1,
    ) -> "Network":  # fmt: skip
        number = len(self.nodes)
        parts = [weight(f"w{number}", channels, self.shape[0] // groups, kernel, kernel)]
        parts += [weight(f"b{number}", channels)] if bias else []
        self.add("Conv", *parts, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                 group=groups)  # fmt: skip
        self.shape = (
            channels,
            *((size + 2 * pad - kernel) // stride + 1 for size in self.shape[1:]),
        )
        return self

    def norm(self) -> "Network":
        number, channels = len(self.nodes), self.shape[0]
        self.add("BatchNormalization", *(weight(f"norm{number}{n}", channels) for n in "gbmv"))
        return self

    def relu(self) -> "Network":
        self.add("Relu")
        return self

    def pool(self, kernel: int, stride: int, pad: int = 0) -> "Network":
        self.add("MaxPool", kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        self.shape = (
            self.shape[0], *((size + 2 * pad - kernel) // stride + 1 for size in self.shape[1:])
        )  # fmt: skip
        return self

    def flatten(self) -> "Network":
        self.add("Flatten")
        count = 1
        for size in self.shape:
            count *= size
        self.shape = (count,)
        return self

    def linear(self, width: int, *, bias: bool = True) -> "Network":
        number = len(self.nodes)
        parts = [weight(f"w{number}", width, self.shape[0])]
        parts += [weight(f"b{number}", width)] if bias else []
        self.add("Gemm", *parts, transB=1)
        self.shape = (width,)
        return self

    def build(self) -> ModelProto:
        inputs = [value("x", "batch", *self.input_shape)]
        built = model(self.nodes, inputs, [self.last], self.weights)
        built.graph.name = self.name
        return built


def lenet() -> ModelProto:
    """The network of the lesson: 6 and 16 filters of 5 × 5, 120, 60 and 10 units without bias."""
    net = Network("lenet", 1, 28, 28).conv(6, 5).relu().pool(2, 2).conv(16, 5).relu().pool(2, 2)
    net.flatten().linear(120, bias=False).relu().linear(60, bias=False).relu()
    return net.linear(10, bias=False).relu().build()


def alexnet() -> ModelProto:
    """AlexNet as torchvision has it (Krizhevsky 2014, one column)."""
    net = Network("alexnet", 3, 224, 224).conv(64, 11, stride=4, pad=2).relu().pool(3, 2)
    net.conv(192, 5, pad=2).relu().pool(3, 2).conv(384, 3, pad=1).relu().conv(256, 3, pad=1).relu()
    net.conv(256, 3, pad=1).relu().pool(3, 2).flatten()
    return net.linear(4096).relu().linear(4096).relu().linear(1000).build()


def resnet50() -> ModelProto:
    """ResNet-50 with the stride in the 3 × 3 convolutions, as torchvision has it."""
    net = Network("resnet50", 3, 224, 224)
    net.conv(64, 7, stride=2, pad=3, bias=False).norm().relu().pool(3, 2, pad=1)
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            start, start_shape = net.last, net.shape
            net.conv(width, 1, bias=False).norm().relu()
            net.conv(width, 3, stride=stride, pad=1, bias=False).norm().relu()
            net.conv(4 * width, 1, bias=False).norm()
            end, end_shape = net.last, net.shape
            net.last, net.shape = start, start_shape
            if block == 0:
                net.conv(4 * width, 1, stride=stride, bias=False).norm()
            shortcut = net.last
            net.last, net.shape = end, end_shape
            net.add("Add", also=[shortcut])
            net.relu()
    net.add("GlobalAveragePool")
    net.shape = (net.shape[0], 1, 1)
    return net.flatten().linear(1000).build()


def nested(depth: int) -> GraphProto:
    """A graph with ``depth`` graphs inside one another."""
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["i"])], "g", [], [untyped("i")])
    for _ in range(depth):
        node = helper.make_node("If", ["c"], ["i"], then_branch=graph, else_branch=graph)
        del node.attribute[1]
        graph = helper.make_graph([node], "g", [], [untyped("i")])
    return graph
