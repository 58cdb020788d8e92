"""Differences between a planned training and its alternatives. Pure.

Two estimates of the same training share most of what is uncertain: the power of the card, the share
of its peak, the factor, the price. What they share cancels in their ratio. So a difference is the
planned figure × (ratio − 1), with the range of the planned figure and that of the ratio.
docs/planner.md has the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from apps.core.units import PPM
from apps.planner.formulas.ranges import (
    EXACT,
    Range,
    Spread,
    combine,
    divide,
    mean_and_spread,
    rounded,
    wider,
)
from apps.planner.formulas.time_and_energy import EARLY_STOP, half_scaled

# An early stop waits so long for a better value: evaluations, and share of all steps.
PATIENCE_EVALUATIONS, PATIENCE_PPM = 5, 100_000
LEAST_EVALUATIONS = 4  # of a curve that is read
TOLERANCE_PPM = 2_000  # of the best value: values within it are as good


@dataclass(frozen=True, slots=True)
class Difference:
    """Alternative − planned: P10, likely value and P90. Negative is less."""

    low: int
    likely: int
    high: int


def shared_difference(planned: Range, alternative: int, ratio_spread: Spread = EXACT) -> Difference:
    """Return the difference of an alternative with the basis of the planned figure.

    ``ratio_spread``: of alternative ÷ planned. A range of the ratio is on the side of 1 on which
    the ratio is: less work never needs more.
    """
    likely = alternative - planned.likely
    if not planned.likely or not likely:
        return Difference(likely, likely, likely)
    ratio = Fraction(alternative, planned.likely)
    ends = [ratio * ppm / PPM - 1 for ppm in (ratio_spread.low_ppm, ratio_spread.high_ppm)]
    ends = [min(Fraction(0), end) if likely < 0 else max(Fraction(0), end) for end in ends]
    size = abs(ratio - 1)
    near, far = sorted(abs(end) / size for end in ends)
    spread = planned.spread
    factors = (
        _combined(Fraction(spread.low_ppm, PPM), near),
        _combined(Fraction(spread.high_ppm, PPM), far),
    )
    small, large = (rounded(abs(likely) * factor) for factor in factors)
    if likely < 0:
        return Difference(max(-large, -planned.high), likely, -small)
    return Difference(small, likely, large)


def _combined(first: Fraction, second: Fraction) -> Fraction:
    """Return two factors on the same side of 1 combined in quadrature of their logarithms; 0 if one
    is 0.
    """
    if not first or not second:
        return Fraction(0)
    if first <= 1 and second <= 1:
        spread = combine(Spread(_ppm(first), PPM), Spread(_ppm(second), PPM))
        return Fraction(spread.low_ppm, PPM)
    spread = combine(Spread(PPM, _ppm(max(Fraction(1), first))), Spread(PPM, _ppm(second)))
    return Fraction(spread.high_ppm, PPM)


def _ppm(factor: Fraction) -> int:
    return max(1, rounded(factor * PPM))


def separate_difference(planned: Range, alternative: Range) -> Difference:
    """Return the difference of two estimates that rest on different evidence. Their distances to
    P10 and P90 combine in quadrature.
    """
    likely = alternative.likely - planned.likely
    below = _quadrature(alternative.likely - alternative.low, planned.high - planned.likely)
    above = _quadrature(alternative.high - alternative.likely, planned.likely - planned.low)
    return Difference(
        max(likely - below, alternative.low - planned.high),
        likely,
        min(likely + above, alternative.high - planned.low),
    )


def _quadrature(first: int, second: int) -> int:
    return isqrt(first * first + second * second)


def scale(figure: Range, ratio: Fraction) -> Range:
    """Return a range × a ratio ≥ 0."""
    low, likely, high = (rounded(end * ratio) for end in (figure.low, figure.likely, figure.high))
    return Range(low, likely, high)


def operations_spread(ratio: Fraction) -> Spread:
    """Return the spread of a ratio of operations as a ratio of time or energy: from its square root
    to its power of 1.5, as where own runs are scaled by model costs.
    """
    return half_scaled(ratio) if ratio else EXACT


@dataclass(frozen=True, slots=True)
class PastCurve:
    """Evaluations of a past training. ``best_step``: the first with a value as good as the best one
    (within 0.2 %).
    """

    evaluations: int
    best_step: int
    last_step: int


def stopping_ppm(curve: PastCurve) -> int | None:
    """Return the share of its steps after which a training would have stopped with its best value:
    the best evaluation, and a wait of five evaluations or a tenth of all steps. None: too few
    evaluations.
    """
    if curve.evaluations < LEAST_EVALUATIONS or curve.last_step <= 0:
        return None
    wait = max(Fraction(PATIENCE_EVALUATIONS, curve.evaluations), Fraction(PATIENCE_PPM, PPM))
    share = Fraction(max(0, curve.best_step), curve.last_step) + wait
    return min(PPM, rounded(share * PPM))


@dataclass(frozen=True, slots=True)
class StoppingShare:
    """Share of the planned epochs that past trainings of the family needed."""

    likely_ppm: int
    spread: Spread
    curves: int


def stopping_share(shares_ppm: Sequence[int]) -> StoppingShare | None:
    """Return the share that an early stop needs, None without a curve. Its range is that of early
    stops (−21/+21 %) or of the shares, if they differ more.
    """
    if not shares_ppm:
        return None
    likely, spread = mean_and_spread([Fraction(share) for share in shares_ppm])
    return StoppingShare(
        min(PPM, rounded(likely)), wider(EARLY_STOP, spread or EXACT), len(shares_ppm)
    )


def needed_epochs(epochs: int, share: StoppingShare) -> int:
    """Return the epochs until an early stop, at least one."""
    return max(1, min(epochs, divide(epochs * share.likely_ppm, PPM)))
