"""Calibration: how estimates compare with the outcomes of their runs, and how much wider their
ranges have to be. Integers rounded half up, factors in parts per million. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext

from apps.core.units import PPM
from apps.planner.formulas.ranges import MAX_FACTOR_PPM, Range, Spread, around, divide

LEAST_OUTCOMES = 10  # with fewer, no range is widened
INSIDE_PERCENT = 80
MAX_WIDENING_PPM = 10 * PPM
_PRECISION = Context(prec=40)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An estimated range, as it was before any widening, and the actual value."""

    range: Range
    actual: int

    @property
    def is_below(self) -> bool:
        """Return whether the actual value is below P10."""
        return self.actual < self.range.low

    @property
    def is_above(self) -> bool:
        """Return whether the actual value is above P90."""
        return self.actual > self.range.high


@dataclass(frozen=True, slots=True)
class Calibration:
    """The outcomes of one quantity. ``bias_ppm``: geometric mean of actual ÷ likely, None without
    values above 0. ``widening_ppm``: factor of the logarithmic distances from the likely value to
    P10 and P90, 1 000 000 for none.
    """

    number: int = 0
    below: int = 0
    above: int = 0
    bias_ppm: int | None = None
    widening_ppm: int = PPM

    @property
    def inside(self) -> int:
        """Return the number of outcomes from P10 to P90."""
        return self.number - self.below - self.above

    @property
    def inside_ppm(self) -> int | None:
        """Return the share inside, None without outcomes."""
        return divide(self.inside * PPM, self.number) if self.number else None

    @property
    def has_enough(self) -> bool:
        """Return whether there are enough outcomes to widen ranges."""
        return self.number >= LEAST_OUTCOMES


def calibrate(outcomes: Sequence[Outcome]) -> Calibration:
    """Return the calibration of outcomes. The widening is the smallest factor with which 80 % of
    them lie inside, at most 10. Outcomes that no factor reaches do not change it.
    """
    ratios = [
        Decimal(each.actual) / each.range.likely
        for each in outcomes
        if each.actual > 0 and each.range.likely > 0
    ]
    bias = None
    if ratios:
        with localcontext(_PRECISION):
            mean = sum((ratio.ln() for ratio in ratios), Decimal(0)) / len(ratios)
            bias = _whole(PPM * mean.exp())
    widening = PPM
    if len(outcomes) >= LEAST_OUTCOMES:
        needed = [_needed_widening_ppm(each) for each in outcomes]
        factors = sorted(factor for factor in needed if factor is not None)
        place = -(-len(outcomes) * INSIDE_PERCENT // 100) - 1
        widening = factors[min(place, len(factors) - 1)] if factors else PPM
    return Calibration(
        number=len(outcomes),
        below=sum(each.is_below for each in outcomes),
        above=sum(each.is_above for each in outcomes),
        bias_ppm=bias,
        widening_ppm=widening,
    )


def _needed_widening_ppm(outcome: Outcome) -> int | None:
    """Return the factor with which an outcome lies inside, at most 10. None: no factor reaches it,
    such as from a range without width.
    """
    figure, actual = outcome.range, outcome.actual
    if not (outcome.is_below or outcome.is_above):
        return PPM
    end = figure.low if outcome.is_below else figure.high
    if actual <= 0 or end <= 0 or end == figure.likely:
        return None
    with localcontext(_PRECISION):
        likely = Decimal(figure.likely)
        factor = (actual / likely).ln() / (end / likely).ln()
        return min(MAX_WIDENING_PPM, _whole(PPM * factor) + 1)  # rounded, so that it is inside


def widen(figure: Range, widening_ppm: int) -> Range:
    """Return a range with its logarithmic distances × a factor. An end that gets further than ×÷
    1 000 from the likely value is there, or where it was.
    """
    if widening_ppm == PPM or not 0 < figure.low <= figure.likely <= figure.high:
        return figure
    with localcontext(_PRECISION):
        low, high = (
            ((Decimal(end) / figure.likely).ln() * widening_ppm / PPM).exp()
            for end in (figure.low, figure.high)
        )
    before = figure.spread
    least, most = divide(PPM * PPM, MAX_FACTOR_PPM), MAX_FACTOR_PPM
    return around(
        figure.likely,
        Spread(
            min(before.low_ppm, max(least, _whole(PPM * low))),
            max(before.high_ppm, min(most, _whole(PPM * high))),
        ),
    )


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_UP))
