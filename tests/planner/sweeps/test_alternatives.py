"""Smaller sweeps with the same coverage, and totals."""

import itertools
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apps.planner.sweeps.alternatives import (
    coarser_axes,
    coarser_points,
    fewest_random,
    random_points,
)
from apps.planner.sweeps.totals import Total, total_of

NUMBERS = st.lists(st.integers(-99, 99), min_size=1, max_size=6, unique=True)
WORDS = st.lists(st.text(alphabet="xyz", min_size=1), min_size=1, max_size=5, unique=True)
AXES = st.dictionaries(
    st.text(alphabet="abc", min_size=1), st.one_of(NUMBERS, WORDS), min_size=1, max_size=4
)


def grid(axes: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return list(itertools.product(*axes.values()))


def test_a_coarser_grid_of_an_example() -> None:
    axes = {"lr": [0.1, 0.001, 0.01], "n": [1, 2, 3, 4], "m": ["a", "b", "c"]}
    remaining = coarser_axes(axes)
    assert remaining == {"lr": [0, 1], "n": [0, 2, 3], "m": [0, 1, 2]}
    assert len(list(coarser_points(axes, remaining))) == 2 * 3 * 3
    assert coarser_axes({"lr": [1, 2], "m": ["a", "b", "c"], "f": [True, False]}) is None


@given(AXES)
def test_a_coarser_grid_keeps_the_ends_and_no_wide_gap(axes: dict[str, list[Any]]) -> None:
    remaining = coarser_axes(axes)
    if remaining is None:
        assert all(len(v) < 3 or isinstance(v[0], str) for v in axes.values())
        return
    values = {name: [axes[name][place] for place in places] for name, places in remaining.items()}
    for name, kept in values.items():
        ascending = sorted(axes[name])
        assert {ascending[0], ascending[-1]} <= set(kept)
        for value, following in itertools.pairwise(ascending):
            assert value in kept or following in kept
    everything = grid(axes)
    assert [everything[number] for number in coarser_points(axes, remaining)] == grid(values)


@given(AXES, st.data())
def test_random_points_differ_and_cover_each_value(
    axes: dict[str, list[Any]], data: st.DataObject
) -> None:
    everything = grid(axes)
    fewest = fewest_random(axes)
    assert fewest == max(map(len, axes.values()))
    runs = data.draw(st.integers(fewest, len(everything)))
    numbers = random_points(axes, runs)
    assert len(set(numbers)) == len(numbers) == runs
    chosen = [everything[number] for number in numbers]
    for place, values in enumerate(axes.values()):
        assert {point[place] for point in chosen} == set(values)
    assert numbers == random_points(axes, runs)


def test_totals_of_examples() -> None:
    assert total_of([], 5) is None
    assert total_of([7], 3) == Total(1, 21, None, None)
    assert total_of([1, 2], 1) == Total(2, 2, 1, 2)  # 1.5 is rounded half up
    assert total_of(list(range(1, 21)), 10) == Total(20, 105, 20, 180)
    assert total_of([1] * 19 + [1000], 2) == Total(20, 102, 2, 102)  # the range has the mean


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=30), st.integers(0, 10_000))
def test_a_total_is_the_mean_times_the_runs(values: list[int], runs: int) -> None:
    total = total_of(values, runs)
    assert total is not None
    assert abs(total.likely - Fraction(sum(values), len(values)) * runs) <= Fraction(1, 2)
    assert total.low is not None
    assert total.high is not None
    assert total.low <= total.likely <= total.high
    below = sum(value * runs < total.low for value in values)
    above = sum(value * runs > total.high for value in values)
    assert below * 10 <= len(values)
    assert above * 10 <= len(values)
