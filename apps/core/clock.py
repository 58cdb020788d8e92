"""The only clock of the server. Edges read it and pass the time in."""

import time
from datetime import UTC, datetime


def now_us() -> int:
    """Return the time now, µs since 1970 UTC."""
    return time.time_ns() // 1000


def utc(time_us: int) -> datetime:
    """Return ``time_us`` as an aware UTC datetime."""
    return datetime.fromtimestamp(time_us / 1_000_000, tz=UTC)


def us(moment: datetime) -> int:
    """Return an aware ``moment`` in µs since 1970 UTC, exactly."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
