"""Division of integers among consumers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.energy.windows import largest_remainder

WEIGHTS = st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 2**70), max_size=12)


@given(st.integers(0, 2**63), WEIGHTS)
def test_parts_sum_to_the_total_and_stay_within_one_of_the_quota(
    total: int, weights: dict[str, int]
) -> None:
    weight_sum = sum(weights.values())
    if not weight_sum:
        return
    parts = largest_remainder(total, weights)
    assert sum(parts.values()) == total
    assert set(parts) == {key for key, weight in weights.items() if weight}
    for key, part in parts.items():
        assert total * weights[key] // weight_sum <= part <= total * weights[key] // weight_sum + 1


@given(st.integers(0, 10**9), WEIGHTS)
def test_the_order_of_the_consumers_does_not_matter(total: int, weights: dict[str, int]) -> None:
    if any(weights.values()):
        backwards = dict(reversed(list(weights.items())))
        assert largest_remainder(total, weights) == largest_remainder(total, backwards)


def test_ties_go_by_consumer_key() -> None:
    assert largest_remainder(2, {"run:c": 1, "run:a": 1, "run:b": 1}) == {
        "run:a": 1,
        "run:b": 1,
        "run:c": 0,
    }


def test_largest_fraction_gets_the_remainder() -> None:
    # Quotas 1.43, 7.14, 1.43: one unit remains, the fractions of a and c are equal, a has the
    # smaller key.
    assert largest_remainder(10, {"a": 1, "b": 5, "c": 1}) == {"a": 2, "b": 7, "c": 1}


@pytest.mark.parametrize(
    ("total", "weights"), [(-1, {"a": 1}), (5, {}), (5, {"a": 0}), (5, {"a": 2, "b": -1})]
)
def test_invalid_input_is_refused(total: int, weights: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"negative|without weights"):
        largest_remainder(total, weights)
