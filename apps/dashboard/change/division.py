"""The change between two periods of the lab or of a project, divided into parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.accounts.models import Lab, Project
from apps.carbon.change.parts import Coverage, divide_change
from apps.carbon.change.place_uses import PlaceUses, place_uses, series_names, uses_by_place
from apps.carbon.coverage import DeviceTime, device_times
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import US_PER_HOUR
from apps.dashboard.periods import Period, lab_query, local

ENERGY, EMISSIONS = "energy_mj", "emission_ug"


@dataclass(frozen=True)
class Division:
    """A change and its parts. ``parts`` are by charged party."""

    metric: str
    figures: tuple[Figure, Figure]
    difference: int
    parts: Mapping[str, Mapping[str, int]]
    by_charge: tuple[Mapping[str, Figure], Mapping[str, Figure]]


@dataclass(frozen=True)
class Compared:
    """What is read of both periods. ``reason``: why they cannot be compared."""

    periods: tuple[Period, Period]
    times: tuple[list[DeviceTime], list[DeviceTime]]
    uses: tuple[PlaceUses, PlaceUses]
    reason: str


def subject_query(lab: Lab, project: Project | None, period: Period, metric: str) -> FigureQuery:
    """Return the query of the lab or of a project over a period."""
    query = lab_query(lab, period, metric)
    return query.replace(subject_kind="project", subject_key=project.slug) if project else query


def compared_periods(
    lab: Lab, project: Project | None, earlier: Period, later: Period, now: int
) -> Compared:
    """Return both periods as measured, with the reason against comparing them."""
    before, after = (
        (
            device_times(lab, part.from_hour, part.to_hour, now),
            place_uses(lab, subject_query(lab, project, part, ENERGY)),
        )
        for part in (earlier, later)
    )
    reason = ""
    if not _is_measured(*after):
        reason = f"nothing was measured in {later.label}"
    elif not _is_measured(*before):
        reason = f"nothing was measured in {earlier.label}"
        first_us = _first_us(before[0])
        if first_us is not None and first_us >= earlier.to_hour * US_PER_HOUR:
            day = local(first_us // US_PER_HOUR, earlier.zone)
            reason += f", and the first reading of the lab is of {day.day} {day:%B %Y}"
    elif project and not before[1].parts and not after[1].parts:
        reason = f"{project.name} used no energy in either period"
    return Compared((earlier, later), (before[0], after[0]), (before[1], after[1]), reason)


def _is_measured(times: Sequence[DeviceTime], uses: PlaceUses) -> bool:
    return bool(uses.parts) or any(time.measured_us or time.estimated_us for time in times)


def _first_us(times: Sequence[DeviceTime]) -> int | None:
    return min((time.first_us for time in times), default=None)


def divided_change(lab: Lab, compared: Compared, metric: str) -> Division:
    """Return the parts of the change. Emissions with energy without a factor are replaced by
    energy. Two queries.
    """
    before, after = compared.uses
    figures = before.whole, after.whole
    if metric == EMISSIONS and any(figure.without_factor_mj for figure in figures):
        metric = ENERGY
    series = series_names(before.factor_ids | after.factor_ids)
    parts = divide_change(
        uses_by_place(before, metric, series),
        uses_by_place(after, metric, series),
        _coverage(lab, compared.times),
    )
    difference = figures[1].value(metric) - figures[0].value(metric)
    return Division(metric, figures, difference, parts, (before.by_charge(), after.by_charge()))


def _coverage(
    lab: Lab, times: tuple[Sequence[DeviceTime], Sequence[DeviceTime]]
) -> dict[str, Coverage]:
    """Return the coverage of each node in both periods. One query."""
    uuids = {pk: str(uuid) for pk, uuid in lab.nodes.values_list("pk", "uuid")}
    sums: dict[str, list[int]] = {}
    for place, listed in enumerate(times):
        for time in listed:
            own = sums.setdefault(uuids[time.node_id], [0, 0, 0, 0])
            own[2 * place] += time.measured_us + time.estimated_us
            own[2 * place + 1] += time.expected_us
    return {node: Coverage(*values) for node, values in sums.items()}


def notes_of(compared: Compared) -> list[str]:
    """Return what limits the comparison."""
    earlier, later = compared.periods
    notes = []
    hours = later.hours - earlier.hours
    if hours:
        is_longer = "longer" if hours > 0 else "shorter"
        plural = "" if abs(hours) == 1 else "s"
        notes.append(f"{later.label} is {abs(hours)} hour{plural} {is_longer}.")
    first_us = _first_us(compared.times[0])
    if first_us is not None and first_us > earlier.from_hour * US_PER_HOUR:
        day = local(first_us // US_PER_HOUR, earlier.zone)
        notes.append(
            f"The first reading of the lab is of {day.day} {day:%B %Y}. Earlier use is unknown."
        )
    return notes
