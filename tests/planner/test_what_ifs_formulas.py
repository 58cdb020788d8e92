"""Differences between trainings, early stops, and the interval between checkpoints."""

from decimal import Decimal, getcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import PPM
from apps.planner.formulas.checkpoint_interval import (
    mean_between_failures_us,
    plan_checkpoints,
    young_interval_us,
)
from apps.planner.formulas.ranges import EXACT, Range, Spread, around
from apps.planner.formulas.what_ifs import (
    Difference,
    PastCurve,
    needed_epochs,
    operations_spread,
    scale,
    separate_difference,
    shared_difference,
    stopping_ppm,
    stopping_share,
)

S, HOUR = 1_000_000, 3_600_000_000
LIKELY = st.integers(1, 10**15)
SPREADS = st.builds(Spread, st.integers(1, PPM), st.integers(PPM, 20 * PPM))
RANGES = st.builds(around, LIKELY, SPREADS)


@given(planned=RANGES, spread=SPREADS)
def test_the_same_training_differs_by_nothing(planned: Range, spread: Spread) -> None:
    assert shared_difference(planned, planned.likely, spread) == Difference(0, 0, 0)


@given(planned=RANGES, ratio=st.fractions(0, 3), spread=SPREADS)
def test_a_difference_contains_its_likely_value(
    planned: Range, ratio: Fraction, spread: Spread
) -> None:
    found = shared_difference(planned, round(planned.likely * ratio), spread)
    assert found.low <= found.likely <= found.high
    assert found.likely == round(planned.likely * ratio) - planned.likely
    assert found.low >= -planned.high, "no training saves more than it needs"


@given(planned=RANGES, first=st.fractions(0, 3), second=st.fractions(0, 3), spread=SPREADS)
def test_less_work_never_saves_less(
    planned: Range, first: Fraction, second: Fraction, spread: Spread
) -> None:
    fewer, more = sorted((first, second))
    found = [shared_difference(planned, round(planned.likely * r), spread) for r in (fewer, more)]
    assert found[0].likely <= found[1].likely
    for difference, ratio in zip(found, (fewer, more), strict=True):
        if ratio < 1:
            assert difference.high <= 0
        if ratio > 1:
            assert difference.low >= 0


def test_what_both_share_cancels() -> None:
    # By hand: 100 (50 to 200) × ½ saves half of each end.
    assert shared_difference(Range(50, 100, 200), 50) == Difference(-100, -50, -25)
    # A third more: 100 × 4/3 − 100.
    assert shared_difference(Range(30, 90, 270), 120) == Difference(10, 30, 90)


def test_the_range_of_the_ratio_adds_to_that_of_the_plan() -> None:
    exact = Range(1000, 1000, 1000)
    # Ratio ¼, from its power of 1.5 to its root: ⅛ and ½ remain.
    found = shared_difference(exact, 250, operations_spread(Fraction(1, 4)))
    assert (found.likely, found.high) == (-750, -500)
    assert abs(found.low + 875) <= 1


def test_an_early_stop_that_may_not_come_saves_nothing_at_p90() -> None:
    found = shared_difference(Range(900, 1000, 1100), 900, Spread(790_000, 1_210_000))
    assert found.likely == -100
    assert found.high == 0
    assert found.low < -100


@given(planned=RANGES, changed=RANGES)
def test_separate_estimates_have_the_wider_range(planned: Range, changed: Range) -> None:
    found = separate_difference(planned, changed)
    assert found.low <= found.likely <= found.high
    assert found.low >= changed.low - planned.high
    assert found.high <= changed.high - planned.low
    back = separate_difference(changed, planned)
    assert (back.low, back.likely, back.high) == (-found.high, -found.likely, -found.low)


def test_separate_ranges_combine_in_quadrature() -> None:
    found = separate_difference(Range(60, 100, 160), Range(20, 50, 130))
    # 30² + 60² = 67.08², 80² + 40² = 89.44².
    assert found == Difference(-50 - 67, -50, -50 + 89)


@given(figure=RANGES)
def test_a_scale_of_one_changes_nothing(figure: Range) -> None:
    assert scale(figure, Fraction(1)) == figure
    assert operations_spread(Fraction(1)) == EXACT


@pytest.mark.parametrize(
    ("evaluations", "best", "last", "share"),
    [
        (100, 400, 1000, 500_000),  # 40 %, and a tenth of all steps
        (10, 200, 1000, 700_000),  # 20 %, and five of ten evaluations
        (100, 990, 1000, PPM),  # still improving
        (4, 0, 4, PPM),
        (3, 1, 1000, None),  # too few evaluations
        (100, 0, 0, None),
    ],
)
def test_where_a_past_training_would_have_stopped(
    evaluations: int, best: int, last: int, share: int | None
) -> None:
    assert stopping_ppm(PastCurve(evaluations, best, last)) == share


def test_the_share_of_several_curves() -> None:
    assert stopping_share([]) is None
    one = stopping_share([500_000])
    assert one is not None
    assert (one.likely_ppm, one.spread, one.curves) == (500_000, Spread(790_000, 1_210_000), 1)
    three = stopping_share([250_000, 500_000, PPM])
    assert three is not None
    assert three.likely_ppm == 500_000, "geometric mean"
    assert three.spread.high_ppm > 2 * PPM, "the curves differ more than early stops usually do"
    assert needed_epochs(90, three) == 45
    assert needed_epochs(1, three) == 1


@given(write=st.integers(1, 10**12), between=st.integers(1, 10**15))
def test_young_is_the_root_rounded_half_up(write: int, between: int) -> None:
    getcontext().prec = 60
    root = (Decimal(2) * write * between).sqrt()
    assert young_interval_us(write, between) == int((root + Decimal("0.5")) // 1)


def test_young_by_hand() -> None:
    # 50 s to write, 25 h between failures: √(2 × 50 s × 90 000 s) = 3 000 s.
    plan = plan_checkpoints(50 * S, 25 * HOUR, 50 * HOUR)
    assert plan.interval_us == 3_000 * S
    assert plan.loss_us == 1_500 * S
    # 50 ÷ 3 000 for writing, 3 000 ÷ 180 000 lost: a sixtieth each.
    assert plan.overhead_ppm == 33_333
    assert plan.failures_ppm == 2 * PPM
    assert plan.is_valid
    assert plan.share_of(300) == 10
    assert not plan_checkpoints(3 * HOUR, 25 * HOUR, None).is_valid


@given(write=st.integers(1, 10**10), between=st.integers(1, 10**13))
def test_no_other_interval_loses_less(write: int, between: int) -> None:
    def loss(interval: int) -> Fraction:
        return Fraction(write, interval) + Fraction(interval, 2 * between)

    interval = young_interval_us(write, between)
    for other in (interval // 2, interval - 1, interval + 1, 2 * interval):
        if other > 0:
            assert loss(interval) <= loss(other) * Fraction(10**9 + 1, 10**9) or interval < 10


@pytest.mark.parametrize(("write", "between"), [(0, 1), (1, 0), (-1, 1)])
def test_times_of_nothing_are_refused(write: int, between: int) -> None:
    with pytest.raises(ValueError, match="above 0"):
        young_interval_us(write, between)


def test_without_a_failure_there_is_no_mean_time() -> None:
    assert mean_between_failures_us(10 * HOUR, 0) is None
    assert mean_between_failures_us(0, 2) is None
    assert mean_between_failures_us(10 * HOUR, 4) == 10 * HOUR // 4
