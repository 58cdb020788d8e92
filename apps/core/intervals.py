"""Half-open intervals ``[start, end)`` of integers (microseconds or whole hours). Pure."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from apps.core.units import US_PER_HOUR

Told = tuple[int, int, object]


def hours_touched(start_us: int, end_us: int) -> range:
    """Return the whole UTC hours that ``[start_us, end_us)`` touches."""
    return range(start_us // US_PER_HOUR, -(-end_us // US_PER_HOUR))


def split_by_hour(energy_mj: int, start_us: int, end_us: int, hours: Collection[int] | None = None) -> dict[int, int]:
    """Divide ``energy_mj`` over the hours of ``[start_us, end_us)`` by duration, largest remainder, earlier hour first;
    return the parts of ``hours`` (without them, of all), in order.

    What is between the first hour and the last is of one length, so hours that are not asked for cost nothing: a year that
    was declared at once is settled a hundred hours at a time.
    """
    touched = hours_touched(start_us, end_us)
    sign, total, whole = -1 if energy_mj < 0 else 1, abs(energy_mj), end_us - start_us
    alike = _alike(touched, start_us, end_us)
    left = total - sum(total * us // whole * len(block) for block, us in alike)
    parts: dict[int, int] = {}
    for block, us in sorted(alike, key=lambda each: (-(total * each[1] % whole), each[0].start)):
        least, until = total * us // whole, block.start + left  # hours before that get one more
        parts.update((hour, sign * (least + (hour < until))) for hour in _wanted(block, hours))
        left = max(0, left - len(block))
    return dict(sorted(parts.items()))


def _wanted(block: range, hours: Collection[int] | None) -> Iterable[int]:
    if hours is None:
        return block
    return (
        [hour for hour in block if hour in hours] if len(block) <= len(hours) else [hour for hour in hours if hour in block]
    )


def _alike(touched: range, start_us: int, end_us: int) -> list[tuple[range, int]]:
    """Return the first hour, those between, and the last, each with the µs of one of its hours."""
    first, last = touched[0], touched[-1]
    if first == last:
        return [(touched, end_us - start_us)]
    ends = [(touched[:1], (first + 1) * US_PER_HOUR - start_us), (touched[-1:], end_us - last * US_PER_HOUR)]
    return [*ends, (touched[1:-1], US_PER_HOUR)]


def merged(intervals: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
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


def differing(before: Iterable[Told], after: Iterable[Told]) -> tuple[int, int] | None:
    """Return from where to where two histories differ at most: the first and the last place at which they tell another
    value; None if they tell the same. A history is (start, end, value)s that do not overlap."""
    sides = [list(before), list(after)]
    cuts = sorted({place for side in sides for start, end, _ in side for place in (start, end)})
    told: list[list[object]] = [[None] * len(cuts) for _ in sides]
    for values, side in zip(told, sides, strict=True):
        for start, end, value in side:
            for i in range(bisect_left(cuts, start), bisect_left(cuts, end)):
                values[i] = value
    places = [i for i, (old, new) in enumerate(zip(*told, strict=True)) if old != new]
    return (cuts[places[0]], cuts[places[-1] + 1]) if places else None


def hull(spans: Iterable[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Return the shortest interval that holds all of ``spans``; None where there is none."""
    found = [span for span in spans if span is not None]
    return (min(start for start, _ in found), max(end for _, end in found)) if found else None


def us_of(moment: datetime) -> int:
    """Return an aware ``moment`` in µs since 1970 UTC, exactly."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def midnight_hour(day: date, zone: ZoneInfo) -> int:
    """Return the whole UTC hour at which ``day`` begins in ``zone``; in zones off the hour the next whole one."""
    return -(-int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) // 3600)


def day_edges(first_hour: int, end_hour: int, zone: ZoneInfo) -> list[int]:
    """Return the first whole UTC hours of the days of ``zone`` that touch ``[first_hour, end_hour)``, and the end."""
    day = datetime.fromtimestamp(first_hour * 3600, tz=zone).date()
    edges = [midnight_hour(day, zone)]
    if edges[0] > first_hour:  # a zone off the hour: its day begins with the next whole hour
        edges.insert(0, midnight_hour(day - timedelta(days=1), zone))
    while edges[-1] < end_hour:
        day += timedelta(days=1)
        edges.append(midnight_hour(day, zone))
    return edges
