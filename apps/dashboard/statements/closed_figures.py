"""The frozen figures of a closed period, on the pages of its current ones."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure
from apps.core.errors import Conflict
from apps.dashboard.figures import ChangeSince, Projected, change_since, estimated
from apps.dashboard.periods import Period
from apps.reports.conservation import EMISSION, ENERGY
from apps.reports.models import Statement
from apps.reports.rows import LAB, Lines
from apps.reports.selectors import frozen_rows, latest_statement


@dataclass(frozen=True)
class ClosedFigures:
    """Frozen energy and emissions of electricity, and what the current ones differ by.

    - ``energy`` None: the statement has no energy of the subject.
    - ``emission`` None: the lab has changed its basis, so emissions cannot be compared.
    - ``damaged``: the figures were changed in the database.
    """

    statement: Statement
    energy: Projected | None = None
    emission: Projected | None = None
    energy_change: ChangeSince | None = None
    emission_change: ChangeSince | None = None
    differs: bool = False
    damaged: bool = False


def closed_figures(
    lab: Lab, period: Period, current: Figure, subject: str = LAB
) -> ClosedFigures | None:
    """Return the frozen figures of a period, None if it is not closed. ``current``: its current
    figures. ``subject``: the lab or ``project:<slug>``. One query; none for a period that runs or
    does not consist of days.
    """
    if period.preset or period.is_running or not period.is_in_days:
        return None
    statement = latest_statement(lab, period.from_hour, period.to_hour)
    if statement is None:
        return None
    try:
        lines = Lines(frozen_rows(statement))
    except Conflict:
        return ClosedFigures(statement, damaged=True)
    energy, emission = (lines.value(subject, metric) for metric in (ENERGY, EMISSION))
    if energy is None or emission is None:
        return ClosedFigures(statement, differs=bool(current.entries))
    more_energy, more_emission = current.energy_mj - energy, current.emission_ug - emission
    same_basis = statement.basis == lab.basis
    return ClosedFigures(
        statement,
        energy=estimated(energy),
        emission=estimated(emission, EMISSION) if same_basis else None,
        energy_change=change_since(more_energy, ENERGY),
        emission_change=change_since(more_emission, EMISSION) if same_basis else None,
        differs=bool(more_energy or (same_basis and more_emission)),
    )
