"""Ranges of estimates: likely value, P10 and P90, as integers rounded half up. Pure.

Errors of estimates are factors. They combine in quadrature of their logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction

from apps.core.units import PPM

# Quantile 0.9 of Student's t for 1, 2, … degrees of freedom, and of the normal distribution.
_T90_PPM = (
    3_077_684, 1_885_618, 1_637_744, 1_533_206, 1_475_884, 1_439_756, 1_414_924, 1_396_815,
    1_383_029, 1_372_184, 1_363_430, 1_356_217, 1_350_171, 1_345_030, 1_340_606, 1_336_757,
    1_333_379, 1_330_391, 1_327_728, 1_325_341, 1_323_188, 1_321_237, 1_319_460, 1_317_836,
    1_316_345, 1_314_972, 1_313_703, 1_312_527, 1_311_434, 1_310_415,
)  # fmt: skip
_NORMAL90_PPM = 1_281_552
MAX_FACTOR_PPM = 1_000 * PPM  # of the spread of values: values that differ more say nothing
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
    prediction interval of Student's t for their logarithms, ×÷ 1 000 at most. The spread of one
    value is None.
    """
    with localcontext(_PRECISION):
        logs = [(Decimal(value.numerator) / value.denominator).ln() for value in values]
        count = len(logs)
        mean = sum(logs, Decimal(0)) / count
        likely = Fraction(mean.exp())
        if count == 1:
            return values[0], None
        variance = sum(((log - mean) ** 2 for log in logs), Decimal(0)) / (count - 1)
        quantile = _T90_PPM[count - 2] if count - 2 < len(_T90_PPM) else _NORMAL90_PPM
        factor = (quantile * (variance * (count + 1) / count).sqrt() / PPM).exp()
        return likely, times_or_divided(min(MAX_FACTOR_PPM, max(PPM, _whole(PPM * factor))))


def divide(dividend: int, divisor: int) -> int:
    """Divide, rounded half up."""
    return (2 * dividend + divisor) // (2 * divisor)


def rounded(value: Fraction) -> int:
    """Return a fraction ≥ 0 as an integer, rounded half up."""
    return divide(value.numerator, value.denominator)


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_UP))
