"""Whole UTC hours from readings: exact means, no incomplete hours, days of 23 and 25 hours."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.carbon.providers import energy_charts, uk_carbon_intensity
from apps.carbon.providers.readings import IntensityReading, Kind, iso_text, whole_hours
from apps.core.units import US_PER_HOUR, US_PER_S


def reading(
    start_us: int, end_us: int, ug: int | None, kind: Kind = Kind.ACTUAL
) -> IntensityReading:
    return IntensityReading("DE", start_us, end_us, ug, kind, "test", "lifecycle")


@given(
    st.lists(st.integers(1, 1_500_000_000), min_size=1, max_size=12),
    st.sampled_from([900, 1800, 3600]),
    st.integers(0, 3),
)
def test_means_are_exact(values: list[int], step_s: int, offset: int) -> None:
    start_us = 100 * US_PER_HOUR + offset * step_s * US_PER_S
    parts = [
        reading(start_us + i * step_s * US_PER_S, start_us + (i + 1) * step_s * US_PER_S, value)
        for i, value in enumerate(values)
    ]
    hours = whole_hours(reversed(parts), end_hour=10_000)
    assert hours.estimated == {}
    per_hour = 3600 // step_s
    expected = {}
    for i in range(-offset % per_hour, len(values) - per_hour + 1, per_hour):
        mean = Fraction(sum(values[i : i + per_hour]), per_hour)
        expected[100 + (offset + i) // per_hour] = int(mean + Fraction(1, 2))
    assert hours.actual == expected


def test_gaps_and_overlaps_are_no_hour() -> None:
    minute = 60 * US_PER_S
    hour = 50 * US_PER_HOUR
    gap = [reading(hour, hour + 29 * minute, 5), reading(hour + 30 * minute, hour + 60 * minute, 5)]
    overlap = [
        reading(hour, hour + 40 * minute, 5),
        reading(hour + 30 * minute, hour + 60 * minute, 5),
    ]
    for parts in (gap, overlap, gap[:1], gap[1:]):
        hours = whole_hours(parts, end_hour=100)
        assert (hours.actual, hours.estimated) == ({}, {})


def test_hours_that_are_not_over_are_left_out() -> None:
    parts = [reading(hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR, 7) for hour in range(5, 9)]
    assert sorted(whole_hours(parts, end_hour=7).actual) == [5, 6]


@pytest.mark.parametrize(("day", "hours_of_day"), [((2026, 3, 29), 23), ((2026, 10, 25), 25)])
@pytest.mark.parametrize("step_s", [900, 1800])
def test_days_of_the_clock_change(
    day: tuple[int, int, int], hours_of_day: int, step_s: int
) -> None:
    """All hours of the local day, each once: times are UTC."""
    zone = ZoneInfo("Europe/London" if step_s == 1800 else "Europe/Berlin")
    start = datetime(*day, tzinfo=zone).astimezone(UTC)
    end = (datetime(*day, tzinfo=zone) + timedelta(days=1)).astimezone(UTC)
    times = [
        start + timedelta(seconds=step_s * i)
        for i in range(int((end - start).total_seconds()) // step_s)
    ]
    if step_s == 1800:
        rows = ",".join(
            f'{{"from": "{iso_text(int(at.timestamp()) * US_PER_S)}", "to": '
            f'"{iso_text((int(at.timestamp()) + 1800) * US_PER_S)}", '
            f'"intensity": {{"forecast": 9, "actual": {100 + i // 2}}}}}'
            for i, at in enumerate(times)
        )
        readings = uk_carbon_intensity.parse(f'{{"data": [{rows}]}}'.encode(), "GB", "direct")
    else:
        seconds = [int(at.timestamp()) for at in times]
        values = [100 + i // 4 for i in range(len(times))]
        body = f'{{"unix_seconds": {seconds}, "co2eq": {values}, "co2eq_forecast": {values}}}'
        readings = energy_charts.parse(body.encode(), "de", "lifecycle")
    hours = whole_hours(readings.accepted, end_hour=10**9)
    first = int(start.timestamp()) // 3600
    assert hours.actual == {first + i: (100 + i) * 1_000_000 for i in range(hours_of_day)}
