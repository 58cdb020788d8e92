"""Ranges of estimates: likely value, P10 and P90, as integers rounded half up. Pure.

Errors of estimates are factors. They combine in quadrature of their logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction

from apps.core.units import PPM

# Quantile 0.9 of Student's t for 1, 2, … degrees of freedom, and of the normal distribution.
_T90 = tuple(
    Decimal(text)
    for text in (
        "3.077684 1.885618 1.637744 1.533206 1.475884 1.439756 1.414924 1.396815 1.383029 1.372184 "
        "1.363430 1.356217 1.350171 1.345030 1.340606 1.336757 1.333379 1.330391 1.327728 1.325341 "
        "1.323188 1.321237 1.319460 1.317836 1.316345 1.314972 1.313703 1.312527 1.311434 1.310415"
    ).split()
)
_NORMAL90 = Decimal("1.281552")
_PRECISION = Context(prec=40)


@dataclass(frozen=True, slots=True)
class Spread:
    """P10 and P90 in parts per million of the likely value: ``low_ppm`` ≤ 1 000 000 ≤
    ``high_ppm``.
    """

    low_ppm: int
    high_ppm: int

    def __post_init__(self) -> None:
        if not 0 < self.low_ppm <= PPM <= self.high_ppm:
            raise ValueError("A spread contains its likely value, and its low end is above 0.")


EXACT = Spread(PPM, PPM)


@dataclass(frozen=True, slots=True)
class Range:
    """A likely value with P10 (``low``) and P90 (``high``)."""

    low: int
    likely: int
    high: int

    @property
    def spread(self) -> Spread:
        """Return the relative spread. Without a value above 0 there is none."""
        if not 0 < self.low <= self.likely <= self.high:
            return EXACT
        return Spread(
            max(1, min(PPM, divide(self.low * PPM, self.likely))),
            max(PPM, divide(self.high * PPM, self.likely)),
        )


def times_or_divided(factor_ppm: int) -> Spread:
    """Return the spread ×÷ a factor of at least 1 (1 000 000 ppm)."""
    return Spread(divide(PPM * PPM, factor_ppm), factor_ppm)


def around(likely: int, spread: Spread) -> Range:
    """Return the range of a likely value ≥ 0."""
    low, high = (divide(likely * ppm, PPM) for ppm in (spread.low_ppm, spread.high_ppm))
    return Range(low, likely, high)


def combine(*spreads: Spread) -> Spread:
    """Return the spread of a product of independent factors."""
    with localcontext(_PRECISION):
        lows = [Decimal(PPM) / spread.low_ppm for spread in spreads]
        highs = [Decimal(spread.high_ppm) / PPM for spread in spreads]
        low, high = ((sum(end.ln() ** 2 for end in ends)) for ends in (lows, highs))
        return Spread(
            max(1, min(PPM, _whole(PPM / Decimal(low).sqrt().exp()))),
            max(PPM, _whole(PPM * Decimal(high).sqrt().exp())),
        )


def wider(first: Spread, second: Spread) -> Spread:
    """Return the spread with the lower low end and the higher high end of both."""
    return Spread(min(first.low_ppm, second.low_ppm), max(first.high_ppm, second.high_ppm))


def mean_and_spread(values: Sequence[Fraction]) -> tuple[Fraction, Spread | None]:
    """Return the geometric mean of values above 0, and the spread of the next value like them: the
    prediction interval of Student's t for their logarithms. The spread of one value is None.
    """
    with localcontext(_PRECISION):
        logs = [(Decimal(value.numerator) / value.denominator).ln() for value in values]
        count = len(logs)
        mean = sum(logs, Decimal(0)) / count
        likely = Fraction(mean.exp())
        if count == 1:
            return values[0], None
        variance = sum(((log - mean) ** 2 for log in logs), Decimal(0)) / (count - 1)
        quantile = _T90[count - 2] if count - 2 < len(_T90) else _NORMAL90
        factor = (quantile * (variance * (count + 1) / count).sqrt()).exp()
        return likely, times_or_divided(max(PPM, _whole(PPM * factor)))


def divide(dividend: int, divisor: int) -> int:
    """Divide, rounded half up."""
    return (2 * dividend + divisor) // (2 * divisor)


def rounded(value: Fraction) -> int:
    """Return a fraction ≥ 0 as an integer, rounded half up."""
    return divide(value.numerator, value.denominator)


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_UP))
