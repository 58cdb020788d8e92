"""Calibration of ranges by outcomes: by hand, and against an oracle of floats."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import PPM
from apps.planner.formulas.calibration import (
    MAX_WIDENING_PPM,
    Calibration,
    Outcome,
    calibrate,
    widen,
)
from apps.planner.formulas.ranges import Range

RANGE = Range(500_000, 1_000_000, 2_000_000)  # ×÷ 2


def outcomes(*actual: int) -> list[Outcome]:
    return [Outcome(RANGE, value) for value in actual]


def test_no_outcome_is_no_calibration() -> None:
    assert calibrate([]) == Calibration()
    assert calibrate([]).inside_ppm is None


def test_nine_outcomes_widen_nothing() -> None:
    found = calibrate(outcomes(*[4_000_000] * 9))
    assert (found.number, found.above, found.inside_ppm) == (9, 9, 0)
    assert found.bias_ppm == 4 * PPM
    assert not found.has_enough
    assert found.widening_ppm == PPM


def test_eight_of_ten_inside_need_no_widening() -> None:
    found = calibrate(outcomes(*[900_000] * 8, 1, 10**9))
    assert (found.below, found.inside, found.above) == (1, 8, 1)
    assert found.widening_ppm == PPM


def test_the_widening_reaches_the_eighth_outcome() -> None:
    # The eighth is ×4 where the range is ×2: twice the logarithmic distance.
    found = calibrate(outcomes(*[1_000_000] * 7, 4_000_000, 8_000_000, 100_000))
    assert found.inside_ppm == 700_000
    assert found.widening_ppm == pytest.approx(2 * PPM, abs=2)
    wide = widen(RANGE, found.widening_ppm)
    assert wide.high >= 4_000_000
    assert wide.low == pytest.approx(250_000, abs=2)


@pytest.mark.parametrize(
    "outcome",
    [Outcome(Range(5, 5, 5), 6), Outcome(RANGE, 0), Outcome(Range(0, 0, 0), 7)],
    ids=["without width", "nothing used", "nothing estimated"],
)
def test_what_no_factor_reaches_does_not_widen(outcome: Outcome) -> None:
    assert calibrate([outcome] * 10).widening_ppm == PPM
    found = calibrate([*[outcome] * 3, *outcomes(*[1_000_000] * 6, 4_000_000)])
    assert found.widening_ppm == pytest.approx(2 * PPM, abs=2), "the largest that is reached"


def test_ends_are_at_most_a_thousand_times_the_likely_value_away() -> None:
    assert widen(Range(10**5, 10**6, 10**7), MAX_WIDENING_PPM) == Range(10**3, 10**6, 10**9)
    wider = Range(1, 10**6, 10**10)  # it was wider before: nothing is narrowed
    assert widen(wider, 2 * PPM) == wider


RANGES = st.tuples(*[st.integers(10**6, 10**12)] * 3).map(lambda ends: Range(*sorted(ends)))


@given(st.lists(st.tuples(RANGES, st.integers(1, 10**13)), min_size=10, max_size=60))
def test_four_fifths_are_inside_unless_the_factor_is_at_its_limit(
    pairs: list[tuple[Range, int]],
) -> None:
    found = calibrate([Outcome(figure, actual) for figure, actual in pairs])
    assert found.number == found.below + found.inside + found.above
    factor = found.widening_ppm / PPM

    def needed(figure: Range, actual: int) -> float:
        if figure.low <= actual <= figure.high:
            return 1
        end = figure.low if actual < figure.low else figure.high
        if end == figure.likely:
            return math.inf
        return math.log(actual / figure.likely) / math.log(end / figure.likely)

    reached = sorted(min(10.0, each) for pair in pairs if (each := needed(*pair)) < math.inf)
    place = min(math.ceil(0.8 * len(pairs)), len(reached)) - 1
    expected = reached[place] if reached else 1
    assert factor == pytest.approx(expected, rel=1e-5, abs=2e-6)
    mean = sum(math.log(actual / figure.likely) for figure, actual in pairs) / len(pairs)
    assert found.bias_ppm == pytest.approx(math.exp(mean) * PPM, rel=1e-6, abs=0.6)


@given(RANGES, st.integers(PPM, MAX_WIDENING_PPM))
def test_a_wider_range_contains_the_range(figure: Range, widening_ppm: int) -> None:
    wide = widen(figure, widening_ppm)
    rounding = figure.likely // PPM + 1
    assert wide.low <= figure.low + rounding
    assert wide.likely == figure.likely
    assert wide.high >= figure.high - rounding
    assert widen(figure, PPM) == figure
