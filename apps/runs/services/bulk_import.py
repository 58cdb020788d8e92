"""Writing history in bulk: every row answered, unchanged rows not touched, a fixed number of statements a request."""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Lab
from apps.core.jobs import enqueue
from apps.runs.bulk_parsing import PastRun
from apps.runs.choices import RunState, Teller
from apps.runs.models import Run
from apps.runs.scheduler_jobs import IMPORTED, contradiction, may_rename, merged_facts, told_by

Answer = list[str]
# Who is charged is derived for the lab as a whole, once some requests have come together.
_CHARGE_AFTER_US = 5_000_000
_WRITTEN = (
    "name", "os_user", "state", "started_us", "ended_us", "exit_code", "scheduler", "cluster", "job_id", "account",
    "partition", "job_facts",
)  # fmt: skip


@dataclass
class _Row:
    """A run of the request, as it will be."""

    run: Run
    before: tuple[object, ...] | None  # None: it is new


@transaction.atomic
def import_runs(*, lab: Lab, rows: list[PastRun | str], bound_node: UUID | None, now: int) -> list[Answer]:
    """Create or renew the runs of finished jobs; return an answer for each row, in order.

    ``rows`` as :func:`parsing.parse_rows` gives them. No energy comes with them. A node's token (``bound_node``) changes
    nothing of what another node said of whose job it is. Saying the same again changes nothing.
    """
    teller = str(bound_node) if bound_node else IMPORTED
    wanted = {row.job.run_uuid for row in rows if isinstance(row, PastRun)}
    found = {run.uuid: run for run in Run.objects.select_for_update().filter(lab=lab, uuid__in=wanted)}
    known = {uuid: _Row(run, _content(run)) for uuid, run in found.items()}
    answers = [_applied(lab, row, known, teller) if isinstance(row, PastRun) else ["refused", row] for row in rows]
    changed = [row.run for row in known.values() if row.before != _content(row.run)]
    for run in changed:
        run.pk = None  # the unique (lab, uuid) decides between insert and update
    Run.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["lab", "uuid"], update_fields=list(_WRITTEN), batch_size=500
    )
    if changed:
        enqueue(kind="attribution.lab", key=str(lab.pk), due_us=now + _CHARGE_AFTER_US)
    return answers


def _content(run: Run) -> tuple[object, ...]:
    return tuple(dict(value) if isinstance(value := getattr(run, name), dict) else value for name in _WRITTEN)


def _applied(lab: Lab, row: PastRun, known: dict[UUID, _Row], teller: str) -> Answer:
    """Put a row onto its run in memory; return its answer."""
    uuid, job = row.job.run_uuid, row.job
    kept = known.get(uuid)
    if kept is None:
        run = Run(lab=lab, uuid=uuid, started_us=row.started_us, teller=Teller.SLURM)
        kept = known[uuid] = _Row(run, None)
    run = kept.run
    told = {"user": row.os_user, "account": job.account, "partition": job.partition}
    if not may_rename(run.job_facts, teller):
        there = {"user": run.os_user, "account": run.account, "partition": run.partition}
        if name := contradiction(there, told):
            return ["refused", f"another node says otherwise of its {name}"]
    before = _content(run)
    run.name, run.scheduler, run.cluster, run.job_id = row.name, job.scheduler, job.cluster, job.job_id
    run.os_user, run.account = told["user"] or run.os_user, told["account"] or run.account
    run.partition = told["partition"] or run.partition
    run.started_us = min(run.started_us, row.started_us)  # queued again, it began earlier than Slurm still knows
    if row.state != RunState.RUNNING:  # that it ran is no news of a run that has ended
        run.state, run.exit_code = row.state, row.exit_code
        run.ended_us = None if row.ended_us is None else max(row.ended_us, run.started_us)
    run.job_facts = told_by(merged_facts(run.job_facts, job.facts), teller)
    if kept.before is None:
        return ["created"] if before[0] == "" else ["changed"]
    return ["unchanged"] if before == _content(run) else ["changed"]
