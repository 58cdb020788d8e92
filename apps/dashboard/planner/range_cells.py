"""Figures with a range, as cells of the planner's pages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from apps.dashboard.figures import Projected
from apps.dashboard.formatting import duration


class Bounds(Protocol):
    """A likely value with a low and a high one."""

    @property
    def low(self) -> int: ...
    @property
    def likely(self) -> int: ...
    @property
    def high(self) -> int: ...


@dataclass(frozen=True)
class RangeCell:
    """A figure with its range. ``range`` None: unknown, ``missing`` states why."""

    key: str
    label: str
    unit: str  # of the exact integers
    range: Bounds | None
    likely: Projected | None = None
    low: Projected | None = None
    high: Projected | None = None
    missing: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether low and high are equal."""
        return self.range is not None and self.range.low == self.range.high


def range_cell(
    key: str,
    label: str,
    unit: str,
    figure: Bounds | None,
    show: Callable[[int], Projected],
    missing: str = "",
) -> RangeCell:
    """Return a figure whose three values are shown by ``show``."""
    if figure is None:
        return RangeCell(key, label, unit, None, missing=missing)
    likely, low, high = map(show, (figure.likely, figure.low, figure.high))
    return RangeCell(key, label, unit, figure, likely, low, high)


def shown_time(time_us: int) -> Projected:
    """Return a time in hours and minutes, with its exact µs."""
    return Projected(duration(time_us), "", f"{time_us} µs", "", at_least=False)
