"""Thinned curves: no more points than asked, and no peak lost."""

import math

from hypothesis import given
from hypothesis import strategies as st

from apps.runs.metric_parsing import Point, as_points
from apps.runs.metric_summary import downsample

curves = st.lists(st.floats(), max_size=400).map(
    lambda values: as_points((i, 0, each) for i, each in enumerate(values))
)


@given(curves, st.integers(5, 60))
def test_peaks_ends_and_the_first_that_is_no_number_stay(points: list[Point], most: int) -> None:
    kept = downsample(points, most)
    assert len(kept) <= max(most, 5)
    assert [point.step for point in kept] == sorted({point.step for point in kept})
    assert set(kept) <= set(points)
    finite = [point.value for point in points if point.value is not None]
    if finite:
        values = [point.value for point in kept if point.value is not None]
        assert (min(values), max(values)) == (min(finite), max(finite))
    if points:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
    odd = [point for point in points if point.value is None]
    if odd:
        assert odd[0] in kept


def test_few_points_stay_as_they_are() -> None:
    points = as_points((i, 0, math.sin(i)) for i in range(2000))
    assert downsample(points) == points
