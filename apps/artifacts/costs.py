"""Energy and location-based emissions of storing a copy for a year and of retraining an
artifact.
"""

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
    """PUE (ppm) and emission factor of a node, each None if unknown."""

    pue_ppm: int | None
    ug_per_kwh: int | None


@dataclass(frozen=True)
class YearlyCost:
    """Energy (None: unknown medium) and emissions (None: that, or no factor) of storing a copy for
    a year.
    """

    energy_mj: int | None
    emission_ug: int | None


@dataclass(frozen=True)
class RetrainingCost:
    """The cost of the run that produced an artifact. ``span``: its figure, and the hours ``[from,
    to)`` of that figure.
    """

    run: Run
    span: tuple[Figure, int, int]

    @property
    def energy_mj(self) -> int:
        return self.span[0].energy_mj

    @property
    def emission_ug(self) -> int | None:
        """Return the emissions, None if some of the energy has no factor."""
        figure = self.span[0]
        return None if figure.without_factor_mj else figure.emission_ug


def node_rates(lab: Lab, node: Node, now: int) -> NodeRates:
    """Return PUE and factor of a node at ``now``, for the lab's basis."""
    hour = hour_of(now)
    return NodeRates(
        pue_by_node(lab, hour).get(node.pk), factor_ug(applied_factor(node, lab.basis, hour))
    )


def yearly_storage_cost(copy: Copy, rate: NodeRates) -> YearlyCost:
    """Return energy and emissions of a year, computed by
    :func:`apps.artifacts.storage_model.storage_cost`.
    """
    cost = storage_cost(
        StorageLot(
            None, copy.medium, copy.node_id, 1, copy.artifact.bytes, rate.pue_ppm, rate.ug_per_kwh
        )
    )
    if cost.energy.unknown_bytes:
        return YearlyCost(None, None)
    return YearlyCost(cost.energy.energy_mj, None if rate.ug_per_kwh is None else cost.emission_ug)


def retraining_costs(lab: Lab, artifacts: Iterable[int]) -> dict[int, RetrainingCost]:
    """Return the retraining cost of artifacts, by primary key.

    It is the energy of the run that produced the artifact. Of several measured runs the one with
    the least energy counts. A run measured as 0 counts only if there is no other.
    """
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
            cheapest[artifact] = min(
                measured, key=lambda candidate: (_energy_order(spans[candidate[1]]), candidate[0])
            )
    runs_by_pk = _runs_by_pk(pk for pk, _ in cheapest.values())
    return {
        artifact: RetrainingCost(runs_by_pk[pk], spans[uuid])
        for artifact, (pk, uuid) in cheapest.items()
    }


def _energy_order(span: tuple[Figure, int, int]) -> tuple[bool, int]:
    return span[0].energy_mj <= 0, span[0].energy_mj


def _runs_by_pk(numbers: Iterable[int]) -> dict[int, Run]:
    run_ids, runs = sorted(set(numbers)), dict[int, Run]()
    for start in range(0, len(run_ids), _BATCH_SIZE):
        runs |= Run.objects.in_bulk(run_ids[start : start + _BATCH_SIZE])
    return runs
