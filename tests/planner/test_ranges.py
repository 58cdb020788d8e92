"""Ranges of estimates: properties, against floats."""

import math
from fractions import Fraction
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import PPM
from apps.planner.formulas.ranges import (
    _T90_PPM,
    EXACT,
    Range,
    Spread,
    around,
    combine,
    mean_and_spread,
    times_or_divided,
    wider,
)

SPREADS = st.builds(Spread, st.integers(1_000, PPM), st.integers(PPM, 1_000 * PPM))


@given(st.integers(0, 2**62), SPREADS)
def test_the_likely_value_is_within_its_range(likely: int, spread: Spread) -> None:
    figure = around(likely, spread)
    assert figure.low <= figure.likely == likely <= figure.high


@given(st.lists(SPREADS, min_size=1, max_size=4))
def test_factors_combine_in_quadrature_of_their_logarithms(spreads: list[Spread]) -> None:
    combined = combine(*spreads)
    low = math.sqrt(sum(math.log(PPM / spread.low_ppm) ** 2 for spread in spreads))
    high = math.sqrt(sum(math.log(spread.high_ppm / PPM) ** 2 for spread in spreads))
    assert combined.low_ppm == pytest.approx(PPM * math.exp(-low), abs=1)
    assert combined.high_ppm == pytest.approx(PPM * math.exp(high), abs=1, rel=1e-9)


@given(SPREADS, SPREADS)
def test_a_combined_spread_contains_its_parts(first: Spread, second: Spread) -> None:
    combined = combine(first, second)
    both = wider(first, second)
    assert combined.low_ppm <= both.low_ppm + 1
    assert combined.high_ppm >= both.high_ppm - 1
    assert combine(first, EXACT) == first


@given(st.lists(st.integers(1, 10**15), min_size=2, max_size=40))
def test_the_next_value_has_the_prediction_interval(values: list[int]) -> None:
    likely, spread = mean_and_spread([Fraction(value) for value in values])
    logs = [math.log(value) for value in values]
    count = len(logs)
    mean = math.fsum(logs) / count
    deviation = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (count - 1))
    quantile = _T90_PPM[count - 2] / PPM if count - 2 < len(_T90_PPM) else NormalDist().inv_cdf(0.9)
    factor = min(math.log(1000), quantile * deviation * math.sqrt(1 + 1 / count))
    assert spread is not None
    assert float(likely) == pytest.approx(math.exp(mean), rel=1e-9)
    assert spread.high_ppm == pytest.approx(PPM * math.exp(factor), abs=2, rel=1e-5)


def test_one_value_has_no_spread() -> None:
    assert mean_and_spread([Fraction(7, 3)]) == (Fraction(7, 3), None)


def test_quantiles_of_students_t_fall_to_the_normal_one() -> None:
    quantiles = [value / PPM for value in _T90_PPM]
    assert quantiles == sorted(quantiles, reverse=True)
    assert quantiles[0] == pytest.approx(math.tan(math.pi * 0.4), abs=1e-5)  # closed form for 1
    assert quantiles[1] == pytest.approx(0.8 / math.sqrt(2 * 0.09), abs=1e-5)  # … and for 2
    # Expansion of Cornish and Fisher for the rest.
    z = NormalDist().inv_cdf(0.9)
    for degrees, quantile in enumerate(quantiles, start=1):
        if degrees >= 5:
            terms = (
                (z**3 + z) / 4 / degrees,
                (5 * z**5 + 16 * z**3 + 3 * z) / 96 / degrees**2,
                (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384 / degrees**3,
            )
            assert quantile == pytest.approx(z + sum(terms), abs=4e-4)


def test_a_range_and_its_spread() -> None:
    assert around(1000, times_or_divided(2 * PPM)) == Range(500, 1000, 2000)
    assert Range(500, 1000, 2000).spread == times_or_divided(2 * PPM)
    assert Range(0, 0, 0).spread == EXACT
    for low, high in ((0, PPM), (PPM + 1, PPM + 1), (PPM, PPM - 1)):
        with pytest.raises(ValueError, match="contains its likely value"):
            Spread(low, high)
