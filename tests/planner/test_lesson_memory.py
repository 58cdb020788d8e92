"""The lesson's formula of training memory, to the byte."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.planner.formulas.layer_table import read_layer_table
from apps.planner.formulas.lesson_memory import (
    OPTIMISER_STATES,
    PRECISION_BYTES,
    LessonInput,
    compare_assumptions,
    compute_lesson_memory,
    count_cards,
)
from tests.planner.layer_tables import ALEXNET_2012

GB = 10**9
GIB = 2**30

ALEXNET = LessonInput(62_378_344, 1_917_032, 128, "momentum")

# P, N, M, optimiser, precision, k; weights, optimiser, activations, total: computed by hand.
CASES = [
    # 1.2 · (4 + 4 + 0 + 4)
    ((1, 1, 1, "sgd", "fp32", 1), (4, 0, 4, 14)),
    # 1.2 · (4 + 4 + 8 + 8) = 28.8
    ((1, 1, 1, "adam", "fp32", 2), (4, 8, 8, 29)),
    # 1.2 · (40 + 40 + 40 + 3 · 20 · 2 · 4) = 720
    ((10, 20, 3, "momentum", "fp32", 2), (40, 40, 480, 720)),
    # 1.2 · (200 + 200 + 400 + 8 · 50 · 1 · 2) = 1920
    ((100, 50, 8, "adamw", "fp16", 1), (200, 400, 800, 1_920)),
    # 1.2 · (8 000 + 8 000 + 0 + 2 · 10 · 2 · 8) = 19 584
    ((1_000, 10, 2, "sgd", "fp64", 2), (8_000, 0, 320, 19_584)),
    # 1.2 · (7 + 7 + 14 + 0): no sample; 33.6
    ((7, 5, 0, "adam", "int8", 2), (7, 14, 0, 34)),
    # 1.2 · (1 + 1 + 0 + 10) = 14.4
    ((1, 5, 1, "sgd", "fp8", 2), (1, 0, 10, 14)),
    # LeNet of the lesson: 1.2 · (3 · 41 092 · 4 + 64 · 14 602 · 2 · 4)
    ((41_092, 14_602, 64, "momentum", "fp32", 2), (164_368, 164_368, 7_476_224, 9_563_194)),
    # ResNet-50: 1.2 · (4 · 25 557 032 · 4 + 16 · 32 040 424 · 1 · 4)
    (
        (25_557_032, 32_040_424, 16, "adam", "fp32", 1),
        (102_228_128, 204_456_256, 2_050_587_136, 2_951_399_578),
    ),
    # AlexNet of 2012: 1.2 · (3 · 62 378 344 · 4 + 128 · 1 917 032 · 2 · 4)
    (
        (62_378_344, 1_917_032, 128, "momentum", "fp32", 2),
        (249_513_376, 249_513_376, 1_963_040_768, 3_253_897_075),
    ),
]


@pytest.mark.parametrize(("letters", "expected"), CASES)
def test_cases_computed_by_hand(
    letters: tuple[int, int, int, str, str, int], expected: tuple[int, int, int, int]
) -> None:
    memory = compute_lesson_memory(LessonInput(*letters))
    assert (
        memory.weight_bytes,
        memory.optimiser_bytes,
        memory.activation_bytes,
        memory.total_bytes,
    ) == expected
    assert memory.gradient_bytes == memory.weight_bytes


def test_alexnet_needs_two_cards_of_3_gb() -> None:
    """Without the groups of the original, and with N over conv, ReLU, LRN, pool and linear."""
    model = read_layer_table(ALEXNET_2012, input_shape="3x227x227")
    assert (model.parameters, model.layer_outputs) == (ALEXNET.parameters, ALEXNET.layer_outputs)
    total = compute_lesson_memory(ALEXNET).total_bytes
    assert total == 3_253_897_075  # 3.25 GB
    # Also of cards with 3 GiB, 3.22 GB.
    assert count_cards(total, 3 * GB) == count_cards(total, 3 * GIB) == 2


def test_layer_outputs_and_unit_constant_decide_the_cards_of_alexnet() -> None:
    """The definition of N has the largest effect, then k: each alone makes one card enough."""
    assumptions = compare_assumptions(ALEXNET, 3 * GB, parameter_layer_outputs=659_272)
    assert [(item.key, item.total_bytes, item.cards) for item in assumptions] == [
        # 1.2 · (748 540 128 + 128 · 659 272 · 2 · 4)
        ("layer_outputs", 1_708_361_587, 1),
        ("unit_constant", 2_076_072_614, 1),
        ("margin", 2_711_580_896, 1),
    ]


def test_no_assumption_decides_on_a_large_card() -> None:
    assert compare_assumptions(ALEXNET, 80 * GB, parameter_layer_outputs=659_272) == []


def test_n_of_parameter_layers_is_compared_only_if_it_is_available() -> None:
    keys = {item.key for item in compare_assumptions(ALEXNET, 3 * GB)}
    assert "layer_outputs" not in keys


@given(
    st.builds(
        LessonInput,
        parameters=st.integers(0, 10**12),
        layer_outputs=st.integers(0, 10**12),
        batch=st.integers(0, 10**5),
        optimiser=st.sampled_from(sorted(OPTIMISER_STATES)),
        precision=st.sampled_from(sorted(PRECISION_BYTES)),
        unit_constant=st.integers(1, 4),
    )
)
def test_the_total_is_the_formula_rounded_once(values: LessonInput) -> None:
    p, b, j = values.parameters, values.number_bytes, values.optimiser_states
    mnk = values.batch * values.layer_outputs * values.unit_constant
    exact = Fraction(12, 10) * (p * b + p * b + p * j * b + mnk * b)
    memory = compute_lesson_memory(values)
    assert Fraction(-1, 2) < memory.total_bytes - exact <= Fraction(1, 2)
    assert memory.total_bytes == memory.without_margin_bytes + memory.margin_bytes
