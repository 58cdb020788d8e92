"""Figures of a plan with their ranges."""

from dataclasses import dataclass

from apps.core.units import Unit
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import duration, unit_for
from apps.planner.gpu_sharing.jobs import Range


@dataclass(frozen=True)
class RangeCell:
    """A figure with its range. ``range`` None: unknown, ``missing`` states why."""

    key: str
    label: str
    unit: str  # of the exact integers
    range: Range | None
    likely: Projected | None = None
    low: Projected | None = None
    high: Projected | None = None
    missing: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether low and high are equal."""
        return self.range is not None and self.range.low == self.range.high


def time_cell(time_us: Range) -> RangeCell:
    """Return the time of a plan."""
    low, likely, high = (
        Projected(duration(value), "", f"{value} µs", "", at_least=False)
        for value in (time_us.low, time_us.likely, time_us.high)
    )
    return RangeCell("time", "Time on the card", "us", time_us, likely, low, high)


def energy_cell(
    key: str, label: str, energy_mj: Range | None, unit: Unit | None, missing: str
) -> RangeCell:
    """Return an energy in ``unit``, None: the one that suits it."""
    if energy_mj is None:
        return RangeCell(key, label, "mj", None, missing=missing)
    unit = unit or unit_for("energy_mj", [energy_mj.likely])
    low, likely, high = (
        estimated(value, "energy_mj", unit)
        for value in (energy_mj.low, energy_mj.likely, energy_mj.high)
    )
    return RangeCell(key, label, "mj", energy_mj, likely, low, high)


def exact_range(value: int | None) -> Range | None:
    """Return a figure without a range, None if it is unknown."""
    return None if value is None else Range(value, value, value)
