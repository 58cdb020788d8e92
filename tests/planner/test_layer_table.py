"""Layer tables: costs of well-known models, and errors with their line."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.planner.formulas import layer_table
from apps.planner.formulas.layer_table import LayerTableError, read_layer_table
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.presets import presets
from tests.planner.layer_tables import (
    ALEXNET_2012,
    ALEXNET_TORCHVISION,
    LENET,
    VGG16,
    VIT_B_16,
    resnet50,
)


def costs(text: str, shape: str = "3x224x224") -> ModelCosts:
    return read_layer_table(text, input_shape=shape)


def test_lenet_has_the_operations_of_the_lesson_layer_by_layer() -> None:
    model = costs(LENET, "1x28x28")
    assert [layer.operations for layer in model.layers] == [
        89_856, 6_912, 2_592, 154_624, 2_048, 768, 30_720, 240, 7_200, 120, 600, 20,
    ]  # fmt: skip
    assert sum(layer.operations for layer in model.layers) == 295_700
    # 6 · 25 + 6, 16 · 150 + 16, 256 · 120, 120 · 60, 60 · 10
    assert [layer.parameters for layer in model.layers if layer.parameters] == [
        156, 2_416, 30_720, 7_200, 600,
    ]  # fmt: skip
    assert [layer.input_elements for layer in model.layers[:4]] == [784, 3_456, 3_456, 864]


def test_alexnet_of_2012_has_its_parameters_macs_and_outputs() -> None:
    model = costs(ALEXNET_2012, "3x227x227")
    assert model.parameters == 62_378_344
    # By hand: 55² · 96 · 363, 27² · 256 · 2400, 13² · 384 · 2304, 13² · 384 · 3456,
    # 13² · 256 · 3456, 9216 · 4096, 4096², 4096 · 1000
    assert [layer.macs for layer in model.layers if layer.macs] == [
        105_415_200, 447_897_600, 149_520_384, 224_280_576, 149_520_384, 37_748_736, 16_777_216,
        4_096_000,
    ]  # fmt: skip
    # N of accounting over conv, ReLU, LRN, pool and linear layers
    assert model.layer_outputs == 1_917_032
    assert model.parameter_layer_outputs == 659_272


def test_two_groups_give_the_original_alexnet() -> None:
    text = ALEXNET_2012
    for line in ("conv 256 5x5 pad 2", "conv 256 3x3 pad 1"):
        text = text.replace(line, f"{line} groups 2")
    first, second = "conv 384 3x3 pad 1\nrelu\n", "conv 384 3x3 pad 1 groups 2\nrelu\n"
    text = text.replace(first + first, first + second)
    assert costs(text, "3x227x227").parameters == 60_965_224


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("alexnet", ALEXNET_TORCHVISION),
        ("vgg16", VGG16),
        ("resnet50", resnet50()),
        ("vit_b_16", VIT_B_16),
    ],
)
def test_a_table_agrees_with_the_preset_that_was_computed_from_code(name: str, text: str) -> None:
    model, preset = costs(text), presets()[name]
    assert model.parameters == preset.parameters
    assert model.macs == preset.macs
    assert model.buffer_elements == preset.buffer_elements
    assert model.input_elements == preset.input_elements


@pytest.mark.parametrize(("name", "text"), [("alexnet", ALEXNET_TORCHVISION), ("vgg16", VGG16)])
def test_outputs_of_a_model_without_branches_agree_with_its_preset(name: str, text: str) -> None:
    model, preset = costs(text), presets()[name]
    assert model.layer_outputs == preset.layer_outputs
    assert model.parameter_layer_outputs == preset.parameter_layer_outputs


def test_gpt2_has_the_parameters_of_its_preset() -> None:
    block = "layer norm\nattention 12\nlayer norm\nlinear 3072\ngelu\nlinear 768"
    text = f"embedding 50257 768\npositions\nrepeat 12\n{block}\nend\nlayer norm"
    # Its output layer shares the weights of the embedding.
    assert costs(text, "1024 tokens").parameters == presets()["gpt2_small"].parameters


def test_other_kinds() -> None:
    model = costs(
        "deconv 8 2x2 stride 2\naverage pool 2x2\nconv 4 3x3 dilation 2 pad 2 groups 2\n"
        "both: concat with input\nflatten\nsigmoid",
        "4x6x5",
    )
    deconv, pool, conv, concat, flat, sigmoid = model.layers
    assert (deconv.parameters, deconv.macs, deconv.output_elements) == (136, 3_840, 960)
    assert (pool.operations, pool.output_elements) == (960, 240)
    assert (conv.parameters, conv.macs, conv.output_elements) == (148, 4_320, 120)
    assert (concat.name, concat.input_elements, concat.output_elements) == ("both", 240, 240)
    assert (flat.output_elements, sigmoid.operations) == (240, 960)
    assert model.layer_outputs == 960 + 240 + 120 + 240 + 240
    assert model.largest_output == 960


def test_comments_empty_lines_and_capitals_are_accepted() -> None:
    model = costs("# a model\n\n  First: Conv 4 3×3  STRIDE 2 # half\nReLU from First\n", "3x8x8")
    assert [layer.name for layer in model.layers] == ["First", "relu 2"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("relu\nconvolution 4 3x3", 2, "kind of layer 'convolution' is unknown"),
        ("conv 4", 1, "conv needs a size, such as: conv 32 5x5"),
        ("conv 3x3", 1, "'3x3' is not a whole number between 1 and"),
        ("conv 0 3x3", 1, "'0' is not a whole number between 1"),
        ("conv -4 3x3", 1, "'-4' is not a whole number"),
        ("conv 4 3x3 stride 0", 1, "'0' is not a whole number between 1"),
        ("conv 4 3x3 stride", 1, "'' is not a whole number"),
        ("conv 4 3x3 stride 1 stride 2", 1, "no option 'stride' here"),
        ("relu stride 2", 1, "relu has no option 'stride'"),
        ("relu no bias", 1, "relu has no option 'no'"),
        ("linear", 1, "linear needs more numbers, such as: linear 120"),
        ("\n\nconv 4 99x99", 3, "kernel 99x99 is larger than its input 8x8"),
        ("conv 4 3x3 groups 2", 1, "groups 2 does not divide 3 input"),
        ("linear 10\nconv 4 3x3", 2, "conv needs an image"),
        ("attention 4", 1, "attention needs a sequence"),
        ("tokens\nattention 2", 2, "2 heads do not divide 3 features"),
        ("embedding 10 4", 1, "embedding needs tokens"),
        ("add", 1, "add needs a second input"),
        ("a: conv 4 3x3\nadd with input", 2, "two inputs of one shape"),
        ("a: conv 4 3x3\nconcat with input", 2, "differ in their first size only"),
        ("relu from nowhere", 1, "No earlier line has the label 'nowhere'"),
        ("input: relu", 1, "Use another label"),
        ("repeat 2\nrelu", 1, "repeat without 'end'"),
        ("end", 1, "'end' without 'repeat'"),
        ("repeat 2\nrepeat 2\nend\nend", 2, "cannot contain a repeat"),
        ("repeat", 1, "repeat needs a number"),
        ("repeat 5001\nrelu\nend", 3, "more than 5000 layers"),
        ("repeat 5000\nrelu\nend\nrelu", 4, "more than 5000 layers"),
        ("conv 999999999 99x99 pad 60", 1, "more than 10000000000000 outputs"),
        ("deconv 4 1x1 pad 9", 1, "leaves no output"),
        ("adaptive pool 9x9", 1, "larger than its input"),
        ("label:", 1, "kind of layer '' is unknown"),
        ("", 0, "The layer table is empty"),
        ("relu\n" * 20_000, 0, "more than 65536 characters"),
    ],
)
def test_an_error_states_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(LayerTableError) as error:
        costs(text, "3x8x8")
    assert error.value.line == line
    assert message in str(error.value)
    assert str(error.value).startswith(f"Line {line}: ") is bool(line)


@pytest.mark.parametrize("shape", ["", "3x", "x", "-3x4", "0x4x4", "9999999999x2", "1x2x3x4x5"])
def test_an_input_that_is_no_shape(shape: str) -> None:
    with pytest.raises(LayerTableError, match="Input"):
        costs("relu", shape)


def test_the_input_has_a_limit() -> None:
    with pytest.raises(LayerTableError, match="The input has more than"):
        costs("relu", "1000000000x1000000000")


@given(st.text(alphabet="conv linearpool0123456789x:\n#add with from repeat end", max_size=200))
def test_any_text_gives_costs_or_an_error(text: str) -> None:
    with contextlib.suppress(LayerTableError):
        assert 0 < len(costs(text, "3x8x8").layers) <= layer_table.MAX_LAYERS


@given(
    channels=st.integers(1, 8), size=st.integers(1, 12), out=st.integers(1, 8),
    kernel=st.integers(1, 4), stride=st.integers(1, 3), pad=st.integers(0, 2),
)  # fmt: skip
def test_a_convolution_counts_what_a_loop_over_its_windows_counts(
    channels: int, size: int, out: int, kernel: int, stride: int, pad: int
) -> None:
    text = f"conv {out} {kernel}x{kernel} stride {stride} pad {pad}"
    starts = [
        start for start in range(0, size + 2 * pad, stride) if start + kernel <= size + 2 * pad
    ]
    if not starts:
        with pytest.raises(LayerTableError):
            costs(text, f"{channels}x{size}x{size}")
        return
    windows = sum(1 for _row in starts for _column in starts)
    (layer,) = costs(text, f"{channels}x{size}x{size}").layers
    assert layer.output_elements == windows * out
    assert layer.macs == sum(channels * kernel * kernel for _ in range(windows * out))
    assert layer.operations == layer.macs + windows * out


def test_the_document_lists_all_kinds() -> None:
    text = (Path(__file__).parents[2] / "docs" / "planner.md").read_text(encoding="utf-8")
    assert [kind for kind in layer_table.KINDS if f"`{kind}`" not in text] == []
