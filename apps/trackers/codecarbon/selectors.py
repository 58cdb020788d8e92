"""Reads of CodeCarbon: reported and counted energy, rejected messages, possible double counts."""

from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.core.sql import as_int, fetch_rows, uuid_param
from apps.runs.models import Run
from apps.trackers.codecarbon.models import (
    CodeCarbonInterval,
    CodeCarbonPost,
    CodeCarbonRun,
    CodeCarbonSource,
    SharedMachine,
)


@dataclass(frozen=True)
class CodeCarbonFigures:
    """Reported energy (mJ, PUE divided out) and carbon (µg, or None) of a run, with numbers of
    messages.

    ``superseded_mj``: also measured by a collector, so not counted. ``bound``: the node is known.
    """

    energy_mj: int
    client_ug: int | None
    superseded_mj: int
    counted: int
    not_counted: int
    waiting: int
    bound: bool


def codecarbon_figures(run: Run) -> CodeCarbonFigures | None:
    """Return the CodeCarbon figures of a run, or None. Four queries."""
    tracked_run = CodeCarbonRun.objects.select_related("source").filter(run=run).first()
    if tracked_run is None:
        return None
    sums = CodeCarbonInterval.objects.filter(tracked_run__run=run).aggregate(
        energy=Sum("energy_mj"), client=Sum("client_ug"), count=Count("pk")
    )
    posts = CodeCarbonPost.objects.filter(tracked_run__run=run).aggregate(
        problems=Count("pk", filter=~Q(problem="")), waiting=Count("pk", filter=Q(processed=False))
    )
    return CodeCarbonFigures(
        energy_mj=as_int(sums["energy"]),
        client_ug=None if sums["client"] is None else int(sums["client"]),
        superseded_mj=superseded_of_run(run),
        counted=sums["count"],
        not_counted=posts["problems"],
        waiting=posts["waiting"],
        bound=tracked_run.source.bound,
    )


def superseded_of_run(run: Run) -> int:
    """Return the mJ of a run that a collector measured as well, so they are not counted. One query.

    Reported energy minus energy in the ledger. It is valid once the ledger is settled.
    """
    part = (
        "SELECT COALESCE(SUM(t.energy_mj), 0) FROM {} JOIN ingest_consumer c ON c.id = "
        "t.consumer_id "
        "WHERE c.lab_id = %s AND c.run_uuid = %s AND d.kind = 'declared'"
    )
    windows = part.format("ingest_consumerhour t JOIN fleet_device d ON d.id = t.device_id")
    ledger = part.format("energy_ledgerentry t JOIN fleet_device d ON d.id = t.device_id")
    params = [run.lab_id, uuid_param(run.uuid)]
    return as_int(
        next(fetch_rows(f"SELECT ({windows}) - ({ledger}) AS mj", [*params, *params]))["mj"]
    )


def not_counted(run: Run) -> QuerySet[CodeCarbonPost]:
    """Return the rejected messages of a run, newest first, each with its ``problem``."""
    return (
        CodeCarbonPost.objects.filter(tracked_run__run=run)
        .exclude(problem="")
        .order_by("-received_us")
    )


def _proven(pairs: QuerySet[SharedMachine]) -> QuerySet[SharedMachine]:
    """Return the pairs without those that match in one of several intervals.

    Two nodes may draw the same power for two minutes.
    """
    counted = pairs.annotate(duplicate_intervals=Count("duplicate__intervals"))
    return counted.filter(Q(intervals__gte=2) | Q(duplicate_intervals=F("intervals")))


def shared_machines(lab: Lab) -> QuerySet[SharedMachine]:
    """Return the pairs of a lab's runs that most likely measured one machine twice, newest
    first.
    """
    pairs = SharedMachine.objects.filter(primary__source__lab=lab).select_related(
        "primary__run", "duplicate__run", "primary__source"
    )
    return _proven(pairs).order_by("-id")


def shared_machines_of_run(run: Run) -> QuerySet[SharedMachine]:
    """Return the pairs that contain a run."""
    pairs = SharedMachine.objects.filter(
        Q(primary__run=run) | Q(duplicate__run=run)
    ).select_related("primary__run", "duplicate__run")
    return _proven(pairs).order_by("id")


def counted_twice_mj(lab: Lab) -> int:
    """Return an upper estimate of the energy that is counted twice because runs share a node."""
    max_by_run: dict[int, int] = {}
    for pair in shared_machines(lab):
        max_by_run[pair.duplicate_id] = max(max_by_run.get(pair.duplicate_id, 0), pair.energy_mj)
    return sum(max_by_run.values())


def possible_double_counts(lab: Lab) -> QuerySet[CodeCarbonSource]:
    """Return the sources without a node, with ``energy_mj`` (null: none).

    A collector may have measured the same energy.
    """
    sources = CodeCarbonSource.objects.filter(lab=lab, bound=False).select_related(
        "token", "project", "node"
    )
    return sources.annotate(
        energy_mj=Sum("runs__intervals__energy_mj"), run_count=Count("runs__run", distinct=True)
    ).order_by("created_us")


def sources_of(lab: Lab) -> QuerySet[CodeCarbonSource]:
    """Return the lab's CodeCarbon tokens and sources of imported files, newest first."""
    sources = CodeCarbonSource.objects.filter(lab=lab).select_related(
        "token__created_by", "project", "node"
    )
    return sources.order_by("-created_us", "-id")


def runs_by_source(lab: Lab) -> dict[int, int]:
    """Return {source id: number of runs}. One query."""
    runs = CodeCarbonRun.objects.filter(source__lab=lab, run__isnull=False).values_list("source_id")
    return dict(runs.annotate(runs=Count("run", distinct=True)))
