"""The start with the least grid intensity for a job of some hours. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

PAST_DAYS = 28
_MIN_VALUES = 2  # of the same weekday and hour, so that one unusual hour is no usual one


@dataclass(frozen=True)
class Start:
    """A start hour. ``ug_per_kwh``: the mean over the hours of the job, rounded half up."""

    hour: int
    ug_per_kwh: int


def usual_intensity(
    past: Mapping[int, int], hours: Iterable[int], zone: ZoneInfo
) -> dict[int, int]:
    """Return {hour: mean µg per kWh of past hours of its weekday and hour of the day in ``zone``}.

    Means are rounded half up. Hours with fewer than two such past hours are left out.
    """
    values: dict[tuple[int, int], list[int]] = defaultdict(list)
    for hour, ug_per_kwh in past.items():
        values[_weekday_and_hour(hour, zone)].append(ug_per_kwh)
    usual: dict[int, int] = {}
    for hour in hours:
        same = values.get(_weekday_and_hour(hour, zone), [])
        if len(same) >= _MIN_VALUES:
            usual[hour] = _mean(sum(same), len(same))
    return usual


def _weekday_and_hour(hour: int, zone: ZoneInfo) -> tuple[int, int]:
    local = datetime.fromtimestamp(hour * 3600, tz=zone)
    return local.weekday(), local.hour


def start_at(intensity: Mapping[int, int], hour: int, duration_hours: int) -> Start | None:
    """Return the start at ``hour``. None if the intensity of an hour of the job is unknown."""
    total = _total(intensity, hour, duration_hours)
    return None if total is None else Start(hour, _mean(total, duration_hours))


def greenest_start(
    intensity: Mapping[int, int], *, first_hour: int, last_hour: int, duration_hours: int
) -> Start | None:
    """Return the start from ``first_hour`` to ``last_hour``, both included, with the least sum over
    ``duration_hours``; the first of equal ones. None if no start has all its hours.
    """
    totals = {
        hour: total
        for hour in range(first_hour, last_hour + 1)
        if (total := _total(intensity, hour, duration_hours)) is not None
    }
    if not totals:
        return None
    best = min(totals, key=lambda hour: (totals[hour], hour))
    return Start(best, _mean(totals[best], duration_hours))


def _total(intensity: Mapping[int, int], hour: int, duration_hours: int) -> int | None:
    """Return the sum over the hours of a job, None if one is unknown."""
    hours = range(hour, hour + duration_hours)
    if any(each not in intensity for each in hours):
        return None
    return sum(intensity[each] for each in hours)


def _mean(total: int, count: int) -> int:
    return (2 * total + count) // (2 * count)
