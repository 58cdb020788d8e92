"""Selection of the headline metric of a run, and downsampling of curves. Pure."""

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
_TIME = re.compile(
    r"time|runtime|second|epoch|step|samples_per|lr$|learning_rate|memory|system/", re.IGNORECASE
)


def select_headline_metric(names: Iterable[str]) -> str | None:
    """Return the headline metric: a validation metric, else a loss, else the first by name."""
    included = sorted(name for name in names if not _TIME.search(name))
    validation = [name for name in included if _VALIDATION.search(name)]
    for candidates in ([name for name in validation if not _LOSS.search(name)], validation):
        if candidates:
            return candidates[0]
    return next(
        (name for name in included if _LOSS.search(name)), included[0] if included else None
    )


def is_lower_better(name: str) -> bool:
    """Return whether lower values of a metric are better: losses, errors, distances, times."""
    return _LESS.search(name) is not None


MAX_CURVE_POINTS = 2000
_POINTS_PER_BUCKET = (
    5  # per interval: first and last point, minimum, maximum, first non-finite value
)


def downsample(points: Sequence[Point], max_points: int = MAX_CURVE_POINTS) -> list[Point]:
    """Return at most ``max_points`` points in the given order.

    Each interval keeps its first, last, minimum, maximum and first non-finite point.
    A short list is returned unchanged.
    """
    if len(points) <= max_points:
        return list(points)
    buckets = max_points // _POINTS_PER_BUCKET
    selected: list[Point] = []
    for number in range(buckets):
        low, high = len(points) * number // buckets, len(points) * (number + 1) // buckets
        selected += _select_points(points, low, high)
    return selected


def _select_points(points: Sequence[Point], low: int, high: int) -> list[Point]:
    indexes = {low, high - 1}
    finite = [index for index in range(low, high) if points[index].value is not None]
    if finite:
        indexes |= {
            min(finite, key=lambda index: points[index].value or 0.0),
            max(finite, key=lambda index: points[index].value or 0.0),
        }
    if len(finite) < high - low:
        indexes.add(next(index for index in range(low, high) if points[index].value is None))
    return [points[index] for index in sorted(indexes)]
