"""Runs that produced or read an artifact, with figures and headline metrics."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.artifacts.choices import LineageRole
from apps.artifacts.models import Artifact, LineageEdge
from apps.dashboard.artifacts.model_footprint import Spans, run_query
from apps.dashboard.figures import EnergyAndEmissions, Units, column_units, energy_and_emissions
from apps.runs.models import Metric, Run

MAX_RUNS, MAX_METRICS = 50, 2
_FIRST = ("val", "eval", "test", "acc", "loss")


@dataclass(frozen=True)
class RunRow:
    """A run with its role, the source of the edge and its metrics. ``figures`` None: not
    measured.
    """

    run: Run
    role: str
    source: str
    figures: EnergyAndEmissions | None
    metrics: list[tuple[str, float]]


@dataclass(frozen=True)
class RunRows:
    """The first MAX_RUNS of ``number`` runs."""

    rows: list[RunRow]
    units: Units
    number: int


def visible_edges(artifact: Artifact) -> tuple[list[LineageEdge], int]:
    """Return the visible edges, producing runs first, and the number of all edges. Two queries."""
    edges = LineageEdge.objects.filter(artifact=artifact)
    listed = list(
        edges.filter(role=LineageRole.PRODUCED)
        .select_related("run__charged_project")
        .order_by("-pk")[:MAX_RUNS]
    )
    read = (
        edges.exclude(role=LineageRole.PRODUCED)
        .select_related("run__charged_project")
        .order_by("-pk")
    )
    listed += read[: MAX_RUNS - len(listed)]
    return listed, edges.count()


def run_rows(lab: Lab, edges: Sequence[LineageEdge], number: int, spans: Spans) -> RunRows:
    """Return the runs of ``edges``. One query."""
    units = column_units(spans[edge.run.uuid][0] for edge in edges if edge.run.uuid in spans)
    metrics = first_metrics([edge.run for edge in edges])
    rows = []
    for edge in edges:
        span = spans.get(edge.run.uuid)
        figures = (
            energy_and_emissions(run_query(lab, edge.run.uuid, span), span[0], units)
            if span
            else None
        )
        source_text = "" if edge.source == "told" else edge.get_source_display()
        rows.append(
            RunRow(
                edge.run,
                edge.get_role_display(),
                source_text,
                figures,
                metrics.get(edge.run_id, []),
            )
        )
    return RunRows(rows, units, number)


def first_metrics(runs: Sequence[Run]) -> Mapping[int, list[tuple[str, float]]]:
    """Return the last values of the headline metrics by run. One query."""
    metrics: dict[int, list[tuple[str, float]]] = defaultdict(list)
    rows = Metric.objects.filter(run__in=runs, last_value__isnull=False).values_list(
        "run_id", "name", "last_value"
    )
    for run_id, name, value in rows:
        if value is not None:
            metrics[run_id].append((name, value))
    return {
        run_id: sorted(each, key=lambda row: (_rank(row[0]), row[0]))[:MAX_METRICS]
        for run_id, each in metrics.items()
    }


def _rank(name: str) -> int:
    return next((i for i, sign in enumerate(_FIRST) if sign in name.lower()), len(_FIRST))
