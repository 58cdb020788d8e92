"""Clock readings and ISO 8601 text of moments."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import NamedTuple


class Clock(NamedTuple):
    """The monotonic and the wall clock, read together. Tests pass their own."""

    monotonic_us: int
    wall_us: int


def iso(moment_us: int) -> str:
    """Return UTC microseconds as ISO 8601 text."""
    seconds, micros = divmod(moment_us, 1_000_000)
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc).replace(microsecond=micros)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
