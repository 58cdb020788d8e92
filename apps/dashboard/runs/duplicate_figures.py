"""Figures of runs on the pages of duplicate findings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import MOST_RUNS, FigureQuery
from apps.dashboard.figures import EnergyAndEmissions, Units, energy_and_emissions, total
from apps.runs.choices import EnergyState

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


@dataclass(frozen=True)
class Uncounted:
    """Numbers of runs without energy in the ledger. ``not_yet``: it can still arrive."""

    not_yet: int
    unmeasured: int

    @property
    def number(self) -> int:
        return self.not_yet + self.unmeasured

    @property
    def label(self) -> str:
        """What to show instead of their total."""
        state = EnergyState.NOT_COUNTED_YET if self.not_yet else EnergyState.NOT_MEASURED
        return str(state.label).lower()


def count_uncounted(uuids: Iterable[UUID], states: Mapping[UUID, EnergyState]) -> Uncounted:
    """Return the numbers of runs whose energy is not counted, each run once."""
    numbers = Counter(states[uuid] for uuid in set(uuids))
    return Uncounted(numbers[EnergyState.NOT_COUNTED_YET], numbers[EnergyState.NOT_MEASURED])


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
