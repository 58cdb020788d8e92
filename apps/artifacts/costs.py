"""What keeping a copy for a year and making an artifact again take and emit, location-based."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Lab
from apps.artifacts.choices import LineageRole
from apps.artifacts.models import Copy, LineageEdge
from apps.artifacts.storage import factor_ug, pue_by_node
from apps.artifacts.storage_model import StorageLot, storage_cost
from apps.carbon.figures.energy import Figure, applied_factor, spans_of_runs
from apps.core.units import hour_of
from apps.fleet.models import Node
from apps.runs.models import Run

_BATCH_SIZE = 500


@dataclass(frozen=True)
class NodeRates:
    """What prices energy at a node now: its PUE (ppm) and its factor, each None where nobody knows it."""

    pue_ppm: int | None
    ug_per_kwh: int | None


@dataclass(frozen=True)
class YearlyCost:
    """What a year of keeping a copy takes (None: its medium is unknown) and emits (None: that, or no factor)."""

    energy_mj: int | None
    emission_ug: int | None


@dataclass(frozen=True)
class RetrainingCost:
    """What the run took that made an artifact. ``span``: its figure, and the hours ``[from, to)`` that hold it."""

    run: Run
    span: tuple[Figure, int, int]

    @property
    def energy_mj(self) -> int:
        return self.span[0].energy_mj

    @property
    def emission_ug(self) -> int | None:
        """None: some of its energy has no factor."""
        figure = self.span[0]
        return None if figure.without_factor_mj else figure.emission_ug


def node_rates(lab: Lab, node: Node, now: int) -> NodeRates:
    """Return what prices energy at a node at ``now``: what storage is priced by, as of the lab's basis."""
    hour = hour_of(now)
    return NodeRates(pue_by_node(lab, hour).get(node.pk), factor_ug(applied_factor(node, lab.basis, hour)))


def yearly_storage_cost(copy: Copy, rate: NodeRates) -> YearlyCost:
    """Return what a year of keeping a copy takes and emits, as :func:`apps.artifacts.storage_model.cost` has it."""
    cost = storage_cost(StorageLot(None, copy.medium, copy.node_id, 1, copy.artifact.bytes, rate.pue_ppm, rate.ug_per_kwh))
    if cost.energy.unknown_bytes:
        return YearlyCost(None, None)
    return YearlyCost(cost.energy.energy_mj, None if rate.ug_per_kwh is None else cost.emission_ug)


def retraining_costs(lab: Lab, artifacts: Iterable[int]) -> dict[int, RetrainingCost]:
    """Return what making each artifact again would take, by number: what the run took that made it, of several measured ones
    the one that took least, as one would do. One of which nothing is known but 0 counts only where there is no other."""
    producers: dict[int, list[tuple[int, UUID]]] = defaultdict(list)
    artifact_ids = list(artifacts)
    for start in range(0, len(artifact_ids), _BATCH_SIZE):
        edges = LineageEdge.objects.filter(
            artifact__in=artifact_ids[start : start + _BATCH_SIZE], role=LineageRole.PRODUCED
        ).order_by()
        for artifact, run, uuid in edges.values_list("artifact", "run", "run__uuid"):
            producers[artifact].append((run, uuid))
    spans = spans_of_runs(lab, sorted({uuid for runs in producers.values() for _, uuid in runs}))
    cheapest: dict[int, tuple[int, UUID]] = {}
    for artifact, runs in producers.items():
        measured = [(run, uuid) for run, uuid in runs if uuid in spans]
        if measured:
            cheapest[artifact] = min(measured, key=lambda candidate: (_energy_order(spans[candidate[1]]), candidate[0]))
    runs_by_pk = _runs_by_pk(pk for pk, _ in cheapest.values())
    return {artifact: RetrainingCost(runs_by_pk[pk], spans[uuid]) for artifact, (pk, uuid) in cheapest.items()}


def _energy_order(span: tuple[Figure, int, int]) -> tuple[bool, int]:
    return span[0].energy_mj <= 0, span[0].energy_mj


def _runs_by_pk(numbers: Iterable[int]) -> dict[int, Run]:
    run_ids, runs = sorted(set(numbers)), dict[int, Run]()
    for start in range(0, len(run_ids), _BATCH_SIZE):
        runs |= Run.objects.in_bulk(run_ids[start : start + _BATCH_SIZE])
    return runs
