"""Figures of runs on the pages of duplicate findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import MOST_RUNS, FigureQuery
from apps.dashboard.figures import EnergyAndEmissions, Units, energy_and_emissions, total

Spans = Mapping[UUID, tuple[Figure, int, int]]


def run_pair(
    lab: Lab, uuid: UUID, spans: Spans, units: Units | None = None
) -> EnergyAndEmissions | None:
    """Return the energy and emissions of a run, or None if unmeasured."""
    return _pair(lab, "run", [uuid], spans, units)


def runs_pair(
    lab: Lab, uuids: Sequence[UUID], spans: Spans, units: Units | None = None
) -> EnergyAndEmissions | None:
    """Return the total of several runs, each counted once, as one figure query."""
    return _pair(
        lab, "runs", [uuid for uuid in dict.fromkeys(uuids) if uuid in spans], spans, units
    )


@dataclass(frozen=True)
class LimitedTotal:
    """The total of the runs with the most energy, as many as one figure query has. ``included`` of
    ``measured`` runs are in it.
    """

    figures: EnergyAndEmissions | None
    included: int
    measured: int


def limited_total(
    lab: Lab, uuids: Sequence[UUID], spans: Spans, units: Units | None = None
) -> LimitedTotal:
    """Return the total of several runs, each counted once, of at most MOST_RUNS of them."""
    measured = [uuid for uuid in dict.fromkeys(uuids) if uuid in spans]
    included = sorted(measured, key=lambda uuid: (-spans[uuid][0].energy_mj, str(uuid)))[:MOST_RUNS]
    return LimitedTotal(_pair(lab, "runs", included, spans, units), len(included), len(measured))


def energy_of(uuids: Iterable[UUID], spans: Spans) -> int:
    """Return the energy (mJ) of runs, or -1 if none is measured: for sorting."""
    energies = [spans[uuid][0].energy_mj for uuid in uuids if uuid in spans]
    return sum(energies) if energies else -1


def _pair(
    lab: Lab, kind: str, uuids: Sequence[UUID], spans: Spans, units: Units | None
) -> EnergyAndEmissions | None:
    used = [spans[uuid] for uuid in uuids if uuid in spans]
    if not used:
        return None
    query = FigureQuery(
        metric="energy_mj",
        from_hour=min(start for _, start, _ in used),
        to_hour=max(end for _, _, end in used),
        subject_kind=kind,
        subject_key=",".join(str(uuid) for uuid in uuids),
        basis=lab.basis,
    )
    return energy_and_emissions(query, total(figure for figure, _, _ in used), units)
