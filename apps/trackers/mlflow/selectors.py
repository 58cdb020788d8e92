"""Reads of MLflow: its servers, what came of their runs, what was not taken and why."""

from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.core.sql import as_int, fetch_rows, uuid_param
from apps.runs.models import Run
from apps.trackers.choices import FileOutcome
from apps.trackers.models import MlflowFile, MlflowRun, MlflowSource


def servers_of(lab: Lab) -> QuerySet[MlflowSource]:
    """Return the lab's servers, each with how many of its runs were taken, go on, were not taken or not told."""
    counts = {
        "taken": Count("runs", filter=Q(runs__run__isnull=False)),
        "joined": Count("runs", filter=Q(runs__joined=True)),
        "going_on": Count("runs", filter=Q(runs__is_open=True)),
        "problems": Count("runs", filter=~Q(runs__problem="") | ~Q(runs__files_problem="")),
        "untold": Count("runs", filter=~Q(runs__tell_problem="")),
    }
    found = MlflowSource.objects.filter(lab=lab, removed_us=None).select_related("project", "node", "made_by")
    return found.annotate(**counts).order_by("name", "pk")


def server_at(lab: Lab, pk: int) -> MlflowSource | None:
    """Return the lab's server, counted as by :func:`servers_of`, or None."""
    return servers_of(lab).filter(pk=pk).first() if pk < 2**63 else None


def problems_of(source: MlflowSource, limit: int) -> QuerySet[MlflowRun]:
    """Return runs that were not taken whole, or whose verdict could not be written, the newest first."""
    found = source.runs.filter(~Q(problem="") | ~Q(tell_problem="") | ~Q(files_problem=""))
    return found.select_related("run").order_by("-seen_us", "-pk")[:limit]


def unanswering(lab: Lab) -> QuerySet[MlflowSource]:
    """Return the servers that are polled and did not answer the last three times (14 minutes)."""
    return MlflowSource.objects.filter(lab=lab, removed_us=None, on=True, failures__gte=3).order_by("name", "pk")


@dataclass(frozen=True)
class ToldByMlflow:
    """What MLflow told of a run. Energy in mJ; ``superseded_mj``: a collector measured it as well, so it is not counted."""

    told: MlflowRun
    energy_mj: int
    superseded_mj: int
    cards: int


def told_by_mlflow(run: Run) -> ToldByMlflow | None:
    """Return what MLflow told of a run; None where it told nothing. Three queries."""
    told = MlflowRun.objects.select_related("source").filter(run=run).order_by("pk").first()
    if told is None:
        return None
    windows = _sum("ingest_windowshare t JOIN ingest_epoch p ON p.id = t.epoch_id JOIN fleet_device d ON d.id = p.device_id")
    ledger = _sum("energy_ledgerentry t JOIN fleet_device d ON d.id = t.device_id")
    params = [run.lab_id, uuid_param(run.uuid)]
    found = next(fetch_rows(f"SELECT ({windows}) AS told, ({ledger}) AS counted", [*params, *params]))
    energy_mj = as_int(found["told"])
    return ToldByMlflow(
        told=told,
        energy_mj=energy_mj,
        superseded_mj=energy_mj - as_int(found["counted"]),
        cards=told.series.exclude(device=None).count(),
    )


def _sum(tables: str) -> str:
    return (
        f"SELECT COALESCE(SUM(t.energy_mj), 0) FROM {tables} JOIN ingest_consumer c ON c.id = t.consumer_id "
        "WHERE c.lab_id = %s AND c.run_uuid = %s AND d.key LIKE 'declared:mlflow/%%'"
    )


def waiting_to_tell(source: MlflowSource) -> int:
    """Return how many verdicts MLflow does not say yet."""
    return source.runs.exclude(verdict=F("told_verdict")).count()


@dataclass(frozen=True)
class Files:
    """Files of one outcome: how many, and how large together."""

    outcome: FileOutcome
    count: int
    bytes: int


def files_of(source: MlflowSource) -> list[Files]:
    """Return what became of the files that the server's runs made, where there are any. One query."""
    told = MlflowFile.objects.filter(told__source=source).values_list("outcome").annotate(Count("pk"), Sum("bytes"))
    found = {outcome: (count, int(size)) for outcome, count, size in told.order_by()}
    return [Files(outcome, *found[outcome.value]) for outcome in FileOutcome if outcome.value in found]


def unreadable_of(source: MlflowSource, limit: int) -> QuerySet[MlflowFile]:
    """Return files that could not be read, the newest first."""
    found = MlflowFile.objects.filter(told__source=source, outcome=FileOutcome.UNREADABLE)
    return found.select_related("told__run").order_by("-pk")[:limit]


def files_waiting(source: MlflowSource) -> tuple[int, int]:
    """Return how many ended runs wait for their files to be read, and how many files are left in MLflow. One query."""
    waits = Q(run__isnull=False, is_open=False, files_read=False)
    found = source.runs.aggregate(waiting=Count("pk", filter=waits), left=Sum("files_left"))
    return found["waiting"], int(found["left"] or 0)
