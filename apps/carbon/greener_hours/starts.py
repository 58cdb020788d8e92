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
    values = [intensity.get(each) for each in range(hour, hour + duration_hours)]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Start(hour, _mean(sum(known), duration_hours))


def greenest_start(
    intensity: Mapping[int, int], *, first_hour: int, last_hour: int, duration_hours: int
) -> Start | None:
    """Return the start from ``first_hour`` to ``last_hour``, both included, with the least sum over
    ``duration_hours``; the earliest of equal ones. None if no start has all its hours.
    """
    best: tuple[int, int] | None = None
    for hour in range(first_hour, last_hour + 1):
        values = [intensity.get(each) for each in range(hour, hour + duration_hours)]
        if None in values:
            continue
        total = sum(value for value in values if value is not None)
        if best is None or total < best[0]:
            best = (total, hour)
    return None if best is None else Start(best[1], _mean(best[0], duration_hours))


def _mean(total: int, count: int) -> int:
    return (2 * total + count) // (2 * count)
