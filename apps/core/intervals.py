"""Half-open intervals ``[start, end)`` of integers (microseconds or whole hours). Pure."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from apps.core.units import US_PER_HOUR

HistoryEntry = tuple[int, int, object]


def hours_touched(start_us: int, end_us: int) -> range:
    """Return the whole UTC hours that overlap ``[start_us, end_us)``."""
    return range(start_us // US_PER_HOUR, -(-end_us // US_PER_HOUR))


def split_by_hour(
    energy_mj: int, start_us: int, end_us: int, hours: Collection[int] | None = None
) -> dict[int, int]:
    """Distribute ``energy_mj`` over the hours of ``[start_us, end_us)`` by duration, with largest
    remainders, earlier hours first.

    Returns the parts of ``hours`` in order, by default of all hours. Hours between the first and
    the last have equal length, so omitted hours cost nothing: a declared year is settled a hundred
    hours at a time.
    """
    touched = hours_touched(start_us, end_us)
    sign, total, duration_us = -1 if energy_mj < 0 else 1, abs(energy_mj), end_us - start_us
    blocks = _equal_blocks(touched, start_us, end_us)
    remainder = total - sum(total * us // duration_us * len(block) for block, us in blocks)
    parts: dict[int, int] = {}
    for block, us in sorted(
        blocks, key=lambda item: (-(total * item[1] % duration_us), item[0].start)
    ):
        # hours before that get one mJ more
        base_mj, extra_until = total * us // duration_us, block.start + remainder
        parts.update(
            (hour, sign * (base_mj + (hour < extra_until)))
            for hour in _selected_hours(block, hours)
        )
        remainder = max(0, remainder - len(block))
    return dict(sorted(parts.items()))


def _selected_hours(block: range, hours: Collection[int] | None) -> Iterable[int]:
    if hours is None:
        return block
    return (
        [hour for hour in block if hour in hours]
        if len(block) <= len(hours)
        else [hour for hour in hours if hour in block]
    )


def _equal_blocks(touched: range, start_us: int, end_us: int) -> list[tuple[range, int]]:
    """Return the first hour, those between, and the last, each with the µs of one of its hours."""
    first, last = touched[0], touched[-1]
    if first == last:
        return [(touched, end_us - start_us)]
    ends = [
        (touched[:1], (first + 1) * US_PER_HOUR - start_us),
        (touched[-1:], end_us - last * US_PER_HOUR),
    ]
    return [*ends, (touched[1:-1], US_PER_HOUR)]


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the union of ``intervals`` as disjoint intervals in order."""
    current: tuple[int, int] | None = None
    for start, end in sorted(intervals):
        if current is None:
            current = (start, end)
        elif start <= current[1]:
            current = (current[0], max(current[1], end))
        else:
            yield current
            current = (start, end)
    if current is not None:
        yield current


def changed_span(
    before: Iterable[HistoryEntry], after: Iterable[HistoryEntry]
) -> tuple[int, int] | None:
    """Return the interval from the first to the last difference of two histories, None if they are
    equal.

    A history consists of (start, end, value) entries that do not overlap.
    """
    sides = [list(before), list(after)]
    cuts = sorted({edge for side in sides for start, end, _ in side for edge in (start, end)})
    values_by_side: list[list[object]] = [[None] * len(cuts) for _ in sides]
    for values, side in zip(values_by_side, sides, strict=True):
        for start, end, value in side:
            for i in range(bisect_left(cuts, start), bisect_left(cuts, end)):
                values[i] = value
    changed = [i for i, (old, new) in enumerate(zip(*values_by_side, strict=True)) if old != new]
    return (cuts[changed[0]], cuts[changed[-1] + 1]) if changed else None


def hull(spans: Iterable[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Return the shortest interval that contains all ``spans``. None if there is none."""
    present = [span for span in spans if span is not None]
    return (min(start for start, _ in present), max(end for _, end in present)) if present else None


def datetime_to_us(moment: datetime) -> int:
    """Return an aware datetime in µs since 1970 UTC, exactly."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def midnight_hour(day: date, zone: ZoneInfo) -> int:
    """Return the UTC hour in which ``day`` starts in ``zone``. In zones with fractional hour
    offsets, the next whole hour.
    """
    return -(-int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) // 3600)


def day_edges(first_hour: int, end_hour: int, zone: ZoneInfo) -> list[int]:
    """Return the first whole UTC hours of the days of ``zone`` that overlap ``[first_hour,
    end_hour)``, and the end.
    """
    day = datetime.fromtimestamp(first_hour * 3600, tz=zone).date()
    edges = [midnight_hour(day, zone)]
    # In zones with fractional hour offsets the day starts with the next whole hour.
    if edges[0] > first_hour:
        edges.insert(0, midnight_hour(day - timedelta(days=1), zone))
    while edges[-1] < end_hour:
        day += timedelta(days=1)
        edges.append(midnight_hour(day, zone))
    return edges


def unit_start(unit: str, day: date) -> date:
    """Return the first day of the calendar unit that contains ``day``."""
    if unit == "day":
        return day
    months = {"month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1, "year": 1}
    return date(day.year, months[unit], 1)


def next_unit(unit: str, day: date) -> date:
    """Return the first day after the calendar unit that contains ``day``."""
    start = unit_start(unit, day)
    if unit == "day":
        return start + timedelta(days=1)
    length = {"month": 1, "quarter": 3, "year": 12}[unit]
    month = start.month - 1 + length
    return date(start.year + month // 12, month % 12 + 1, 1)
