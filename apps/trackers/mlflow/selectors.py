"""Reads of MLflow: servers, imported runs, and problems."""

from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.core.sql import as_int, fetch_rows, uuid_param
from apps.runs.models import Run
from apps.trackers.mlflow.choices import FileOutcome
from apps.trackers.mlflow.models import MlflowFile, MlflowRun, MlflowSource


def servers_of(lab: Lab) -> QuerySet[MlflowSource]:
    """Return the lab's servers with numbers of runs: imported, linked, running, with problems,
    with verdict problems.
    """
    counts = {
        "imported": Count("runs", filter=Q(runs__run__isnull=False)),
        "linked": Count("runs", filter=Q(runs__is_linked=True)),
        "running": Count("runs", filter=Q(runs__is_open=True)),
        "problems": Count("runs", filter=~Q(runs__problem="") | ~Q(runs__files_problem="")),
        "verdict_problems": Count("runs", filter=~Q(runs__verdict_problem="")),
    }
    servers = MlflowSource.objects.filter(lab=lab, removed_us=None).select_related(
        "project", "node", "created_by"
    )
    return servers.annotate(**counts).order_by("name", "pk")


def server_at(lab: Lab, pk: int) -> MlflowSource | None:
    """Return one server, annotated as in :func:`servers_of`, or None."""
    return servers_of(lab).filter(pk=pk).first() if pk < 2**63 else None


def problems_of(source: MlflowSource, limit: int) -> QuerySet[MlflowRun]:
    """Return runs with import problems or verdict problems, newest first."""
    runs = source.runs.filter(~Q(problem="") | ~Q(verdict_problem="") | ~Q(files_problem=""))
    return runs.select_related("run").order_by("-last_listed_us", "-pk")[:limit]


def unreachable_servers(lab: Lab) -> QuerySet[MlflowSource]:
    """Return the enabled servers whose last three polls (14 minutes) failed."""
    return MlflowSource.objects.filter(
        lab=lab, removed_us=None, enabled=True, failures__gte=3
    ).order_by("name", "pk")


@dataclass(frozen=True)
class MlflowFigures:
    """Reported energy of a run, mJ. ``superseded_mj``: also measured by a collector, so not
    counted.
    """

    row: MlflowRun
    energy_mj: int
    superseded_mj: int
    cards: int


def mlflow_figures(run: Run) -> MlflowFigures | None:
    """Return the MLflow figures of a run, or None. Three queries."""
    row = MlflowRun.objects.select_related("source").filter(run=run).order_by("pk").first()
    if row is None:
        return None
    windows = _sum("ingest_consumerhour t JOIN fleet_device d ON d.id = t.device_id")
    ledger = _sum("energy_ledgerentry t JOIN fleet_device d ON d.id = t.device_id")
    params = [run.lab_id, uuid_param(run.uuid)]
    sums = next(
        fetch_rows(f"SELECT ({windows}) AS reported, ({ledger}) AS counted", [*params, *params])
    )
    energy_mj = as_int(sums["reported"])
    return MlflowFigures(
        row=row,
        energy_mj=energy_mj,
        superseded_mj=energy_mj - as_int(sums["counted"]),
        cards=row.series.exclude(device=None).count(),
    )


def _sum(tables: str) -> str:
    return (
        f"SELECT COALESCE(SUM(t.energy_mj), 0) FROM {tables} JOIN ingest_consumer c ON c.id = "
        "t.consumer_id "
        "WHERE c.lab_id = %s AND c.run_uuid = %s AND d.key LIKE 'declared:mlflow/%%'"
    )


def count_waiting_tags(source: MlflowSource) -> int:
    """Return the number of verdicts that are not written yet."""
    return source.runs.exclude(verdict=F("written_verdict")).count()


@dataclass(frozen=True)
class Files:
    """Number and total size of the files of one outcome."""

    outcome: FileOutcome
    count: int
    bytes: int


def files_of(source: MlflowSource) -> list[Files]:
    """Return the files of the server's runs by outcome. One query."""
    rows = (
        MlflowFile.objects.filter(tracked_run__source=source)
        .values_list("outcome")
        .annotate(Count("pk"), Sum("bytes"))
    )
    by_outcome = {outcome: (count, int(size)) for outcome, count, size in rows.order_by()}
    return [
        Files(outcome, *by_outcome[outcome.value])
        for outcome in FileOutcome
        if outcome.value in by_outcome
    ]


def unreadable_of(source: MlflowSource, limit: int) -> QuerySet[MlflowFile]:
    """Return unreadable files, newest first."""
    files = MlflowFile.objects.filter(tracked_run__source=source, outcome=FileOutcome.UNREADABLE)
    return files.select_related("tracked_run__run").order_by("-pk")[:limit]


def files_waiting(source: MlflowSource) -> tuple[int, int]:
    """Return the number of ended runs whose files are not read yet, and of files left in MLflow.
    One query.
    """
    waits = Q(run__isnull=False, is_open=False, files_read=False)
    sums = source.runs.aggregate(waiting=Count("pk", filter=waits), left=Sum("files_left"))
    return sums["waiting"], int(sums["left"] or 0)
