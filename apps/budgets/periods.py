"""Periods of budgets: calendar units of the lab's time zone. Pure."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from apps.core.intervals import midnight_hour, next_unit, unit_start
from apps.core.units import US_PER_HOUR


@dataclass(frozen=True)
class BudgetPeriod:
    """A month, quarter or year: days ``[first_day, end_day)`` of ``zone``."""

    kind: str
    first_day: date
    end_day: date
    zone: ZoneInfo

    @property
    def day_count(self) -> int:
        return (self.end_day - self.first_day).days

    @property
    def from_hour(self) -> int:
        return midnight_hour(self.first_day, self.zone)

    @property
    def to_hour(self) -> int:
        return midnight_hour(self.end_day, self.zone)

    @property
    def previous(self) -> "BudgetPeriod":
        return period_of(self.kind, self.first_day - timedelta(days=1), self.zone)

    def past(self, number: int) -> list["BudgetPeriod"]:
        """Return the periods before, latest first."""
        found = [self]
        for _ in range(number):
            found.append(found[-1].previous)
        return found[1:]


def period_of(kind: str, day: date, zone: ZoneInfo) -> BudgetPeriod:
    """Return the period that contains a day."""
    return BudgetPeriod(kind, unit_start(kind, day), next_unit(kind, day), zone)


def day_at(now: int, zone: ZoneInfo) -> date:
    """Return the day of ``zone`` to which the whole UTC hour that contains ``now`` (µs) belongs."""
    return datetime.fromtimestamp(now // US_PER_HOUR * 3600, tz=zone).date()


def period_at(kind: str, now: int, zone: ZoneInfo) -> BudgetPeriod:
    """Return the period that contains ``now`` (µs)."""
    return period_of(kind, day_at(now, zone), zone)
