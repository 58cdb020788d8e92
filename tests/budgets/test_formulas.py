"""Forecasts and ranges equal an oracle of fractions that shares no code with them."""

from fractions import Fraction
from math import floor

from hypothesis import example, given
from hypothesis import strategies as st

from apps.budgets.formulas import (
    error_ppm,
    forecast,
    hit_rate_ppm,
    is_inside,
    is_near,
    past_ratio_ppm,
    quantile,
    rest_at_pace,
    same_share,
)

amounts = st.integers(0, 10**15)
periods = st.tuples(
    st.lists(amounts, min_size=14, max_size=365), st.integers(1, 100)
)  # complete days, days that remain
ratios = st.lists(st.integers(-3_000_000, 9_000_000), max_size=40)


def rounded(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def at_tenths(values: list[int], tenths: int) -> Fraction:
    """Interpolate by walking along the sorted values."""
    ordered = [Fraction(value) for value in sorted(values)]
    way = Fraction(tenths, 10) * (len(ordered) - 1)
    while way > 1:
        way, ordered = way - 1, ordered[1:]
    return ordered[0] if not way else ordered[0] + (ordered[1] - ordered[0]) * way


@given(periods, ratios)
@example(([0] * 14, 1), [1_000_000] * 6)
@example(([1] * 13 + [4], 3), [0, 1, 2, 3, 4, 5])
def test_the_forecast_carries_the_last_seven_days_on(
    period: tuple[list[int], int], past: list[int]
) -> None:
    days, remaining = period
    mean = sum((Fraction(day) for day in days[len(days) - 7 :]), Fraction(0)) / 7
    rest = rounded(mean * remaining)
    result = forecast(days, len(days) + remaining, past)
    assert (result.rest, result.total) == (rest, sum(days) + rest)
    if len(past) < 6 or rest == 0:
        assert (result.low, result.high) == (None, None)
        return
    low, high = (
        sum(days) + max(0, rounded(Fraction(rest * rounded(at_tenths(past, tenths)), 10**6)))
        for tenths in (1, 9)
    )
    assert (result.low, result.high) == (low, high)


@given(periods, amounts, ratios)
def test_no_forecast_is_below_what_is_used(
    period: tuple[list[int], int], today: int, past: list[int]
) -> None:
    days, remaining = period
    result = forecast(days, len(days) + remaining, past, used_today=today)
    known = [value for value in (result.total, result.low, result.high) if value is not None]
    assert min(known) >= sum(days) + today
    assert result.low is None or result.high is None or result.low <= result.high


@given(st.lists(amounts, min_size=15, max_size=366), st.data())
def test_the_ratio_compares_what_came_with_the_pace_before(
    days: list[int], data: st.DataObject
) -> None:
    day = data.draw(st.integers(7, len(days) - 1))
    expected = rounded(Fraction(sum(days[day - 7 : day]) * (len(days) - day), 7))
    actual = sum(days) - sum(days[:day])
    ratio = past_ratio_ppm(days, day)
    if expected == 0:
        assert ratio is None
    else:
        assert ratio == rounded(Fraction(actual * 10**6, expected))


def test_a_steady_use_has_a_ratio_of_one_and_a_range_of_no_width() -> None:
    assert past_ratio_ppm([5] * 30, 14) == 1_000_000
    result = forecast([5] * 14, 30, [1_000_000] * 6)
    assert (result.total, result.low, result.high) == (150, 150, 150)


def test_six_past_periods_make_a_range_and_five_do_not() -> None:
    assert forecast([5] * 14, 30, [900_000] * 5).low is None
    assert forecast([5] * 14, 30, [900_000] * 6).low == 70 + 72


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=50))
def test_a_quantile_is_between_the_extremes(values: list[int]) -> None:
    assert min(values) <= quantile(values, 1) <= quantile(values, 9) <= max(values)


@given(st.integers(28, 366), st.integers(28, 366), st.data())
def test_the_same_share_leaves_a_day_of_the_past_period(
    days: int, past_days: int, data: st.DataObject
) -> None:
    day = data.draw(st.integers(14, days - 1))
    found = same_share(day, days, past_days)
    assert 1 <= found < past_days
    assert abs(Fraction(found, past_days) - Fraction(day, days)) <= Fraction(1, past_days)
    assert same_share(day, days, days) == day


@given(amounts, st.integers(-(10**15), 10**15))
@example(3, 2)
@example(1, 3)
def test_the_error_is_the_distance_as_a_part_of_the_actual_use(expected: int, actual: int) -> None:
    error = error_ppm(expected, actual)
    if actual <= 0:
        assert error is None
    else:
        assert error == rounded(10**6 * (Fraction(expected, actual) - 1))


@given(st.lists(st.tuples(amounts, amounts, amounts), max_size=30))
def test_the_hit_rate_counts_the_ranges_with_the_actual_use(
    scored: list[tuple[int, int, int]],
) -> None:
    hits = [is_inside(min(a, b), max(a, b), actual) for a, b, actual in scored]
    outside = sum(1 for a, b, actual in scored if (actual - a) * (actual - b) > 0)
    assert sum(hits) == len(scored) - outside
    rate = hit_rate_ppm(sum(hits), len(hits))
    if scored:
        assert rate == rounded(Fraction(10**6 * sum(hits), len(hits)))
    else:
        assert rate is None


def test_near_is_four_fifths_or_a_forecast_above() -> None:
    assert not is_near(79, 100, None)
    assert is_near(80, 100, None)
    assert not is_near(1, 100, 100)
    assert is_near(1, 100, 101)


def test_halves_are_rounded_up() -> None:
    assert rest_at_pace([1, 0, 0, 0, 0, 0, 0], 4) == 1  # 4/7
    assert rest_at_pace([7] * 6 + [0], 1) == 6
    assert quantile([0, 5], 1) == 1  # 0.5
