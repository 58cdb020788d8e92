"""The runs that made or read an artifact, with their figures and the metrics that people look at first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.artifacts.choices import Role
from apps.artifacts.models import Artifact, LineageEdge
from apps.dashboard.artifacts.footprint import Spans, run_query
from apps.dashboard.figures import Pair, Units, column_units, pair
from apps.runs.models import Metric, Run

MOST_SHOWN, MOST_METRICS = 50, 2
_FIRST = ("val", "eval", "test", "acc", "loss")


@dataclass(frozen=True)
class RunLine:
    """A run beside an artifact: what it was to it, and what came of the run. ``figures`` None: not measured."""

    run: Run
    role: str
    known: str
    figures: Pair | None
    metrics: list[tuple[str, float]]


@dataclass(frozen=True)
class RunLines:
    """The first MOST_SHOWN of ``number`` runs."""

    rows: list[RunLine]
    units: Units
    number: int


def edges_of(artifact: Artifact) -> tuple[list[LineageEdge], int]:
    """Return the edges to show, those of the runs that made it first, and how many there are. Two queries."""
    edges = LineageEdge.objects.filter(artifact=artifact)
    listed = list(edges.filter(role=Role.PRODUCED).select_related("run__charged_project").order_by("-pk")[:MOST_SHOWN])
    read = edges.exclude(role=Role.PRODUCED).select_related("run__charged_project").order_by("-pk")
    listed += read[: MOST_SHOWN - len(listed)]
    return listed, edges.count()


def run_lines(lab: Lab, edges: Sequence[LineageEdge], number: int, spans: Spans) -> RunLines:
    """Return the runs at the other end of ``edges``. One query."""
    units = column_units(spans[edge.run.uuid][0] for edge in edges if edge.run.uuid in spans)
    metrics = first_metrics([edge.run for edge in edges])
    rows = []
    for edge in edges:
        span = spans.get(edge.run.uuid)
        figures = pair(run_query(lab, edge.run.uuid, span), span[0], units) if span else None
        known = "" if edge.way == "told" else edge.get_way_display()
        rows.append(RunLine(edge.run, edge.get_role_display(), known, figures, metrics.get(edge.run_id, [])))
    return RunLines(rows, units, number)


def first_metrics(runs: Sequence[Run]) -> Mapping[int, list[tuple[str, float]]]:
    """Return by run the last values of the few metrics that people look at first. One query."""
    found: dict[int, list[tuple[str, float]]] = defaultdict(list)
    told = Metric.objects.filter(run__in=runs, last_value__isnull=False).values_list("run_id", "name", "last_value")
    for run_id, name, value in told:
        if value is not None:
            found[run_id].append((name, value))
    return {run_id: sorted(each, key=lambda row: (_rank(row[0]), row[0]))[:MOST_METRICS] for run_id, each in found.items()}


def _rank(name: str) -> int:
    return next((i for i, sign in enumerate(_FIRST) if sign in name.lower()), len(_FIRST))
