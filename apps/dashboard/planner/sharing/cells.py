"""Figures of a plan with their ranges."""

from functools import partial

from apps.core.units import Unit
from apps.dashboard.figures import estimated
from apps.dashboard.formatting import unit_for
from apps.dashboard.planner.range_cells import RangeCell, range_cell, shown_time
from apps.planner.gpu_sharing.jobs import Range


def time_cell(time_us: Range) -> RangeCell:
    """Return the time of a plan."""
    return range_cell("time", "Time on the card", "us", time_us, shown_time)


def energy_cell(
    key: str, label: str, energy_mj: Range | None, unit: Unit | None, missing: str
) -> RangeCell:
    """Return an energy in ``unit``, None: the one that suits it."""
    if energy_mj is not None and unit is None:
        unit = unit_for("energy_mj", [energy_mj.likely])
    show = partial(estimated, metric="energy_mj", unit=unit)
    return range_cell(key, label, "mj", energy_mj, show, missing)


def exact_range(value: int | None) -> Range | None:
    """Return a figure without a range, None if it is unknown."""
    return None if value is None else Range(value, value, value)
