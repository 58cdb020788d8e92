"""Steps from reports, output and rhythms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.plan.probe.autocorrelation import find_period
from labcarbon_collect.plan.probe.step_series import (
    Samples,
    equal_intervals,
    evaluation_marks,
    find_steps,
    sampled_series,
    steps_of_output,
    steps_of_rhythm,
)

SECOND = 1_000_000


def lines(*texts: str) -> list[tuple[int, str]]:
    return [(index * SECOND, text) for index, text in enumerate(texts)]


def rhythm(period: int, count: int) -> list[int]:
    """Return a series that is busy in three quarters of each period."""
    return [40 if index % period * 4 < period * 3 else 5 for index in range(count)]


def test_reports_precede_the_output() -> None:
    output = lines(*(f"step {number}/9" for number in range(1, 9)))
    reports = [(index * SECOND, index) for index in range(8)]
    series = find_steps(reports, output, [])
    assert series is not None
    assert (series.source, len(series.events)) == ("reports", 8)


def test_the_counter_that_advances_most_often_counts_steps() -> None:
    output = lines(*(f"epoch {n // 10 + 1}/3 step {n % 10 + 1}/10 file 1/2" for n in range(25)))
    series = steps_of_output(output)
    assert series is not None
    assert series.name == "step 5/10"
    assert series.events[-1] == (24 * SECOND, 24)
    assert series.restarts == (10 * SECOND, 20 * SECOND)
    assert series.epoch_steps == 10


def test_a_counter_from_zero_counts_each_step_once() -> None:
    output = lines(*(f"step {n % 10}/10" for n in range(25)))
    series = steps_of_output(output)
    assert series is not None
    assert series.events[-1][1] == 24


def test_a_bar_that_shows_zero_first_counts_each_step_once() -> None:
    output = lines(*(f"{n % 11}/10 [00:01" for n in range(22)))
    series = steps_of_output(output)
    assert series is not None
    assert series.events[-1][1] == 20


def test_an_evaluation_bar_is_a_mark_and_no_step() -> None:
    texts = []
    for _ in range(3):
        texts += [f" 1%|#| {n}/10 [00:01" for n in range(1, 11)]
        texts += [f"Validating: 1%|#| {n}/50 [00:01" for n in range(1, 31)]
    series = steps_of_output(lines(*texts))
    assert series is not None
    assert series.events[-1][1] == 29
    assert len(evaluation_marks(lines(*texts))) == 90


def test_a_program_that_always_prints_val_loss_does_not_always_evaluate() -> None:
    output = lines(*(f"step {n}/50 val_loss 0.3" for n in range(50)))
    assert evaluation_marks(output) == []


def test_repeated_lines_are_steps_without_a_counter() -> None:
    series = find_steps([], lines("start", *(f"loss {n / 7:.3f}" for n in range(20))), [])
    assert series is not None
    assert (series.source, series.events[-1][1]) == ("lines", 19)


def test_without_any_sign_there_are_no_steps() -> None:
    constant = Samples("CPU time", 0, 50_000, [50_000] * 1000)
    assert find_steps([], lines("start", "end"), [constant]) is None


@given(st.integers(6, 60), st.integers(0, 7))
def test_a_clear_rhythm_is_found(period: int, offset: int) -> None:
    values = rhythm(period, 900)[offset:]
    found = find_period(values, 50_000)
    assert found is not None
    assert abs(found.length_us - period * 50_000) * 20 <= period * 50_000


@given(st.randoms(use_true_random=False))
def test_noise_has_no_rhythm(chance: object) -> None:
    values = [chance.randrange(1000) for _ in range(900)]  # type: ignore[attr-defined]
    assert find_period(values, 50_000) is None


def test_a_drift_has_no_rhythm() -> None:
    assert find_period(list(range(900)), 50_000) is None
    assert find_period([], 50_000) is None
    assert find_period([7] * 900, 50_000) is None


def test_a_rhythm_counts_equal_steps() -> None:
    series = steps_of_rhythm([Samples("CPU time", 5 * SECOND, 50_000, rhythm(20, 800))])
    assert series is not None
    assert not series.is_spread_known
    assert series.events[1][0] - series.events[0][0] == SECOND
    assert series.events[-1][1] == 40


@given(
    st.lists(st.integers(1, 200_000), min_size=2, max_size=60),
    st.integers(10_000, 100_000),
)
def test_equal_intervals_keep_the_last_value(gaps: list[int], interval_us: int) -> None:
    points, at_us = [], 0
    for value, gap in enumerate(gaps):
        at_us += gap
        points.append((at_us, value))
    samples = equal_intervals(points, interval_us, "x")
    for index, value in enumerate(samples.values):
        moment = samples.start_us + index * interval_us
        assert value == max(number for at, number in points if at <= moment)


def test_totals_become_increases() -> None:
    total = [(index * 50_000, index * index) for index in range(10)]
    series = sampled_series(
        {"x": total}, {}, from_us=0, interval_us=50_000, gauge_interval_us=SECOND
    )
    assert list(series[0].values) == [2 * index + 1 for index in range(9)]
