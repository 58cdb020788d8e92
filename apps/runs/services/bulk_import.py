"""Writing history in bulk: every row answered, unchanged rows not touched, a fixed number of
statements a request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Lab, Project
from apps.core.erasure.names import erased_names
from apps.core.jobs import enqueue
from apps.fleet.models import Node
from apps.runs.bulk_parsing import PastRun
from apps.runs.choices import AttributionSource, RunState, Source
from apps.runs.models import Run
from apps.runs.scheduler_jobs import (
    IMPORTED,
    can_change_owner,
    can_join,
    first_contradiction,
    merge_job_facts,
    record_reporter,
)

RowResult = list[str]
# Who is charged is derived for the lab as a whole, once some requests have come together.
_CHARGE_AFTER_US = 5_000_000
_COLUMNS = (
    "name", "os_user", "state", "started_us", "ended_us", "exit_code", "scheduler", "cluster",
    "job_id", "account", "partition", "job_facts",
)  # fmt: skip


@dataclass
class _PendingRun:
    """A run of the request, as it will be."""

    run: Run
    before: tuple[object, ...] | None  # None: it is new


@transaction.atomic
def import_runs(
    *, lab: Lab, rows: list[PastRun | str], bound_node: UUID | None, now: int
) -> list[RowResult]:
    """Create or renew the runs of finished jobs; return an answer for each row, in order.

    ``rows`` as :func:`parsing.parse_rows` gives them. No energy comes with them. A node's token
    (``bound_node``) changes nothing of what another node said of whose job it is. Saying the same
    again changes nothing.
    """
    reporter = str(bound_node) if bound_node else IMPORTED
    uuids = {row.job.run_uuid for row in rows if isinstance(row, PastRun)}
    stored = {
        run.uuid: run for run in Run.objects.select_for_update().filter(lab=lab, uuid__in=uuids)
    }
    pending = {uuid: _PendingRun(run, _content(run)) for uuid, run in stored.items()}
    results = [
        _apply_row(lab, row, pending, reporter) if isinstance(row, PastRun) else ["refused", row]
        for row in rows
    ]
    changed = [row.run for row in pending.values() if row.before != _content(row.run)]
    for run in changed:
        run.pk = None  # the unique (lab, uuid) decides between insert and update
    Run.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["lab", "uuid"],
        update_fields=list(_COLUMNS),
        batch_size=500,
    )
    if changed:
        enqueue(kind="attribution.lab", key=str(lab.pk), due_us=now + _CHARGE_AFTER_US)
    return results


def _content(run: Run) -> tuple[object, ...]:
    return tuple(
        dict(value) if isinstance(value := getattr(run, name), dict) else value for name in _COLUMNS
    )


def _apply_row(
    lab: Lab, row: PastRun, pending: dict[UUID, _PendingRun], reporter: str
) -> RowResult:
    """Put a row onto its run in memory; return its answer."""
    uuid, job = row.job.run_uuid, row.job
    entry = pending.get(uuid)
    if entry is None:
        run = Run(lab=lab, uuid=uuid, started_us=row.started_us, reported_by=Source.SLURM)
        entry = pending[uuid] = _PendingRun(run, None)
    run = entry.run
    if entry.before is not None and reporter != IMPORTED and not can_join(run.job_facts, reporter):
        return ["refused", "other nodes reported this job"]
    owner_facts = {"user": row.os_user, "account": job.account, "partition": job.partition}
    if not can_change_owner(run.job_facts, reporter):
        stored_facts = {"user": run.os_user, "account": run.account, "partition": run.partition}
        if name := first_contradiction(stored_facts, owner_facts):
            return ["refused", f"another node says otherwise of its {name}"]
    before = _content(run)
    run.name, run.scheduler, run.cluster, run.job_id = (
        row.name,
        job.scheduler,
        job.cluster,
        job.job_id,
    )
    run.os_user, run.account = (
        owner_facts["user"] or run.os_user,
        owner_facts["account"] or run.account,
    )
    run.partition = owner_facts["partition"] or run.partition
    run.started_us = min(
        run.started_us, row.started_us
    )  # queued again, it began earlier than Slurm still knows
    if row.state != RunState.RUNNING:  # that it ran is no news of a run that has ended
        run.state, run.exit_code = row.state, row.exit_code
        run.ended_us = None if row.ended_us is None else max(row.ended_us, run.started_us)
    run.job_facts = record_reporter(merge_job_facts(run.job_facts, job.facts), reporter)
    if entry.before is None:
        return ["created"] if before[0] == "" else ["changed"]
    return ["unchanged"] if before == _content(run) else ["changed"]


@dataclass(frozen=True)
class PastUse:
    """A finished run that a person declares."""

    uuid: UUID
    name: str
    node: Node
    project: Project | None
    started_us: int
    ended_us: int


def create_declared_runs(*, lab: Lab, uses: Sequence[PastUse]) -> None:
    """Create finished runs of declared use, in the caller's transaction. Their UUIDs are new.

    The caller enqueues the attribution.
    """
    names = erased_names(lab.pk) if lab.has_erased_names else None
    Run.objects.bulk_create(
        [
            Run(
                lab=lab,
                uuid=use.uuid,
                name=names.replace(use.name) if names else use.name,
                node=use.node,
                host=use.node.hostname,
                project=use.project,
                requested_project=use.project.slug if use.project else "",
                charged_project=use.project,
                attributed_by=AttributionSource.EXPLICIT if use.project else "",
                state=RunState.FINISHED,
                started_us=use.started_us,
                ended_us=use.ended_us,
            )
            for use in uses
        ],
        batch_size=500,
    )
