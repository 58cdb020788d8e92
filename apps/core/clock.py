"""The only clock of the server. Entry points read it and pass the time as an argument."""

import time
from datetime import UTC, datetime


def now_us() -> int:
    """Return the time now, µs since 1970 UTC."""
    return time.time_ns() // 1000


def utc(time_us: int) -> datetime:
    """Return ``time_us`` as an aware UTC datetime."""
    return datetime.fromtimestamp(time_us / 1_000_000, tz=UTC)
