"""What keeping a copy for a year and making an artifact again take and emit, location-based."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Lab
from apps.artifacts.choices import Role
from apps.artifacts.models import Copy, LineageEdge
from apps.artifacts.storage import factor_ug, pues_of
from apps.artifacts.storage_model import Lot, cost
from apps.carbon.figures.energy import Figure, applied_factor, spans_of_runs
from apps.core.units import hour_of
from apps.fleet.models import Node
from apps.runs.models import Run

_AT_ONCE = 500


@dataclass(frozen=True)
class Rate:
    """What prices energy at a node now: its PUE (ppm) and its factor, each None where nobody knows it."""

    pue_ppm: int | None
    ug_per_kwh: int | None


@dataclass(frozen=True)
class Year:
    """What a year of keeping a copy takes (None: its medium is unknown) and emits (None: that, or no factor)."""

    energy_mj: int | None
    emission_ug: int | None


@dataclass(frozen=True)
class Again:
    """What the run took that made an artifact. ``span``: its figure, and the hours ``[from, to)`` that hold it."""

    run: Run
    span: tuple[Figure, int, int]

    @property
    def energy_mj(self) -> int:
        return self.span[0].energy_mj

    @property
    def emission_ug(self) -> int | None:
        """None: some of its energy has no factor."""
        took = self.span[0]
        return None if took.without_factor_mj else took.emission_ug


def rate_at(lab: Lab, node: Node, now: int) -> Rate:
    """Return what prices energy at a node at ``now``: what storage is priced by, as of the lab's basis."""
    hour = hour_of(now)
    return Rate(pues_of(lab, hour).get(node.pk), factor_ug(applied_factor(node, lab.basis, hour)))


def year_of(copy: Copy, rate: Rate) -> Year:
    """Return what a year of keeping a copy takes and emits, as :func:`apps.artifacts.storage_model.cost` has it."""
    year = cost(Lot(None, copy.medium, copy.node_id, 1, copy.artifact.bytes, rate.pue_ppm, rate.ug_per_kwh))
    if year.keeping.unknown_bytes:
        return Year(None, None)
    return Year(year.keeping.energy_mj, None if rate.ug_per_kwh is None else year.emission_ug)


def making_again(lab: Lab, artifacts: Iterable[int]) -> dict[int, Again]:
    """Return what making each artifact again would take, by number: what the run took that made it, of several measured ones
    the one that took least, as one would do. One of which nothing is known but 0 counts only where there is no other."""
    makers: dict[int, list[tuple[int, UUID]]] = defaultdict(list)
    listed = list(artifacts)
    for start in range(0, len(listed), _AT_ONCE):
        edges = LineageEdge.objects.filter(artifact__in=listed[start : start + _AT_ONCE], role=Role.PRODUCED).order_by()
        for artifact, run, uuid in edges.values_list("artifact", "run", "run__uuid"):
            makers[artifact].append((run, uuid))
    spans = spans_of_runs(lab, sorted({uuid for runs in makers.values() for _, uuid in runs}))
    least: dict[int, tuple[int, UUID]] = {}
    for artifact, runs in makers.items():
        measured = [(run, uuid) for run, uuid in runs if uuid in spans]
        if measured:
            least[artifact] = min(measured, key=lambda each: (_took(spans[each[1]]), each[0]))
    runs_by_pk = _runs(pk for pk, _ in least.values())
    return {artifact: Again(runs_by_pk[pk], spans[uuid]) for artifact, (pk, uuid) in least.items()}


def _took(span: tuple[Figure, int, int]) -> tuple[bool, int]:
    return span[0].energy_mj <= 0, span[0].energy_mj


def _runs(numbers: Iterable[int]) -> dict[int, Run]:
    listed, found = sorted(set(numbers)), dict[int, Run]()
    for start in range(0, len(listed), _AT_ONCE):
        found |= Run.objects.in_bulk(listed[start : start + _AT_ONCE])
    return found
