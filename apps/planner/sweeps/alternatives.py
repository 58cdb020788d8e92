"""Smaller sweeps with the same coverage. Pure.

Coarser: every second value of each axis of numbers, with the lowest and the highest. Random: a few
points in which each value of each axis occurs. Both are sets of points of the grid.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from random import Random
from typing import Any

Axes = Mapping[str, Sequence[Any]]
Positions = tuple[int, ...]


def coarser_axes(axes: Axes) -> dict[str, list[int]] | None:
    """Return the positions of the remaining values of each axis, None if none can be left out.

    Axes of text stay whole: between two words there is no third.
    """
    remaining = {name: _every_second(values) for name, values in axes.items()}
    is_smaller = any(len(remaining[name]) < len(values) for name, values in axes.items())
    return remaining if is_smaller else None


def coarser_points(axes: Axes, remaining: Mapping[str, Sequence[int]]) -> Iterator[int]:
    """Yield the numbers of the points of a coarser grid."""
    for positions in product(*(remaining[name] for name in axes)):
        yield _number(axes, positions)


def fewest_random(axes: Axes) -> int:
    """Return the lowest number of points that covers each value: the length of the longest axis."""
    return max(len(values) for values in axes.values())


def random_points(axes: Axes, runs: int, *, seed: int = 0) -> list[int]:
    """Return the numbers of ``runs`` different random points that cover each value of each axis.

    ``runs`` is at least :func:`fewest_random` and at most the points of the grid.
    """
    size = prod(len(values) for values in axes.values())
    fewest = fewest_random(axes)
    if not fewest <= runs <= size:
        raise ValueError(f"{runs} points are not within {fewest} and {size}.")
    random = Random(seed)  # noqa: S311 - no secret: the same sweep gives the same points
    columns = []
    for values in axes.values():
        column = [index % len(values) for index in range(fewest)]
        random.shuffle(column)
        columns.append(column)
    # The longest axis has each value once, so these points differ.
    covering = {_number(axes, positions) for positions in zip(*columns, strict=True)}
    others = [number for number in range(size) if number not in covering]
    return sorted([*covering, *random.sample(others, runs - fewest)])


def _every_second(values: Sequence[Any]) -> list[int]:
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(range(len(values)))
    ascending = sorted(range(len(values)), key=lambda index: values[index])
    return sorted({*ascending[::2], ascending[-1]})


def _number(axes: Axes, positions: Sequence[int]) -> int:
    """Return the number of a point of the grid: the last axis varies first."""
    number = 0
    for values, position in zip(axes.values(), positions, strict=True):
        number = number * len(values) + position
    return number
