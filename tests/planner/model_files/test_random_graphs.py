"""Costs of random small graphs equal an oracle that multiplies and adds one by one.

The oracle shares no code with the product: it loops over each output position and counts.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper

from apps.planner.model_files.onnx_reader import read_costs
from tests.examples import examples
from tests.planner.model_files.graphs import model, value, weight

Chain = tuple[ModelProto, "Tally"]


@dataclass
class Tally:
    """What the oracle counted."""

    parameters: int = 0
    macs: int = 0
    operations: int = 0
    outputs: list[int] = field(default_factory=list)


def positions(size: int, pad: int, kernel: int, stride: int, dilation: int) -> list[int]:
    """Return where a window starts in a padded line."""
    found, start = [], 0
    while start + dilation * (kernel - 1) < size + 2 * pad:
        found.append(start)
        start += stride
    return found


class Random:
    """Appends random layers to a chain and counts them."""

    def __init__(self, draw: Any, shape: tuple[int, ...]) -> None:
        self.draw, self.shape = draw, shape
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.tally = Tally()
        self.last = "x"

    def number(self, least: int, most: int) -> int:
        return int(self.draw(st.integers(least, most)))

    def emit(self, kind: str, inputs: list[str], elements: int, **attributes: Any) -> None:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        self.tally.outputs.append(elements)
        self.last = output

    def make_weight(self, *dims: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(weight(name, *dims))
        for _ in counted(*dims):
            self.tally.parameters += 1
        return name

    def conv(self) -> None:
        channels, height, width = self.shape
        groups = self.draw(
            st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0])
        )
        out = groups * self.number(1, 2)
        kernel, stride = self.number(1, min(3, height, width)), self.number(1, 2)
        pad, has_bias = self.number(0, 1), self.draw(st.booleans())
        rows = positions(height, pad, kernel, stride, 1)
        columns = positions(width, pad, kernel, stride, 1)
        inputs = [self.last, self.make_weight(out, channels // groups, kernel, kernel)]
        inputs += [self.make_weight(out)] if has_bias else []
        for _ in counted(out, len(rows), len(columns)):
            for _ in counted(channels // groups, kernel, kernel):
                self.tally.macs += 1
                self.tally.operations += 1
            self.tally.operations += has_bias
        self.shape = (out, len(rows), len(columns))
        self.emit("Conv", inputs, out * len(rows) * len(columns), group=groups,
                  kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)  # fmt: skip

    def conv_transpose(self) -> None:
        channels, height, width = self.shape
        kernel, stride, out = self.number(1, 3), self.number(1, 2), self.number(1, 2)
        inputs = [self.last, self.make_weight(channels, out, kernel, kernel)]
        rows: set[int] = set()
        columns: set[int] = set()
        for _, row, column in counted(channels, height, width):
            for _, down, right in counted(out, kernel, kernel):
                rows.add(row * stride + down)
                columns.add(column * stride + right)
                self.tally.macs += 1
                self.tally.operations += 1
        self.shape = (out, max(rows) + 1, max(columns) + 1)
        self.emit("ConvTranspose", inputs, out * self.shape[1] * self.shape[2],
                  kernel_shape=[kernel] * 2, strides=[stride] * 2)  # fmt: skip

    def relu(self) -> None:
        for _ in counted(*self.shape):
            self.tally.operations += 2
        self.emit("Relu", [self.last], elements_of(self.shape))

    def sigmoid(self) -> None:
        for _ in counted(*self.shape):
            self.tally.operations += 4  # negate, exponential, add, divide
        self.emit("Sigmoid", [self.last], elements_of(self.shape))

    def add_to_itself(self) -> None:
        for _ in counted(*self.shape):
            self.tally.operations += 1
        self.emit("Add", [self.last, self.last], elements_of(self.shape))

    def concat(self) -> None:
        self.shape = (2 * self.shape[0], *self.shape[1:])
        self.emit("Concat", [self.last, self.last], elements_of(self.shape), axis=1)

    def pool(self) -> None:
        channels, height, width = self.shape
        kernel, stride = self.number(1, min(3, height, width)), self.number(1, 2)
        rows = positions(height, 0, kernel, stride, 1)
        columns = positions(width, 0, kernel, stride, 1)
        for _ in counted(channels, len(rows), len(columns)):
            for _ in range(kernel * kernel - 1):
                self.tally.operations += 1
        self.shape = (channels, len(rows), len(columns))
        self.emit("MaxPool", [self.last], elements_of(self.shape), kernel_shape=[kernel] * 2,
                  strides=[stride] * 2)  # fmt: skip

    def flatten(self) -> None:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node("Flatten", [self.last], [output]))
        self.last, self.shape = output, (elements_of(self.shape),)

    def linear(self) -> None:
        width, has_bias = self.number(1, 4), self.draw(st.booleans())
        is_gemm = self.draw(st.booleans())
        for _ in counted(width):
            for _ in counted(self.shape[0]):
                self.tally.macs += 1
                self.tally.operations += 1
            self.tally.operations += has_bias and is_gemm
        inputs = [self.last, self.make_weight(self.shape[0], width)]
        inputs += [self.make_weight(width)] if has_bias and is_gemm else []
        self.shape = (width,)
        self.emit("Gemm" if is_gemm else "MatMul", inputs, width)

    def attention_scores(self) -> None:
        """Multiply the vector by itself: an outer product, as a product of two activations."""
        (width,) = self.shape
        turned = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node("Transpose", [self.last], [turned], perm=[1, 0]))
        self.tally.outputs.append(width)
        for _ in counted(width, width):
            self.tally.macs += 1
            self.tally.operations += 1
        before = self.last
        self.emit("MatMul", [turned, before], width * width)
        self.shape = ()


def counted(*sizes: int) -> list[tuple[int, ...]]:
    """Return every index of an array of these sizes."""
    indices: list[tuple[int, ...]] = [()]
    for size in sizes:
        indices = [(*index, i) for index in indices for i in range(size)]
    return indices


def elements_of(shape: tuple[int, ...]) -> int:
    return len(counted(*shape))


@st.composite
def chains(draw: Any) -> Chain:
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(1, 6)))
    chain = Random(draw, shape)
    images = ("conv", "conv_transpose", "relu", "sigmoid", "add_to_itself", "concat", "pool")
    for step in draw(st.lists(st.sampled_from(images), max_size=4)):
        getattr(chain, step)()
    chain.flatten()
    for step in draw(st.lists(st.sampled_from(("linear", "relu", "sigmoid")), max_size=3)):
        getattr(chain, step)()
    chain.relu() if not chain.tally.outputs else None
    if chain.shape[0] <= 16 and draw(st.booleans()):
        chain.attention_scores()
    built = model(chain.nodes, [value("x", "n", *shape)], [chain.last], chain.weights)
    return built, chain.tally


@given(chains())
@settings(max_examples=examples(100))
def test_costs_equal_the_oracle(chain: Chain) -> None:
    built, tally = chain
    costs = read_costs(built.SerializeToString(), {})["costs"]
    assert costs["parameters"] == tally.parameters
    assert costs["macs"] == tally.macs
    assert costs["operations"] == tally.operations
    assert [layer["output_elements"] for layer in costs["layers"]] == tally.outputs
    assert costs["layer_outputs"] == sum(tally.outputs)
    assert costs["unknown"] == []
