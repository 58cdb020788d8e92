"""What of a quarantined window can be counted in a time that a manager chooses. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.core.units import US_PER_S, largest_remainder

MIN_LENGTH_US = US_PER_S


@dataclass(frozen=True, slots=True)
class CountedWindow:
    """A counted window of the same device. ``is_same_counter``: its readings can be compared with
    those of the quarantined one.
    """

    start_us: int
    end_us: int
    energy_mj: int
    counter_start: int | None
    counter_end: int | None
    is_same_counter: bool

    def has_readings(self) -> bool:
        return self.is_same_counter and self.counter_start is not None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The part of a window that is not counted yet, and its time. ``problem``: why there is none.

    ``counter_start``, ``counter_end``: hull of the readings that are not counted yet.
    """

    start_us: int
    end_us: int
    energy_mj: int
    counter_start: int | None
    counter_end: int | None
    problem: str = ""


def acceptance(
    *,
    energy_mj: int,
    counters: tuple[int, int] | None,
    start_us: int,
    end_us: int,
    counted: Sequence[CountedWindow],
) -> Acceptance:
    """Return what can be accepted of a window in ``[start_us, end_us)``.

    ``counters``: its readings, None without a counter. ``counted``: windows of the device that
    overlap this time, or whose readings of the same counter overlap. The energy between readings
    that are counted already is subtracted. The time is the longest free part. A window with an
    energy other than the difference of its readings is counted whole or not at all.
    """
    overlapping = [row for row in counted if row.end_us > start_us and row.start_us < end_us]

    def refused(problem: str) -> Acceptance:
        return Acceptance(start_us, end_us, 0, None, None, problem)

    if counters is None:
        if overlapping:
            return refused("taken")
        return Acceptance(start_us, end_us, energy_mj, None, None)
    if any(not row.has_readings() for row in overlapping):
        return refused("incomparable")
    low, high = counters
    rest = _subtract(
        (low, high),
        (
            (row.counter_start, row.counter_end)
            for row in counted
            if row.is_same_counter and row.counter_start is not None and row.counter_end is not None
        ),
    )
    remaining_mj = sum(end - start for start, end in rest)
    if high - low != energy_mj:  # its readings do not measure all of its energy
        if remaining_mj != high - low:
            return refused("readings")
        remaining_mj = energy_mj
    if energy_mj and not remaining_mj:
        return refused("counted")
    free = _subtract((start_us, end_us), ((row.start_us, row.end_us) for row in overlapping))
    longest = max(free, key=lambda part: part[1] - part[0], default=(0, 0))
    if longest[1] - longest[0] < min(MIN_LENGTH_US, end_us - start_us):
        return refused("taken")
    hull = (rest[0][0], rest[-1][1]) if rest else (low, high)
    return Acceptance(*longest, remaining_mj, *hull)


def scaled_shares(shares: Sequence[tuple[str, int]], energy_mj: int) -> list[tuple[str, int]]:
    """Return the shares in proportion, with the exact sum ``energy_mj``."""
    ordered = sorted(shares)
    parts = largest_remainder(energy_mj, [mj for _, mj in ordered])
    return [(key, part) for (key, _), part in zip(ordered, parts, strict=True)]


def _subtract(
    whole: tuple[int, int], parts: Iterable[tuple[int | None, int | None]]
) -> list[tuple[int, int]]:
    """Return the intervals of ``whole`` that no part covers, in order."""
    at, end = whole
    rest = []
    for low, high in sorted(
        (low, high) for low, high in parts if low is not None and high is not None
    ):
        if high <= at or low >= end:
            continue
        if low > at:
            rest.append((at, low))
        at = max(at, high)
    if at < end:
        rest.append((at, end))
    return rest
