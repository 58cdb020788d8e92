"""Networks of the literature have the parameters and MACs that their sources state."""

import pytest
from onnx import ModelProto

from apps.planner.formulas.layer_table import read_layer_table
from tests.planner.layer_tables import LENET
from tests.planner.model_files.graphs import alexnet, lenet, read, resnet50

# torchvision 0.21, documentation of the models: parameters and GFLOPS (which are MACs).
PUBLISHED = [
    (alexnet, 61_100_840, 714_188_480),
    (resnet50, 25_557_032, 4_089_184_256),
]


@pytest.mark.parametrize(("build", "parameters", "macs"), PUBLISHED)
def test_parameters_and_macs(build: "type[ModelProto]", parameters: int, macs: int) -> None:
    costs = read(build())
    assert costs.parameters == parameters
    assert abs(costs.macs - macs) * 100 <= macs
    assert costs.unknown == ()


def test_the_lesson_counts_lenet_so() -> None:
    costs = read(lenet())
    assert [layer.operations for layer in costs.layers] == [
        89_856, 6_912, 2_592, 154_624, 2_048, 768, 30_720, 240, 7_200, 120, 600, 20,
    ]  # fmt: skip
    assert costs.operations == 295_700
    assert costs.layer_outputs == sum(layer.output_elements for layer in costs.layers)


def test_a_layer_table_of_the_same_network_has_the_same_costs() -> None:
    costs, table = read(lenet()), read_layer_table(LENET, input_shape="1x28x28")
    for name in ("parameters", "macs", "layer_outputs", "parameter_layer_outputs", "input_elements",
                 "largest_output"):  # fmt: skip
        assert getattr(costs, name) == getattr(table, name), name
    assert [layer.operations for layer in costs.layers] == [
        layer.operations for layer in table.layers
    ]


def test_batch_normalisation_has_two_parameters_and_two_buffers_a_channel() -> None:
    costs = read(resnet50())
    norms = [layer for layer in costs.layers if layer.kind == "BatchNormalization"]
    assert sum(layer.parameters for layer in norms) == costs.buffer_elements == 53_120
    assert costs.inputs[0].shape == (1, 3, 224, 224)
    assert costs.largest_output == 64 * 112 * 112
