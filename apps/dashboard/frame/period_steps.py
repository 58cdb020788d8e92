"""Neighbours of a period: the one before, the one after, and the same a year earlier.

Pure: the current time is an argument. A calendar unit (day, month, quarter, year) steps to its
neighbour, whatever its length; other periods step by their own length.
"""

from datetime import date, timedelta

from apps.core.intervals import midnight_hour, next_unit, unit_start
from apps.core.units import US_PER_HOUR
from apps.dashboard.periods import (
    PRESET_OF_UNIT,
    Period,
    local,
    preset_period,
)

PREVIOUS, YEAR_EARLIER, NO_COMPARISON = "previous", "year", "none"
COMPARISONS = {
    PREVIOUS: "Previous period",
    YEAR_EARLIER: "Year earlier",
    NO_COMPARISON: "No comparison",
}


def previous_period(period: Period) -> Period:
    """Return the preceding calendar unit or the preceding period of the same length.

    A unit that is not over is compared with the same part of the one before: 1 to 26 November with
    1 to 26 October.
    """
    if not period.unit:
        return Period(period.from_hour - period.hours, period.from_hour, period.zone)
    start = unit_start(period.unit, period.first_day - timedelta(days=1))
    first = midnight_hour(start, period.zone)
    return Period(first, _end(period, first, period.from_hour), period.zone)


def year_earlier(period: Period) -> Period:
    """Return the same days of the year before; 29 February becomes 28 February."""
    zone = period.zone
    first = midnight_hour(_a_year_before(period.first_day), zone)
    first += period.from_hour - midnight_hour(period.first_day, zone)
    if period.unit:
        after = next_unit(period.unit, _a_year_before(period.first_day))
        return Period(first, _end(period, first, midnight_hour(after, zone)), zone)
    return Period(first, first + period.hours, zone)


def _end(period: Period, first: int, end_of_unit: int) -> int:
    """Return the end of a part of a unit that starts at ``first``: as long as ``period``, the
    whole unit if ``period`` is whole.
    """
    return end_of_unit if period.is_whole_unit else min(first + period.hours, end_of_unit)


def _a_year_before(day: date) -> date:
    try:
        return day.replace(year=day.year - 1)
    except ValueError:
        return day.replace(year=day.year - 1, day=28)


def earlier_step(period: Period) -> Period:
    """Return the whole period before, for the button back."""
    if period.unit:
        start = unit_start(period.unit, period.first_day - timedelta(days=1))
        return Period(midnight_hour(start, period.zone), period.from_hour, period.zone)
    if not period.is_in_days:
        return previous_period(period)
    first = period.first_day - timedelta(days=period.day_count)
    return Period(midnight_hour(first, period.zone), period.from_hour, period.zone)


def later_step(period: Period, now: int) -> Period | None:
    """Return the whole period after, the running preset if that contains ``now``; None if it
    begins after ``now``.
    """
    end_now = now // US_PER_HOUR + 1
    if period.to_hour >= end_now:
        return None
    zone = period.zone
    if period.unit:
        after = next_unit(period.unit, local(period.to_hour, zone).date())
        end = midnight_hour(after, zone)
        if end >= end_now:
            return preset_period(PRESET_OF_UNIT[period.unit], zone=zone, now=now)
        return Period(period.to_hour, end, zone)
    if not period.is_in_days:
        return Period(period.to_hour, min(end_now, period.to_hour + period.hours), zone)
    last = local(period.to_hour, zone).date() + timedelta(days=period.day_count)
    end = midnight_hour(last, zone)
    preset = {7: "7d", 30: "30d"}.get(period.day_count, "")
    if end >= end_now and preset:
        return preset_period(preset, zone=zone, now=now)
    return Period(period.to_hour, min(end, end_now), zone)


def compared_period(period: Period, comparison: str) -> Period | None:
    """Return the period to compare with; None for no comparison."""
    if comparison == NO_COMPARISON:
        return None
    return year_earlier(period) if comparison == YEAR_EARLIER else previous_period(period)
