"""Periods of recurring activities: weeks, months, quarters or years from a first day on. Pure."""

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.core.intervals import midnight_hour
from apps.core.units import US_PER_HOUR

PREFIX = "recurring:"  # of the external ids of recorded periods
WEEK_DAYS = 7
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
SHORTEST_DAYS = {"week": WEEK_DAYS, "month": 28, "quarter": 89, "year": 365}


@dataclass(frozen=True)
class RecurringPeriod:
    """Days ``[first_day, end_day)``."""

    first_day: date
    end_day: date

    @property
    def last_day(self) -> date:
        return self.end_day - timedelta(days=1)

    def bounds_us(self, zone: ZoneInfo) -> tuple[int, int]:
        """Return start and end in ``zone``."""
        start, end = (midnight_hour(day, zone) for day in (self.first_day, self.end_day))
        return start * US_PER_HOUR, end * US_PER_HOUR


def period(kind: str, first_day: date, number: int) -> RecurringPeriod:
    """Return period ``number``, from 0, of those that begin with ``first_day``.

    Months begin on the same day, or on the last day of a shorter month: from January 31 on
    February 28, then March 31.
    """
    return RecurringPeriod(
        _first_day(kind, first_day, number), _first_day(kind, first_day, number + 1)
    )


def number_at(kind: str, first_day: date, day: date) -> int:
    """Return the number of the period that begins on ``day``."""
    if kind == "week":
        return (day - first_day).days // WEEK_DAYS
    return (12 * (day.year - first_day.year) + day.month - first_day.month) // _MONTHS[kind]


def _first_day(kind: str, first_day: date, number: int) -> date:
    if kind == "week":
        return first_day + timedelta(days=WEEK_DAYS * number)
    month = first_day.month - 1 + number * _MONTHS[kind]
    year, month = first_day.year + month // 12, month % 12 + 1
    return date(year, month, min(first_day.day, monthrange(year, month)[1]))


def external_id(recurring: UUID, first_day: date) -> str:
    """Return the external id of the activity of a period of a recurring activity."""
    return f"{PREFIX}{recurring}:{first_day.isoformat()}"


def recurring_uuid(text: str) -> UUID | None:
    """Return the UUID of the recurring activity in an external id, None without one."""
    prefix, _, identity = text.partition(":")
    try:
        return UUID(identity.partition(":")[0]) if f"{prefix}:" == PREFIX else None
    except ValueError:
        return None
