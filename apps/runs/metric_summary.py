"""Which of a run's metrics says best how it went, and which way it is better. Pure."""

import re
from collections.abc import Iterable, Sequence

from apps.runs.metric_parsing import Point

_VALIDATION = re.compile(r"(^|[/_.\- ])(val|valid|validation|eval|dev|test)", re.IGNORECASE)
_LOSS = re.compile(r"loss|error|perplexity|ppl|nll", re.IGNORECASE)
_LESS = re.compile(
    r"loss|error|perplexity|ppl|nll|latency|duration|runtime|"
    r"(^|[/_.\- ])(err|mae|mse|rmse|mape|wer|cer|fid|ece|bpc|bpb|time)([/_.\- ]|$)",
    re.IGNORECASE,
)
_TIME = re.compile(r"time|runtime|second|epoch|step|samples_per|lr$|learning_rate|memory|system/", re.IGNORECASE)


def metric_shown(names: Iterable[str]) -> str | None:
    """Return which of a run's metrics says best how it went: of validation, else a loss, else the first by name."""
    listed = sorted(name for name in names if not _TIME.search(name))
    validation = [name for name in listed if _VALIDATION.search(name)]
    for found in ([name for name in validation if not _LOSS.search(name)], validation):
        if found:
            return found[0]
    return next((name for name in listed if _LOSS.search(name)), listed[0] if listed else None)


def less_is_better(name: str) -> bool:
    """Return whether a metric of this name is the better the less it is: losses, errors, distances, times."""
    return _LESS.search(name) is not None


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
