"""Find the hours whose emission factor changes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from apps.carbon.figures.factor_spans import PeriodFactor, factor_for_hour, month_start_hour
from apps.core.intervals import merge_intervals

Interval = tuple[int, int]


@dataclass(frozen=True)
class ZoneValues:
    """The factors of a zone: those of years and months, their values (µg per kWh) by id, and those
    of hours {UTC hour: µg per kWh}.
    """

    periods: Sequence[PeriodFactor]
    ug_per_kwh: Mapping[int, int]
    hours: Mapping[int, int]

    def of_period(self, hour: int) -> int | None:
        """Return the value of the month or year of an hour."""
        factor = factor_for_hour(self.periods, hour)
        return None if factor is None else self.ug_per_kwh[factor.factor_id]


def changed_hours(
    before: ZoneValues, after: ZoneValues, from_hour: int, to_hour: int
) -> list[Interval]:
    """Return the intervals of ``[from_hour, to_hour)`` in which the value of a zone changes."""
    changed: list[Interval] = []
    start = from_hour
    while start < to_hour:
        time = datetime.fromtimestamp(start * 3600, tz=UTC)
        end = min(to_hour, month_start_hour(time.year, time.month + 1))
        old, new = before.of_period(start), after.of_period(start)
        changed += [
            (hour, hour + 1)
            for hour in range(start, end)
            if before.hours.get(hour, old) != after.hours.get(hour, new)
        ]
        start = end
    return list(merge_intervals(changed))


def intersect(one: Iterable[Interval], other: Iterable[Interval]) -> list[Interval]:
    """Return the hours in both of two lists of intervals."""
    others = list(other)
    common = [
        (max(start, from_hour), min(end, to_hour))
        for start, end in one
        for from_hour, to_hour in others
        if start < to_hour and from_hour < end
    ]
    return list(merge_intervals(common))
