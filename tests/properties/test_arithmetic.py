"""The arithmetic below every figure: exact integers, the same in Python, SQLite and PostgreSQL."""

import itertools
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from django.db import connection
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from apps.carbon.figures.factor_spans import PeriodFactor, Span, changes, factor_for_year, spans
from apps.core.intervals import merge_intervals, split_by_hour
from apps.core.sql import emission_sql, facility_sql
from apps.core.units import US_PER_HOUR, emission_ug, facility_mj, kwh_to_mj, largest_remainder
from apps.energy.ledger_entries import covered_us, overhead_mj, runs_of_hours
from apps.fleet.dated_facts import dated_intervals, value_at
from tests.hours import durations_by_hour

BLOOM_MJ = 433_196 * 3_600_000_000
INT64 = 2**63 - 1
ENERGIES = st.one_of(
    st.integers(-INT64, INT64),
    st.integers(-10, 10),
    st.integers(0, 10**7),
    st.sampled_from((BLOOM_MJ, -BLOOM_MJ)),
)
PUES = st.integers(1_000_000, 3_000_000)
FACTORS = st.integers(1, 1_500_000_000)
TIMES = st.integers(0, 10 * US_PER_HOUR)


def _half_up(value: Fraction) -> int:
    return (value + Fraction(1, 2)).__floor__()


@given(ENERGIES, PUES, FACTORS)
@example(BLOOM_MJ, 1_000_000, 57_000_000)
def test_emission_is_the_exact_product_rounded_half_up_once(
    energy_mj: int, pue_ppm: int, factor: int
) -> None:
    exact = Fraction(energy_mj * pue_ppm * factor, 3_600_000_000 * 1_000_000)
    assert emission_ug(energy_mj, pue_ppm, factor) == _half_up(exact)
    assert abs(emission_ug(energy_mj, pue_ppm, factor) - exact) <= Fraction(1, 2)
    assert facility_mj(energy_mj, pue_ppm) == _half_up(Fraction(energy_mj * pue_ppm, 1_000_000))


@pytest.mark.django_db
def test_the_database_computes_the_same_integers_as_python() -> None:
    sql = f"SELECT {emission_sql('v.e', 'v.p', 'v.f')}, {facility_sql('v.e', 'v.p')} FROM (SELECT "
    cast = "CAST(%s AS bigint)"

    @settings(max_examples=300)
    @given(ENERGIES, PUES, FACTORS)
    @example(BLOOM_MJ, 1_100_000, 385_000_000)
    @example(-1, 1_000_000, 1)
    @example(-1_800_000_001, 1_000_000, 1_000_000)
    @example(INT64, 3_000_000, 1)
    @example(
        (INT64 - 500_000) // 1_560_000, 1_560_000, 400_000
    )  # the largest whose product fits 64 bits
    @example((INT64 - 500_000) // 1_560_000 + 1, 1_560_000, 400_000)
    def check(energy_mj: int, pue_ppm: int, factor: int) -> None:
        emission, facility = (
            emission_ug(energy_mj, pue_ppm, factor),
            facility_mj(energy_mj, pue_ppm),
        )
        assume(
            abs(emission) <= INT64 and abs(facility) <= INT64
        )  # what a ledger entry's figures may hold
        with connection.cursor() as cursor:
            cursor.execute(
                f"{sql}{cast} AS e, {cast} AS p, {cast} AS f) v", [energy_mj, pue_ppm, factor]
            )
            row = cursor.fetchone()
        assert (int(row[0]), int(row[1])) == (emission, facility)

    check()


@pytest.mark.django_db
def test_no_factor_gives_no_emission_and_not_zero() -> None:
    with connection.cursor() as cursor:
        null = "CAST(NULL AS bigint)"
        cursor.execute(f"SELECT {emission_sql('5', '1000000', null)}, {facility_sql('5', null)}")
        assert cursor.fetchone() == (None, None)


@given(st.integers(0, INT64), st.lists(st.integers(0, 10**12), min_size=1, max_size=12))
def test_largest_remainder_gives_all_away_and_nobody_more_than_one_too_much(
    total: int, weights: list[int]
) -> None:
    parts = largest_remainder(total, weights)
    assert sum(parts) == total
    assert min(parts) >= 0
    whole = sum(weights)
    if whole:
        for part, weight in zip(parts, weights, strict=True):
            assert abs(Fraction(part) - Fraction(total * weight, whole)) < 1
            assert weight or not part


def test_largest_remainder_gives_ties_to_the_earlier() -> None:
    assert largest_remainder(2, [1, 1, 1]) == [1, 1, 0]
    assert largest_remainder(1, [1, 1]) == [1, 0]
    assert largest_remainder(5, [0, 0]) == [5, 0]


@given(
    st.one_of(ENERGIES, st.integers(-50, 50)), TIMES, st.integers(1, 30 * US_PER_HOUR), st.data()
)
def test_a_window_is_divided_over_its_hours_without_rest(
    energy_mj: int, start_us: int, length: int, data: st.DataObject
) -> None:
    start_us -= data.draw(st.sampled_from([0, start_us % US_PER_HOUR]))
    hours = durations_by_hour(start_us, start_us + length)
    sign = -1 if energy_mj < 0 else 1
    by_hand = [sign * part for part in largest_remainder(abs(energy_mj), list(hours.values()))]
    parts = split_by_hour(energy_mj, start_us, start_us + length)
    assert list(parts.items()) == list(zip(hours, by_hand, strict=True))
    assert sum(parts.values()) == energy_mj
    wanted = data.draw(st.sets(st.sampled_from([*hours, min(hours) - 1, max(hours) + 1])))
    some = split_by_hour(energy_mj, start_us, start_us + length, wanted)
    assert list(some.items()) == [(hour, part) for hour, part in parts.items() if hour in wanted]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=12))
def test_coverage_is_the_length_of_the_union(raw: list[tuple[int, int]]) -> None:
    minute = US_PER_HOUR // 60
    intervals = [(start * minute, (start + length) * minute) for start, length in raw]
    by_minute = {at for start, length in raw for at in range(start, start + length)}
    for hour in (0, 1):
        assert covered_us(intervals, hour) == minute * len(
            by_minute & set(range(hour * 60, hour * 60 + 60))
        )
    union = list(merge_intervals(intervals))
    assert all(one[1] < other[0] for one, other in itertools.pairwise(union))


@given(st.sets(st.integers(0, 50)))
def test_hours_become_stretches_and_back(hours: set[int]) -> None:
    intervals = runs_of_hours(hours)
    assert {hour for start, end in intervals for hour in range(start, end)} == hours
    assert all(one[1] < other[0] for one, other in itertools.pairwise(intervals))


@given(st.integers(0, 5_000_000), st.integers(0, US_PER_HOUR), st.integers(0, 10**10))
def test_the_rest_of_a_node_is_never_below_zero(
    static_power_mw: int, covered: int, inner_mj: int
) -> None:
    rest = overhead_mj(static_power_mw, covered, inner_mj)
    assert rest >= 0
    assert rest == 0 or rest + inner_mj == static_power_mw * covered // 1_000_000


@given(st.fractions(min_value=0, max_value=10**9))
def test_kwh_become_millijoules_half_up(kwh: Fraction) -> None:
    assert kwh_to_mj(kwh) == _half_up(kwh * 3_600_000_000)


HOURS = st.integers(0, 540_000)
YEARS = st.lists(st.integers(2010, 2030), max_size=5, unique=True)


@given(
    st.integers(400_000, 500_000),
    st.integers(1, 40_000),
    st.lists(st.tuples(HOURS, PUES), min_size=1, max_size=5, unique_by=lambda pair: pair[0]),
    st.lists(st.tuples(HOURS, YEARS), max_size=4, unique_by=lambda pair: pair[0]),
)
def test_spans_tile_the_period_and_hold_what_held_in_each_hour(
    from_hour: int, length: int, pues: list[tuple[int, int]], zones: list[tuple[int, list[int]]]
) -> None:
    factors = [
        (at, [PeriodFactor(at * 10_000 + year, year) for year in years]) for at, years in zones
    ]
    found = spans(from_hour=from_hour, to_hour=from_hour + length, pues=pues, factors=factors)
    assert found[0].from_hour == from_hour
    assert found[-1].to_hour == from_hour + length
    assert all(one.to_hour == other.from_hour for one, other in itertools.pairwise(found))
    assert all(
        (one.pue_ppm, one.factor_id) != (other.pue_ppm, other.factor_id)
        for one, other in itertools.pairwise(found)
    )
    for span in found:
        for hour in (span.from_hour, span.to_hour - 1):
            held = [pue for at, pue in sorted(pues) if at <= hour] or [min(pues)[1]]
            assert span.pue_ppm == held[-1]
            of_zone = [
                years for at, years in sorted(factors, key=lambda zone: zone[0]) if at <= hour
            ]
            here = (
                of_zone[-1]
                if of_zone
                else min(factors, key=lambda zone: zone[0])[1]
                if factors
                else []
            )
            used = factor_for_year(here, datetime.fromtimestamp(hour * 3600, tz=UTC).year)
            assert span.factor_id == (used.factor_id if used else None)


HISTORIES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 4)),
    min_size=1,
    max_size=6,
    unique_by=lambda fact: fact[0],
)


@given(HISTORIES)
def test_a_history_has_neither_gaps_nor_overlaps(history: list[tuple[int, int]]) -> None:
    found = dated_intervals(history)
    assert found[0][0] == 0
    assert found[-1][1] is None
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    for hour in range(70):
        begun = [value for at, value in sorted(history) if at <= hour]
        assert value_at(history, hour) == (begun[-1] if begun else min(history)[1])
    assert value_at([], 5) is None


@given(HISTORIES, HISTORIES)
def test_changes_are_the_hours_that_are_priced_otherwise(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    before, after = (
        [
            Span(start, 80 if end is None else end, pue, None)
            for start, end, pue in dated_intervals(history)
        ]
        for history in (one, other)
    )
    found = changes(before, after)
    told = {
        hour: (row.before.pue_ppm, row.after.pue_ppm)
        for row in found
        for hour in range(row.from_hour, row.to_hour)
    }
    differ = {hour: (value_at(one, hour), value_at(other, hour)) for hour in range(80)}
    assert told == {hour: pair for hour, pair in differ.items() if pair[0] != pair[1]}
    assert all(row.to_hour <= following.from_hour for row, following in itertools.pairwise(found))


def test_a_site_without_a_pue_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(ValueError, match="without a PUE"):
        spans(from_hour=0, to_hour=10, pues=[], factors=[])


@given(st.lists(st.integers(2000, 2030), max_size=6, unique=True), st.integers(1995, 2035))
def test_the_factor_of_a_year_is_the_latest_not_after_it_else_the_earliest(
    years: list[int], year: int
) -> None:
    chosen = factor_for_year([PeriodFactor(number, number) for number in years], year)
    if not years:
        assert chosen is None
        return
    assert chosen is not None
    before = [number for number in years if number <= year]
    assert chosen.year == (max(before) if before else min(years))
