"""The period of a sampled series, such as CPU time or power. Pure."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

MILLION = 1_000_000
_MAX_SAMPLES = 2_400
_MIN_PERIODS = 4  # the series contains at least so many
_MIN_LAG = 3  # a period has at least so many samples
_LEAST_PPM = 350_000  # weaker peaks also occur in noise
_NEAR_BEST_PPM = 850_000


class Period(NamedTuple):
    """A period. ``strength_ppm``: the autocorrelation at it, of at most 1 000 000."""

    length_us: int
    strength_ppm: int


def find_period(values: Sequence[int], interval_us: int) -> Optional[Period]:
    """Return the period of a series with equal intervals, None without a clear one."""
    recent = list(values[-_MAX_SAMPLES:])
    correlations = _autocorrelation(recent, len(recent) // _MIN_PERIODS)
    peaks = [
        lag
        for lag in range(_MIN_LAG, len(correlations) - 1)
        if correlations[lag - 1] < correlations[lag] >= correlations[lag + 1]
    ]
    # Between the centre and the first peak a rhythm falls. A drift does not.
    peaks = [lag for lag in peaks if min(correlations[1:lag]) * 2 < correlations[lag]]
    if not peaks:
        return None
    best_ppm = max(correlations[lag] for lag in peaks)
    if best_ppm < _LEAST_PPM:
        return None
    lag = next(lag for lag in peaks if correlations[lag] * MILLION >= best_ppm * _NEAR_BEST_PPM)
    multiple, count = _furthest_multiple(correlations, lag)
    return Period((multiple * interval_us * 2 + count) // (2 * count), correlations[lag])


def _autocorrelation(values: List[int], max_lag: int) -> List[int]:
    """Return the autocorrelation by lag in ppm."""
    count = len(values)
    if count < _MIN_LAG * _MIN_PERIODS:
        return []
    total = sum(values)
    deviations = [value * count - total for value in values]
    power = sum(deviation * deviation for deviation in deviations)
    if not power:
        return []
    correlations = []
    for lag in range(max_lag + 1):
        product = sum(map(int.__mul__, deviations, deviations[lag:]))
        correlations.append(product * count * MILLION // (power * (count - lag)))
    return correlations


def _furthest_multiple(correlations: Sequence[int], lag: int) -> tuple[int, int]:
    """Return the furthest peak that is a multiple of ``lag``, and which multiple it is. It gives
    the period more exactly than one sample.
    """
    multiple, count = lag, 1
    while True:
        expected = (multiple * (count + 1) * 2 + count) // (2 * count)
        reach = max(1, lag // 4)
        if expected + reach >= len(correlations):
            return multiple, count
        nearest = max(
            range(expected - reach, expected + reach + 1), key=lambda at: correlations[at]
        )
        if correlations[nearest] * 2 < correlations[lag]:
            return multiple, count
        multiple, count = nearest, count + 1
