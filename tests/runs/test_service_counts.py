"""Served requests and tokens of a service."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.runs.service_counts import CountState, amount_per, served


@given(st.integers(0, 10**18), st.integers(1, 10**12), st.sampled_from([1_000, 1_000_000]))
def test_an_amount_per_number_is_the_nearest_integer(amount: int, number: int, per: int) -> None:
    exact = Fraction(amount * per, number)
    found = amount_per(amount, number, per)
    assert abs(exact - found) <= Fraction(1, 2)
    assert exact - found != Fraction(1, 2)  # half up


@pytest.mark.parametrize("number", [0, -1])
def test_nothing_served_has_no_amount_per_number(number: int) -> None:
    with pytest.raises(ValueError, match="nothing"):
        amount_per(1, number, 1_000)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ((1200.0, 0.0, 1200.0), CountState.COUNTED),
        ((0.0, 0.0, 0.0), CountState.NONE_YET),
        ((3.0, 0.0, 1200.0), CountState.FELL),
        ((12.5, 0.0, 12.5), CountState.NOT_A_COUNT),
        ((5.0, -1.0, 5.0), CountState.NOT_A_COUNT),
        ((1e300, 0.0, 1e300), CountState.NOT_A_COUNT),
        ((None, 0.0, 3.0), CountState.NOT_A_COUNT),
        ((None, None, None), CountState.NOT_A_COUNT),
    ],
)
def test_a_total_is_a_whole_number_that_never_falls(
    values: tuple[float | None, float | None, float | None], state: CountState
) -> None:
    found = served(*values)
    assert found.state == state
    assert found.number == (1200 if state == CountState.COUNTED else 0)


def test_a_total_that_fell_and_rose_again_is_unknown() -> None:
    assert served(1500.0, 0.0, 1500.0, has_fallen=True).state == CountState.FELL
