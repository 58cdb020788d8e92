"""Which hours of a provider are requested, and when. Pure."""

from apps.core.units import US_PER_HOUR, US_PER_S

FIRST_DAYS = 30
RECENT_HOURS = 48
REVIEW_DAYS = 7
MAX_REQUESTS = 6
EVERY_US = US_PER_HOUR
REVIEW_EVERY_US = 24 * US_PER_HOUR
MAX_WAIT_US = 24 * US_PER_HOUR


def is_review_due(reviewed_us: int, now: int) -> bool:
    """Return whether the last days are requested again, because provisional hours become final."""
    return now - reviewed_us >= REVIEW_EVERY_US


def ranges_to_request(
    fetched_to_hour: int | None, *, end_hour: int, max_days: int, has_review: bool
) -> list[tuple[int, int]]:
    """Return the hours ``[start, end)`` of the next requests, the oldest first.

    They start two days (of a review: seven) before the end of the last successful request, because
    hours before it can have been provisional, and end before ``end_hour``, the current one. So a
    provider that was down is asked once for each missing hour. At most MAX_REQUESTS: the rest
    follows in the next job.
    """
    if fetched_to_hour is None:
        start = end_hour - FIRST_DAYS * 24
    else:
        hours = REVIEW_DAYS * 24 if has_review else RECENT_HOURS
        start = min(fetched_to_hour, end_hour) - hours
    size = max_days * 24
    starts = range(start, end_hour, size)[:MAX_REQUESTS]
    return [(first, min(first + size, end_hour)) for first in starts]


def next_attempt_us(now: int, *, failures: int, wait_s: int = 0, is_complete: bool = True) -> int:
    """Return when the provider is due again: every hour, immediately if hours remain, and after
    1, 2, 4, … 24 hours of failures, or later if the provider states so.
    """
    if not failures:
        return now + (EVERY_US if is_complete else 0)
    wait_us = min(EVERY_US << min(failures - 1, 10), MAX_WAIT_US)
    return now + max(wait_us, wait_s * US_PER_S)
