"""What keeping a copy for a year and making an artifact again take and emit, location-based."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.artifacts.calc import Lot, cost
from apps.artifacts.choices import Role
from apps.artifacts.models import Copy, LineageEdge
from apps.artifacts.storage import factor_ug, pues_of
from apps.carbon.selectors import Figure, applied_factor, figures_of_runs
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
    """What the run took that made an artifact. ``emission_ug`` None: some of its energy has no factor."""

    run: Run
    energy_mj: int
    emission_ug: int | None


def rate_at(lab: Lab, node: Node, now: int) -> Rate:
    """Return what prices energy at a node at ``now``: what storage is priced by, as of the lab's basis."""
    hour = hour_of(now)
    return Rate(pues_of(lab, hour).get(node.pk), factor_ug(applied_factor(node, lab.basis, hour)))


def year_of(copy: Copy, rate: Rate) -> Year:
    """Return what a year of keeping a copy takes and emits, as :func:`apps.artifacts.calc.cost` has it."""
    year = cost(Lot(None, copy.medium, copy.node_id, 1, copy.artifact.bytes, rate.pue_ppm, rate.ug_per_kwh))
    if year.keeping.unknown_bytes:
        return Year(None, None)
    return Year(year.keeping.energy_mj, None if rate.ug_per_kwh is None else year.emission_ug)


def making_again(lab: Lab, artifacts: Iterable[int]) -> dict[int, Again]:
    """Return what the run that made each artifact took: of several the one that took least, as one would do."""
    makers: dict[int, list[Run]] = defaultdict(list)
    listed = list(artifacts)
    for start in range(0, len(listed), _AT_ONCE):
        edges = LineageEdge.objects.filter(artifact__in=listed[start : start + _AT_ONCE], role=Role.PRODUCED)
        for edge in edges.select_related("run").order_by("pk"):
            makers[edge.artifact_id].append(edge.run)
    figures = figures_of_runs(lab, sorted({run.uuid for runs in makers.values() for run in runs}))
    found = {}
    for pk, runs in makers.items():
        measured = [run for run in runs if run.uuid in figures]
        if measured:
            least = min(measured, key=lambda run: (figures[run.uuid].energy_mj, run.pk))
            found[pk] = _again(least, figures[least.uuid])
    return found


def _again(run: Run, took: Figure) -> Again:
    return Again(run, took.energy_mj, None if took.without_factor_mj else took.emission_ug)
