"""Curves for people: fewer points, and none of the peaks lost. Pure."""

from collections.abc import Sequence

from apps.runs.metric_parsing import Point

MOST_POINTS = 2000
_KEPT = 5  # of a stretch: its first and last point, its least and greatest value, its first that is no number


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Return at most ``most`` points in the order given, with the least and greatest of every stretch, and its first that
    is not finite. Few enough points are returned as they are."""
    if len(points) <= most:
        return list(points)
    stretches = most // _KEPT
    kept: list[Point] = []
    for number in range(stretches):
        low, high = len(points) * number // stretches, len(points) * (number + 1) // stretches
        kept += _marked(points, low, high)
    return kept


def _marked(points: Sequence[Point], low: int, high: int) -> list[Point]:
    wanted = {low, high - 1}
    finite = [place for place in range(low, high) if points[place].value is not None]
    if finite:
        wanted |= {min(finite, key=lambda place: points[place].value or 0.0),
                   max(finite, key=lambda place: points[place].value or 0.0)}  # fmt: skip
    if len(finite) < high - low:
        wanted.add(next(place for place in range(low, high) if points[place].value is None))
    return [points[place] for place in sorted(wanted)]
