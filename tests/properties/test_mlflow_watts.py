"""GPU watts of MLflow as energy: nothing made, nothing lost, the same in whatever parts they
come.
"""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.trackers.mlflow.power import (
    GAP_US,
    MAX_MW,
    US_PER_MINUTE,
    EnergyPiece,
    Progress,
    Sample,
    gpu_of,
    sample_of,
    split_into_minutes,
)

S = 1_000_000
T = 1_793_000_000 * S // US_PER_MINUTE * US_PER_MINUTE

steps = st.integers(1, 2 * GAP_US)
samples = st.lists(st.tuples(steps, st.integers(0, MAX_MW)), max_size=60).map(
    lambda rows: [
        Sample(T + sum(step for step, _ in rows[: i + 1]), power)
        for i, (_, power) in enumerate(rows)
    ]
)


def _bridged_nj(listed: list[Sample]) -> int:
    return sum(
        after.power_mw * (after.at_us - before.at_us)
        for before, after in pairwise(listed)
        if after.at_us - before.at_us <= GAP_US
    )


@given(samples)
def test_energy_is_conserved_and_never_negative(listed: list[Sample]) -> None:
    pieces, active_events = split_into_minutes(Progress(), listed, is_over=True)
    assert sum(
        piece.energy_mj for piece in pieces
    ) * 1_000_000 + active_events.carry_nj == _bridged_nj(listed)
    assert all(piece.energy_mj >= 0 and piece.start_us < piece.end_us for piece in pieces)
    assert 0 <= active_events.carry_nj < 1_000_000
    assert all(before.end_us <= after.start_us for before, after in pairwise(pieces))
    assert all(
        piece.start_us // US_PER_MINUTE == (piece.end_us - 1) // US_PER_MINUTE for piece in pieces
    )


@given(samples, st.lists(st.integers(0, 60), max_size=6))
def test_parts_give_what_the_whole_gives(listed: list[Sample], cuts: list[int]) -> None:
    whole = split_into_minutes(Progress(), listed, is_over=True)
    found: list[EnergyPiece] = []
    active_events = Progress()
    for cut in [*sorted(cuts), len(listed)]:  # each poll reads the history again from its beginning
        part, active_events = split_into_minutes(active_events, listed[:cut], is_over=False)
        found += part
    part, active_events = split_into_minutes(active_events, listed, is_over=True)
    assert (found + part, active_events) == whole


@given(samples, st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(
    listed: list[Sample], random: st.random_module
) -> None:
    mixed = listed + listed[: len(listed) // 2]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert split_into_minutes(Progress(), mixed, is_over=True) == split_into_minutes(
        Progress(), listed, is_over=True
    )


@given(samples)
def test_what_is_open_is_not_written(listed: list[Sample]) -> None:
    pieces, _ = split_into_minutes(Progress(), listed, is_over=False)
    newest = listed[-1].at_us if listed else 0
    assert all(piece.end_us <= newest for piece in pieces)
    assert all(-(-piece.end_us // US_PER_MINUTE) * US_PER_MINUTE <= newest for piece in pieces)


def test_a_value_holds_back_to_the_one_before_it() -> None:
    listed = [Sample(T, 999_000), Sample(T + 10 * S, 100_000), Sample(T + 20 * S, 200_000)]
    assert split_into_minutes(Progress(), listed, is_over=True)[0] == [
        EnergyPiece(T, T + 20 * S, 3_000_000)
    ]


def test_a_gap_is_unknown_not_zero() -> None:
    listed = [Sample(T, 1), Sample(T + 10 * S, 100_000), Sample(T + 10 * S + GAP_US + 1, 100_000)]
    assert split_into_minutes(Progress(), listed, is_over=True)[0] == [
        EnergyPiece(T, T + 10 * S, 1_000_000)
    ]
    just = [Sample(T, 1), Sample(T + GAP_US, 1000)]
    assert (
        sum(piece.energy_mj for piece in split_into_minutes(Progress(), just, is_over=True)[0])
        == 300_000
    )


def test_one_value_alone_says_nothing_of_time() -> None:
    assert split_into_minutes(Progress(), [Sample(T, 100_000)], is_over=True) == ([], Progress())


@pytest.mark.parametrize(
    ("watts", "power_mw"),
    [
    (0.0, 0), (61.3, 61_300), (0.0004, 0), (0.0006, 1), (3000.0, MAX_MW), (3000.1, None),
    (-0.1, None), (float("nan"), None), (float("inf"), None),
],
)  # fmt: skip
def test_what_no_card_draws_is_left_out(watts: float, power_mw: int | None) -> None:
    assert sample_of(T, watts) == (None if power_mw is None else Sample(T, power_mw))


@given(st.fractions(0, 3000))
def test_mw_are_rounded_half_up(watts: Fraction) -> None:
    sample = sample_of(T, float(watts))
    assert sample is not None
    assert abs(sample.power_mw - Fraction(float(watts)) * 1000) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
    ("system/gpu_0_power_usage_watts", "0"), ("system/gpu_12_power_usage_watts", "12"),
    ("system/node7/gpu_1_power_usage_watts", "node7/1"),
    ("system/gpu_0_power_usage_percentage", None), ("gpu_0_power_usage_watts", None),
    ("system/a/b/gpu_0_power_usage_watts", None),
],
)  # fmt: skip
def test_which_card_a_metric_tells_of(name: str, gpu: str | None) -> None:
    assert gpu_of(name) == gpu
