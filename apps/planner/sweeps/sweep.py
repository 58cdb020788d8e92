"""A sweep, and its limits. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from apps.core.errors import InvalidInput, TooLarge
from apps.core.text import has_unstorable, is_unstorable

MAX_RUNS = 10_000
MAX_VALUES = 100_000  # parameters of all runs together
MAX_PARAMS = 200
MAX_NAME_CHARS, MAX_VALUE_CHARS, MAX_DEPTH = 256, 1000, 6
FIELD = "text"


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep.

    ``axes``: values of each parameter of a grid, None for a list. ``points``: parameters of each
    run, None if they are chosen while the sweep runs. ``ends_early``: runs may end before their
    last step.
    """

    runs: int
    axes: Mapping[str, Sequence[Any]] | None = None
    points: Sequence[Mapping[str, Any]] | None = None
    ends_early: bool = False


def grid_sweep(axes: Mapping[str, Sequence[Any]], *, ends_early: bool = False) -> Sweep:
    """Return the sweep with all combinations; the last parameter varies first.

    Raises InvalidInput with the parameter.
    """
    for name, values in axes.items():
        if not values:
            raise InvalidInput(
                f"Parameter {name!r} has no values.", field=FIELD, hint="Give at least one value."
            )
        for value in values:
            check_value(name, value)
    _check_names(list(axes))
    runs = prod(len(values) for values in axes.values())
    check_runs(runs)
    _check_size(runs * len(axes))
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return Sweep(runs, axes=axes, points=points, ends_early=ends_early)


def list_sweep(points: Sequence[Mapping[str, Any]]) -> Sweep:
    """Return the sweep of listed runs. Raises InvalidInput with the parameter."""
    if not points:
        raise InvalidInput("The list has no runs.", field=FIELD, hint="Give at least one run.")
    check_runs(len(points))
    _check_size(sum(map(len, points)))
    for number, point in enumerate(points, start=1):
        _check_names(list(point), f"Run {number}: ")
        for name, value in point.items():
            check_value(name, value, f"Run {number}: ")
    return Sweep(len(points), points=points)


def check_runs(runs: int) -> None:
    """Raise TooLarge for a sweep with too many runs."""
    if runs > MAX_RUNS:
        raise TooLarge(
            f"The sweep has more than {MAX_RUNS} runs{f': {runs}' if runs < 10**18 else ''}.",
            field=FIELD,
            hint="Give fewer values, or divide the sweep.",
        )


def check_value(name: str, value: Any, where: str = "") -> None:
    """Raise InvalidInput for a value that cannot be a parameter."""
    if _depth(value) > MAX_DEPTH:
        problem = f"is nested more than {MAX_DEPTH} deep"
    elif _chars(value) > MAX_VALUE_CHARS:
        problem = f"has more than {MAX_VALUE_CHARS} characters"
    elif has_unstorable(value):
        problem = "contains NUL, half a character or no number"
    else:
        return
    raise InvalidInput(f"{where}A value of parameter {name!r} {problem}.", field=FIELD)


def _chars(value: Any) -> int:
    if isinstance(value, int):
        return value.bit_length() * 4 // 13  # a little more than its digits
    if isinstance(value, list | dict):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return sum(_chars(part) + 1 for part in parts)
    return len(str(value))


def _depth(value: Any) -> int:
    """Return the depth of a value, at most MAX_DEPTH + 1."""
    depth, level = 0, [value]
    while depth <= MAX_DEPTH:
        parts = [part for part in level if isinstance(part, dict | list)]
        if not parts:
            break
        level = [
            inner for part in parts for inner in (part.values() if isinstance(part, dict) else part)
        ]
        depth += 1
    return depth


def _check_names(names: Sequence[str], where: str = "") -> None:
    if not names:
        raise InvalidInput(
            f"{where}There are no parameters.", field=FIELD, hint="Give at least one parameter."
        )
    if len(names) > MAX_PARAMS:
        raise TooLarge(f"{where}There are more than {MAX_PARAMS} parameters.", field=FIELD)
    for name in names:
        if not name.strip() or len(name) > MAX_NAME_CHARS or is_unstorable(name):
            raise InvalidInput(
                f"{where}{name[:60]!r} cannot be the name of a parameter.",
                field=FIELD,
                hint=f"A name has 1 to {MAX_NAME_CHARS} characters.",
            )


def _check_size(values: int) -> None:
    if values > MAX_VALUES:
        raise TooLarge(
            f"The runs have {values} parameters together, more than {MAX_VALUES}.",
            field=FIELD,
            hint="Leave out parameters with a single value that the earlier run has as well.",
        )
