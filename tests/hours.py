"""Hours counted one by one, to compare with."""

from apps.core.intervals import hours_touched
from apps.core.units import US_PER_HOUR


def durations_by_hour(start_us: int, end_us: int) -> dict[int, int]:
    """Return, for each hour touched, how many µs of ``[start_us, end_us)`` lie in it."""
    return {
        hour: min(end_us, (hour + 1) * US_PER_HOUR) - max(start_us, hour * US_PER_HOUR)
        for hour in hours_touched(start_us, end_us)
    }
