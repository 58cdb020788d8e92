"""Reads of CodeCarbon: what was told beside what counts, what was not counted and why, possible double counts."""

from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.core.sql import as_int, fetch_rows, uuid_param
from apps.runs.models import Run
from apps.trackers.models import CodeCarbonPost, CodeCarbonRun, CodeCarbonSource, SameMachine


@dataclass(frozen=True)
class ToldFigures:
    """What CodeCarbon told of a run: energy (mJ, its PUE divided out), its own carbon (µg; None: none), the part that gave
    way to a collector, how many messages were counted and how many not, and whether its machine is known."""

    energy_mj: int
    client_ug: int | None
    superseded_mj: int
    counted: int
    not_counted: int
    waiting: int
    bound: bool


def told_of_run(run: Run) -> ToldFigures | None:
    """Return what CodeCarbon told of a run; None where it told nothing. Four queries."""
    told = CodeCarbonRun.objects.select_related("source").filter(run=run).first()
    if told is None:
        return None
    sums = told.intervals.aggregate(energy=Sum("energy_mj"), client=Sum("client_ug"), count=Count("pk"))
    posts = told.posts.aggregate(problems=Count("pk", filter=~Q(problem="")), waiting=Count("pk", filter=Q(worked=False)))
    return ToldFigures(
        energy_mj=as_int(sums["energy"]),
        client_ug=None if sums["client"] is None else int(sums["client"]),
        superseded_mj=superseded_of_run(run),
        counted=sums["count"],
        not_counted=posts["problems"],
        waiting=posts["waiting"],
        bound=told.source.bound,
    )


def superseded_of_run(run: Run) -> int:
    """Return the mJ that CodeCarbon told of a run and a collector measured as well: kept, and not counted. One query.

    What was told less what stands in the ledger: true once the ledger is settled, which is a moment after either comes in.
    """
    part = (
        "SELECT COALESCE(SUM(t.energy_mj), 0) FROM {} JOIN ingest_consumer c ON c.id = t.consumer_id "
        "WHERE c.lab_id = %s AND c.run_uuid = %s AND d.kind = 'declared'"
    )
    windows = part.format(
        "ingest_windowshare t JOIN ingest_epoch p ON p.id = t.epoch_id JOIN fleet_device d ON d.id = p.device_id"
    )
    ledger = part.format("energy_ledgerentry t JOIN fleet_device d ON d.id = t.device_id")
    params = [run.lab_id, uuid_param(run.uuid)]
    return as_int(next(fetch_rows(f"SELECT ({windows}) - ({ledger}) AS mj", [*params, *params]))["mj"])


def not_counted(run: Run) -> QuerySet[CodeCarbonPost]:
    """Return the messages of a run that were kept and not counted, newest first, each with its ``problem``."""
    return CodeCarbonPost.objects.filter(told__run=run).exclude(problem="").order_by("-received_us")


def _proven(found: QuerySet[SameMachine]) -> QuerySet[SameMachine]:
    """Leave out what rests on one stretch of several: two machines may draw the same for two minutes."""
    counted = found.annotate(told_by_again=Count("again__intervals"))
    return counted.filter(Q(intervals__gte=2) | Q(told_by_again=F("intervals")))


def same_machine(lab: Lab) -> QuerySet[SameMachine]:
    """Return the pairs of a lab's runs that most likely measured one machine twice, newest first."""
    found = SameMachine.objects.filter(first__source__lab=lab).select_related("first__run", "again__run", "first__source")
    return _proven(found).order_by("-id")


def same_machine_of(run: Run) -> QuerySet[SameMachine]:
    """Return the pairs in which a run stands."""
    found = SameMachine.objects.filter(Q(first__run=run) | Q(again__run=run)).select_related("first__run", "again__run")
    return _proven(found).order_by("id")


def counted_twice_mj(lab: Lab) -> int:
    """Return the energy of runs that counts again what another counts already, each run once: at most, an estimate."""
    most: dict[int, int] = {}
    for pair in same_machine(lab):
        most[pair.again_id] = max(most.get(pair.again_id, 0), pair.energy_mj)
    return sum(most.values())


def possible_double_counts(lab: Lab) -> QuerySet[CodeCarbonSource]:
    """Return the tokens and files that name no machine, with ``energy_mj`` (null: none came): a collector may have measured
    the same, and nothing here can tell."""
    found = CodeCarbonSource.objects.filter(lab=lab, bound=False).select_related("token", "project", "node")
    return found.annotate(energy_mj=Sum("runs__intervals__energy_mj"), told_runs=Count("runs__run", distinct=True)).order_by(
        "created_us"
    )


def sources_of(lab: Lab) -> QuerySet[CodeCarbonSource]:
    """Return the lab's CodeCarbon tokens and what files were imported for, newest first."""
    found = CodeCarbonSource.objects.filter(lab=lab).select_related("token__made_by", "project", "node")
    return found.order_by("-created_us", "-id")


def runs_by_source(lab: Lab) -> dict[int, int]:
    """Return {source id: runs that were told by it}. One query."""
    found = CodeCarbonRun.objects.filter(source__lab=lab, run__isnull=False).values_list("source_id")
    return dict(found.annotate(runs=Count("pk")))
