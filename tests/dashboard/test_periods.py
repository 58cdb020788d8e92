"""Periods: hours of UTC chosen in days of the lab's zone."""

import itertools
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import InvalidInput
from apps.core.intervals import midnight_hour
from apps.dashboard.periods import Period, default_preset, from_days, parse_period

BERLIN, KOLKATA, UTC_ZONE = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata"), ZoneInfo("UTC")
NOW = int(datetime(2026, 11, 21, 10, 30, tzinfo=UTC).timestamp()) * 1_000_000


def test_default_is_the_month_of_the_lab_and_ends_with_this_hour() -> None:
    period = parse_period({}, zone=BERLIN, now=NOW)
    assert (period.first_day.isoformat(), period.last_day.isoformat()) == (
        "2026-11-01",
        "2026-11-21",
    )
    assert period.to_hour == NOW // 3_600_000_000 + 1
    assert (
        period.query == "period=month"
    )  # said always: a young lab shows 24 hours where nothing is said
    assert len(period.buckets()) == 21


def test_days_begin_at_midnight_of_the_zone_on_a_whole_utc_hour() -> None:
    period = parse_period({"from": "2026-11-01", "to": "2026-11-02"}, zone=BERLIN, now=NOW)
    assert period.query == "from=2026-10-31T23%3A00Z&to=2026-11-01T23%3A00Z"
    day = datetime(2026, 11, 1, tzinfo=UTC).date()
    assert midnight_hour(day, KOLKATA) * 3600 == int(
        datetime(2026, 10, 31, 19, tzinfo=UTC).timestamp()
    )


def test_the_day_the_clock_goes_back_has_25_hours() -> None:
    period = parse_period({"from": "2026-10-25", "to": "2026-10-26"}, zone=BERLIN, now=NOW)
    assert period.hours == 25


@pytest.mark.parametrize(
    ("days", "grain"), [(1, "hour"), (3, "hour"), (4, "day"), (60, "day"), (62, "week")]
)
def test_grain(days: int, grain: str) -> None:
    assert Period(480_000, 480_000 + 24 * days, BERLIN).grain == grain


@given(
    st.integers(min_value=400_000, max_value=600_000),
    st.integers(min_value=1, max_value=24 * 400),
    st.sampled_from(
        [BERLIN, KOLKATA, UTC_ZONE, ZoneInfo("America/St_Johns"), ZoneInfo("Pacific/Apia")]
    ),
)
def test_buckets_are_the_period_without_gap_or_overlap(
    start: int, hours: int, zone: ZoneInfo
) -> None:
    buckets = Period(start, start + hours, zone).buckets()
    assert buckets[0].from_hour == start
    assert buckets[-1].to_hour == start + hours
    assert all(a.to_hour == b.from_hour for a, b in itertools.pairwise(buckets))
    assert all(bucket.to_hour > bucket.from_hour for bucket in buckets)


@pytest.mark.parametrize("period", ["today", "24h", "7d", "30d", "month", "quarter", "year"])
def test_the_last_bar_of_a_preset_is_running(period: str) -> None:
    buckets = parse_period({"period": period}, zone=BERLIN, now=NOW).buckets()
    assert [bucket.is_running for bucket in buckets] == [False] * (len(buckets) - 1) + [True]
    assert buckets[-1].full_label.endswith(" so far")


@pytest.mark.parametrize(
    ("first", "end", "running"),
    [
        ("2026-11-01", "2026-11-21", []),
        ("2026-11-01", "2026-11-22", ["Sat 21 Nov so far"]),
        ("2026-11-01", "2026-11-30", ["Sat 21 Nov so far"]),
        ("2026-11-21T09:00Z", "2026-11-21T10:00Z", []),
        ("2026-11-21T09:00Z", "2026-11-21T11:00Z", ["21 Nov 11:00 so far"]),
        ("2026-09-01", "2026-11-21", ["16 Nov – 20 Nov so far"]),
        ("2026-11-22", "2026-11-30", []),
    ],
)
def test_a_bar_that_contains_now_is_running(first: str, end: str, running: list[str]) -> None:
    period = parse_period({"from": first, "to": end}, zone=BERLIN, now=NOW)
    assert [bucket.full_label for bucket in period.buckets() if bucket.is_running] == running


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"from": "2026-11-01"}, "to"),
        ({"to": "2026-11-01"}, "from"),
        ({"from": "yesterday", "to": "2026-11-01"}, "from"),
        ({"from": "2026-11-01", "to": "2026-11-01"}, "to"),
        ({"from": "1000-01-01", "to": "2026-11-01"}, "from"),
        ({"from": "9999-12-31", "to": "9999-12-31"}, "from"),
        ({"from": "1970-01-02", "to": "2200-01-01"}, "to"),
        ({"period": "decade"}, "period"),
    ],
)
def test_bad_periods_say_which_part(params: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        parse_period(params, zone=BERLIN, now=NOW)
    assert wrong.value.field == field
    assert wrong.value.hint


def test_a_form_of_days_includes_its_last_day() -> None:
    assert from_days("2026-11-01", "2026-11-03") == "from=2026-11-01&to=2026-11-04"
    with pytest.raises(InvalidInput):
        from_days("2026-11-01", "")


def test_a_lab_in_its_first_three_days_opens_on_its_hours() -> None:
    day_us = 24 * 3_600_000_000
    assert default_preset(NOW - day_us, NOW) == "24h"
    assert default_preset(NOW - 3 * day_us, NOW) == "month"
    period = parse_period({}, zone=BERLIN, now=NOW, default="24h")
    assert (period.hours, period.preset, period.query) == (24, "24h", "period=24h")
    assert parse_period({"period": "30d"}, zone=BERLIN, now=NOW, default="24h").preset == "30d"


@pytest.mark.parametrize(
    ("first", "end", "label"),
    [
        ("2026-11-10", "2026-11-11", "10 Nov 2026"),
        ("2026-11-10T05:00Z", "2026-11-10T08:00Z", "10 Nov 2026, 06:00–09:00"),
        ("2026-11-09T23:00Z", "2026-11-12T08:00Z", "10 Nov 00:00 – 12 Nov 2026 09:00"),
        ("2025-12-31T05:00Z", "2026-01-01T08:00Z", "31 Dec 2025 06:00 – 1 Jan 2026 09:00"),
        ("2026-11-01", "2026-12-01", "November 2026 so far"),
        ("2026-11-01", "2026-12-02", "1 Nov – 1 Dec 2026 so far"),
        ("2026-10-01", "2026-11-01", "October 2026"),
        ("2027-01-01", "2027-02-01", "January 2027"),
    ],
)
def test_a_label_names_what_the_period_contains(first: str, end: str, label: str) -> None:
    period = parse_period({"from": first, "to": end}, zone=BERLIN, now=NOW)
    assert period.label == label


def test_the_part_of_a_period_until_now() -> None:
    month = parse_period({"from": "2026-11-01", "to": "2026-12-01"}, zone=BERLIN, now=NOW)
    assert month.measured_part(NOW) == parse_period({"period": "month"}, zone=BERLIN, now=NOW)
    days = parse_period({"from": "2026-11-20", "to": "2026-12-20"}, zone=BERLIN, now=NOW)
    part = days.measured_part(NOW)
    assert (part.from_hour, part.to_hour) == (days.from_hour, NOW // 3_600_000_000 + 1)
    for first, end in (("2026-10-01", "2026-11-01"), ("2027-01-01", "2027-02-01")):
        other = parse_period({"from": first, "to": end}, zone=BERLIN, now=NOW)
        assert other.measured_part(NOW) is other


def test_reversed_days_are_refused_in_the_words_of_the_form() -> None:
    with pytest.raises(InvalidInput, match="last day is before the first") as refused:
        from_days("2026-11-10", "2026-11-01")
    assert refused.value.field == "last_day"
    assert from_days("2026-11-10", "2026-11-10") == "from=2026-11-10&to=2026-11-11"
