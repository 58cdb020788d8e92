"""A naive division of intervals into hours, for comparison."""

from apps.core.intervals import hours_touched
from apps.core.units import US_PER_HOUR


def durations_by_hour(start_us: int, end_us: int) -> dict[int, int]:
    """Return the µs of ``[start_us, end_us)`` in each hour."""
    return {
        hour: min(end_us, (hour + 1) * US_PER_HOUR) - max(start_us, hour * US_PER_HOUR)
        for hour in hours_touched(start_us, end_us)
    }
