"""Calendar units, the periods before and after, and comparisons."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.core.intervals import midnight_hour
from apps.core.units import US_PER_HOUR
from apps.dashboard.frame.period_steps import (
    earlier_step,
    later_step,
    previous_period,
    year_earlier,
)
from apps.dashboard.periods import Period, parse_period
from tests.builders import SmallLab
from tests.dashboard.support import text_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = int(datetime(2026, 11, 26, 10, 30, tzinfo=UTC).timestamp()) * 1_000_000


def period_of(first: str, last: str, zone: ZoneInfo = BERLIN) -> Period:
    """Return the period of whole days, both included."""
    after = date.fromisoformat(last) + timedelta(days=1)
    return parse_period({"from": first, "to": after.isoformat()}, zone=zone, now=NOW)


def days_of(period: Period) -> tuple[str, str]:
    return period.first_day.isoformat(), period.last_day.isoformat()


def preset(name: str) -> Period:
    return parse_period({"period": name}, zone=BERLIN, now=NOW)


@pytest.mark.parametrize(
    ("first", "last", "unit", "label"),
    [
        ("2026-10-01", "2026-10-31", "month", "October 2026"),
        ("2026-07-01", "2026-09-30", "quarter", "Q3 2026"),
        ("2025-01-01", "2025-12-31", "year", "2025"),
        ("2026-10-25", "2026-10-25", "day", "25 Oct 2026"),
        ("2026-10-02", "2026-10-31", "", "2 Oct – 31 Oct 2026"),
        ("2026-10-01", "2026-11-30", "", "1 Oct – 30 Nov 2026 so far"),
    ],
)
def test_whole_units_are_recognised(first: str, last: str, unit: str, label: str) -> None:
    period = period_of(first, last)
    assert (period.unit, period.label) == (unit, label)


@pytest.mark.parametrize(
    ("period", "before"),
    [
        (period_of("2026-10-01", "2026-10-31"), ("2026-09-01", "2026-09-30")),
        (period_of("2026-03-01", "2026-03-31"), ("2026-02-01", "2026-02-28")),
        (period_of("2026-01-01", "2026-03-31"), ("2025-10-01", "2025-12-31")),
        (period_of("2026-10-05", "2026-10-11"), ("2026-09-28", "2026-10-04")),
        (preset("month"), ("2026-10-01", "2026-10-26")),
        (preset("quarter"), ("2026-07-01", "2026-08-26")),
        (preset("year"), ("2025-01-01", "2025-11-26")),
        (preset("today"), ("2026-11-25", "2026-11-25")),
    ],
)
def test_previous(period: Period, before: tuple[str, str]) -> None:
    assert days_of(previous_period(period)) == before


def test_a_part_of_a_month_is_compared_with_at_most_the_month_before() -> None:
    now = int(datetime(2026, 3, 30, 12, tzinfo=UTC).timestamp()) * 1_000_000
    march = parse_period({"period": "month"}, zone=BERLIN, now=now)
    assert days_of(previous_period(march)) == ("2026-02-01", "2026-02-28")
    assert previous_period(march).is_whole_unit


@pytest.mark.parametrize(
    ("period", "before"),
    [
        (period_of("2024-02-29", "2024-02-29"), ("2023-02-28", "2023-02-28")),
        (period_of("2024-02-01", "2024-02-29"), ("2023-02-01", "2023-02-28")),
        (period_of("2026-10-01", "2026-10-31"), ("2025-10-01", "2025-10-31")),
        (period_of("2026-10-05", "2026-10-11"), ("2025-10-05", "2025-10-11")),
        (preset("month"), ("2025-11-01", "2025-11-26")),
    ],
)
def test_a_year_earlier(period: Period, before: tuple[str, str]) -> None:
    assert days_of(year_earlier(period)) == before


units = st.sampled_from(["day", "month", "quarter", "year", "week", "hours"])


@given(st.integers(400_000, 490_000), units, st.integers(1, 90))
def test_back_and_forth_is_where_it_was(hour: int, kind: str, length: int) -> None:
    """Stepping back, then forth, gives the same period; neighbours touch without a gap."""
    period = Period(hour, hour + length, BERLIN)
    if kind != "hours":
        first = period.first_day
        starts = {"month": first.replace(day=1), "year": first.replace(month=1, day=1)}
        starts["quarter"] = first.replace(month=(first.month - 1) // 3 * 3 + 1, day=1)
        start = starts.get(kind, first)
        months = {"month": 1, "quarter": 3, "year": 12}.get(kind, 0)
        days = {"day": 1, "week": 7}.get(kind, 0)
        end = (
            date(
                start.year + (start.month - 1 + months) // 12,
                (start.month - 1 + months) % 12 + 1,
                1,
            )
            if months
            else start + timedelta(days=days)
        )
        period = Period(midnight_hour(start, BERLIN), midnight_hour(end, BERLIN), BERLIN)
    back = earlier_step(period)
    assert back.to_hour == period.from_hour
    now = (period.to_hour + 10_000) * US_PER_HOUR
    assert later_step(back, now) == period


def test_forth_ends_at_now() -> None:
    october = period_of("2026-10-01", "2026-10-31")
    assert later_step(october, NOW) == preset("month")
    assert later_step(preset("month"), NOW) is None
    assert later_step(earlier_step(preset("7d")), NOW) == preset("7d")


@pytest.mark.django_db
def test_the_bar_keeps_the_period_across_pages(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get("/", {"period": "quarter", "compare": "year"}))
    assert 'href="/projects/?period=quarter&amp;compare=year"' in page
    assert 'aria-current="true">Quarter</a>' in page
    assert 'aria-current="true">Year earlier</a>' in page
    assert owner.get("/", {"compare": "century"}).status_code == 400


@pytest.mark.django_db
def test_the_month_is_the_default_of_a_lab_that_is_not_new(lab: SmallLab, owner: Client) -> None:
    lab.lab.created_us = 0
    lab.lab.save()
    assert 'aria-current="true">Month</a>' in text_of(owner.get("/"))
