"""Periods of recurring activities, against an oracle that counts days one by one."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.activity.periods import SHORTEST_DAYS, number_at, period

KINDS = ("week", "month", "quarter", "year")
MONTHS = {"month": 1, "quarter": 3, "year": 12}
DAYS = st.dates(date(1970, 1, 1), date(2200, 12, 31))
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland",
     "Pacific/Kiritimati", "America/Sao_Paulo"]
)  # fmt: skip


def starts(kind: str, anchor: date, number: int) -> list[date]:
    """Return the first days of ``number`` periods by walking over the days of the calendar."""
    found, day, months = [anchor], anchor, 0
    while len(found) < number:
        day += timedelta(days=1)
        if kind == "week":
            if day.weekday() == anchor.weekday():
                found.append(day)
            continue
        months += day.day == 1
        is_last_of_month = (day + timedelta(days=1)).day == 1
        is_day = day.day == anchor.day or (is_last_of_month and day.day < anchor.day)
        if is_day and months and months % MONTHS[kind] == 0:
            found.append(day)
    return found


@given(kind=st.sampled_from(KINDS), anchor=DAYS, number=st.integers(0, 8))
def test_periods_begin_on_the_days_of_the_calendar(kind: str, anchor: date, number: int) -> None:
    days = starts(kind, anchor, number + 2)
    found = period(kind, anchor, number)
    assert (found.first_day, found.end_day) == (days[number], days[number + 1])
    assert found.last_day == found.end_day - timedelta(days=1)
    assert number_at(kind, anchor, found.first_day) == number


@given(kind=st.sampled_from(KINDS), anchor=DAYS, number=st.integers(0, 3000))
def test_periods_follow_each_other_without_a_gap(kind: str, anchor: date, number: int) -> None:
    found = period(kind, anchor, number)
    assert found.end_day == period(kind, anchor, number + 1).first_day
    assert number_at(kind, anchor, found.end_day) == number + 1
    assert (found.end_day - found.first_day).days >= SHORTEST_DAYS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_shortest_period_occurs(kind: str) -> None:
    day, shortest = date(2096, 1, 1), 10**6
    while day < date(2105, 1, 1):  # 2100 is no leap year
        each = period(kind, day, 0)
        shortest = min(shortest, (each.end_day - each.first_day).days)
        day += timedelta(days=1)
    assert shortest == SHORTEST_DAYS[kind]


@given(kind=st.sampled_from(KINDS), anchor=DAYS, number=st.integers(0, 40), zone=ZONES)
def test_bounds_are_midnights_of_the_zone(kind: str, anchor: date, number: int, zone: str) -> None:
    found = period(kind, anchor, number)
    bounds_us = found.bounds_us(ZoneInfo(zone))
    for day, at_us in zip((found.first_day, found.end_day), bounds_us, strict=True):
        assert at_us % 3_600_000_000 == 0
        at = datetime.fromtimestamp(at_us // 1_000_000, UTC).astimezone(ZoneInfo(zone))
        assert at.date() == day
        assert at.hour * 60 + at.minute <= 60  # a fraction of an hour, or a skipped midnight
    assert bounds_us[1] == period(kind, anchor, number + 1).bounds_us(ZoneInfo(zone))[0]


def test_ends_of_months_and_changes_of_the_clock() -> None:
    days = [period("month", date(2026, 1, 31), each).first_day for each in range(4)]
    assert days == [date(2026, 1, 31), date(2026, 2, 28), date(2026, 3, 31), date(2026, 4, 30)]
    assert period("year", date(2024, 2, 29), 1).first_day == date(2025, 2, 28)
    assert period("year", date(2024, 2, 29), 4).first_day == date(2028, 2, 29)
    assert period("quarter", date(2025, 11, 30), 1).first_day == date(2026, 2, 28)
    start_us, end_us = period("week", date(2026, 3, 23), 0).bounds_us(ZoneInfo("Europe/Berlin"))
    assert (end_us - start_us) // 3_600_000_000 == 167
