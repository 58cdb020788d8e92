"""Figures of a probe from known steps and power."""

from __future__ import annotations

import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.plan.probe.statistics import (
    PowerFigures,
    StepFigures,
    StepSeries,
    estimate_whole,
    measure_power,
    measure_steps,
    measured_from_us,
    weighted_quantile,
)

SECOND = 1_000_000


def series(lengths_us: list[int], *, restarts: tuple[int, ...] = ()) -> StepSeries:
    """Return steps with these lengths. The first one ends at 2 s."""
    events, at_us = [(2 * SECOND, 0)], 2 * SECOND
    for number, length_us in enumerate(lengths_us, 1):
        at_us += length_us
        events.append((at_us, number))
    return StepSeries("output", "step", tuple(events), restarts)


def figures(**changes: object) -> StepFigures:
    values: dict[str, object] = {
        "seen": 100, "measured": 80, "p10_us": 90_000, "p50_us": 100_000, "p90_us": 120_000,
        "mean_us": 100_000, "first_epoch_us": None, "evaluations": (), "evaluation_steps": None,
        "variation_ppm": 0, "startup_us": 0, **changes,
    }  # fmt: skip
    return StepFigures(**values)  # type: ignore[arg-type]


POWER = PowerFigures(400_000, 380_000, 420_000, 0)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 9)), min_size=1), st.integers(1, 99))
def test_a_weighted_quantile_is_that_of_the_repeated_values(
    values: list[tuple[int, int]], percent: int
) -> None:
    repeated = sorted(value for value, weight in values for _ in range(weight))
    rank = -(-len(repeated) * percent // 100)
    assert weighted_quantile(values, percent * 10_000) == repeated[max(0, rank - 1)]


def test_the_warm_up_ends_after_its_time() -> None:
    steps = series([100_000] * 200)
    assert measured_from_us(steps, started_us=0, warm_up_us=6 * SECOND, ended_us=20 * SECOND) == (
        6 * SECOND
    )


def test_the_warm_up_lasts_until_steps_are_steady() -> None:
    steps = series([500_000] * 20 + [100_000] * 200)
    from_us = measured_from_us(steps, started_us=0, warm_up_us=SECOND, ended_us=32 * SECOND)
    assert 11 * SECOND <= from_us <= 12 * SECOND


def test_the_warm_up_takes_at_most_half_of_the_probe() -> None:
    assert measured_from_us(None, started_us=0, warm_up_us=30, ended_us=20) == 10


def test_quantiles_and_mean_are_per_step() -> None:
    result = measure_steps(series([100_000] * 90 + [300_000] * 10), started_us=0, from_us=0)
    assert result is not None
    assert (result.p10_us, result.p50_us, result.p90_us) == (100_000, 100_000, 100_000)
    assert result.mean_us == 120_000
    assert (result.seen, result.measured) == (101, 100)


@given(st.lists(st.integers(1_000, 10**6), min_size=3, max_size=200))
def test_the_mean_is_the_whole_time_per_step(lengths_us: list[int]) -> None:
    result = measure_steps(series(lengths_us), started_us=0, from_us=0)
    assert result is not None
    assert abs(result.mean_us - Fraction(sum(lengths_us), len(lengths_us))) <= Fraction(1, 2)


def test_evaluations_are_no_part_of_the_mean() -> None:
    lengths = ([100_000] * 19 + [2_100_000]) * 5
    steps = series(lengths)
    marks = [
        at for (at, _), length in zip(steps.events[1:], lengths, strict=True) if length > SECOND
    ]
    result = measure_steps(steps, started_us=0, from_us=0, evaluation_marks_us=marks)
    assert result is not None
    assert result.mean_us == 100_000
    assert [item.length_us for item in result.evaluations] == [2 * SECOND] * 5
    assert result.evaluation_steps == 20
    whole = estimate_whole(result, None, total_steps=1000, epoch_steps=None)
    assert whole.evaluations == 50
    assert abs(whole.duration_us.p50 - (1000 * 100_000 + 50 * 2 * SECOND)) <= 2 * SECOND


def test_a_stall_without_an_evaluation_is_part_of_the_mean() -> None:
    result = measure_steps(series(([100_000] * 19 + [2_100_000]) * 5), started_us=0, from_us=0)
    assert result is not None
    assert result.evaluations == ()
    assert result.mean_us == 200_000


def test_the_first_epoch_has_its_own_mean() -> None:
    steps = series([180_000] * 50 + [165_000] * 50, restarts=(2 * SECOND + 50 * 180_000,))
    result = measure_steps(steps, started_us=0, from_us=0)
    assert result is not None
    assert (result.first_epoch_us, result.mean_us) == (180_000, 165_000)
    whole = estimate_whole(result, None, total_steps=500, epoch_steps=50)
    assert abs(whole.duration_us.p50 - (50 * 180_000 + 450 * 165_000)) <= 2 * SECOND


def test_a_counter_in_tens_includes_the_steps_before_its_first_line() -> None:
    events = tuple((SECOND * index, index * 10) for index in range(6))
    result = measure_steps(
        StepSeries("output", "step", events, first=10), started_us=-SECOND, from_us=0
    )
    assert result is not None
    assert (result.seen, result.mean_us, result.startup_us) == (60, 100_000, 0)
    resumed = measure_steps(
        StepSeries("output", "step", events, first=5010), started_us=-SECOND, from_us=0
    )
    assert resumed is not None
    assert resumed.seen == 51


def test_too_few_steps_have_no_figures() -> None:
    assert measure_steps(series([100_000] * 2), started_us=0, from_us=0) is None


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)), min_size=2, max_size=50))
def test_power_is_weighted_by_time(samples: list[tuple[int, int]]) -> None:
    result = measure_power(samples)
    assert result is not None
    energy = sum(length * power for length, power in samples)
    time = sum(length for length, _ in samples)
    assert abs(result.mean_mw - Fraction(energy, time)) <= Fraction(1, 2)
    assert result.p10_mw <= result.p90_mw
    mean = statistics.fmean(power for _, power in samples)
    if mean > 1:
        error = statistics.stdev(power for _, power in samples) / len(samples) ** 0.5 / mean
        assert result.variation_ppm == pytest.approx(error * 1e6, rel=0.01, abs=2)


def test_power_without_samples_is_unknown() -> None:
    assert measure_power([]) is None
    assert measure_power([(0, 5)]) is None


def test_energy_is_power_by_time_with_the_drift_of_mlperf() -> None:
    whole = estimate_whole(figures(), POWER, total_steps=36_000, epoch_steps=None)
    assert whole.duration_us.p50 == 3600 * SECOND
    assert whole.energy_mj is not None
    assert whole.energy_mj.p50 == 400 * 3600 * 1000
    low = 1 - (0.074_074**2 + 0.03**2) ** 0.5
    high = 1 + (0.075_269**2 + 0.03**2) ** 0.5
    assert whole.energy_mj.p10 == pytest.approx(whole.energy_mj.p50 * low, rel=1e-4)
    assert whole.energy_mj.p90 == pytest.approx(whole.energy_mj.p50 * high, rel=1e-4)


def test_later_epochs_may_be_faster() -> None:
    one = estimate_whole(figures(), None, total_steps=100, epoch_steps=100).duration_us
    ten = estimate_whole(figures(), None, total_steps=1000, epoch_steps=100).duration_us
    assert one.p10 == one.p50 * 97 // 100
    assert ten.p10 == ten.p50 * 97 // 100 - 900 * 8333


def test_the_time_to_reserve_is_p90_in_whole_minutes() -> None:
    whole = estimate_whole(figures(), None, total_steps=36_000, epoch_steps=None)
    assert whole.duration_us.p90 == 3708 * SECOND
    assert whole.reserve_us == 62 * 60 * SECOND


@given(st.integers(1, 10**6), st.integers(1, 10**7), st.integers(0, 400_000), st.integers(1, 10**6))
def test_ranges_are_ordered_and_grow_with_the_variation(
    steps: int, mean_us: int, variation_ppm: int, power_mw: int
) -> None:
    power = PowerFigures(power_mw, power_mw, power_mw, variation_ppm)
    changes = {"mean_us": mean_us, "variation_ppm": variation_ppm}
    whole = estimate_whole(figures(**changes), power, total_steps=steps, epoch_steps=None)
    assert whole.energy_mj is not None
    for part in (whole.duration_us, whole.energy_mj):
        assert 0 <= part.p10 <= part.p50 <= part.p90
    steady = estimate_whole(figures(mean_us=mean_us), POWER, total_steps=steps, epoch_steps=None)
    assert whole.duration_us.p90 >= steady.duration_us.p90
    assert whole.reserve_us >= whole.duration_us.p90
