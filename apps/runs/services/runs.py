"""Writes of runs: create or update by the client's UUID, change the state."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.urls import reverse

from apps.accounts.models import Lab, User
from apps.accounts.selectors import project_by_slug
from apps.core.erasure.names import Reading, erased_names
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from apps.core.jobs import enqueue, enqueue_batch
from apps.core.sql import fetch_rows, for_update, uuid_param
from apps.fleet.models import Node
from apps.ingest.window_rules import job_run
from apps.runs.choices import SOURCES_BEFORE_NODES, AttributionSource, RunState
from apps.runs.models import Run
from apps.runs.scheduler_jobs import (
    IMPORTED,
    JobIn,
    can_change_owner,
    can_join,
    first_contradiction,
    merge_job_facts,
    record_reporter,
)
from apps.runs.services.ignored_params import recompute_charged_runs
from apps.runs.services.updates import (
    External,
    RunUpdate,
    apply_update,
    link_waiting_children,
    run_by_external_id,
    save_update,
    schedule_lost_check,
    touch,
)
from apps.runs.signals import estimate_requested


@dataclass(frozen=True)
class RunFacts:
    """Facts that a client reports when a run starts."""

    name: str
    started_us: int
    project: str | None = None
    command: list[str] = field(default_factory=list)
    params: Mapping[str, Any] = field(default_factory=dict)
    os_user: str = ""
    host: str = ""
    node_uuid: UUID | None = None
    job: JobIn | None = None
    estimate: UUID | None = None
    known: RunUpdate = field(default_factory=RunUpdate)


def put_run(
    *,
    lab: Lab,
    uuid: UUID,
    facts: RunFacts,
    by: User | None,
    bound_node: UUID | None,
    now: int | None = None,
    reported_by: str = "",
) -> tuple[Run, str]:
    """Create or update a run; return it and a warning, or ''. Idempotent.

    ``now`` None: a past run, not a report of a running one. ``reported_by``: the first source.
    If another run has the external id, that run is returned with a warning, and no run is created.

    ``bound_node`` is the node of a node's token, which may write only runs of its own node.
    A run of an unknown project is stored unattributed, with a warning. An estimate that cannot be
    attached gives a warning as well.

    The run of a scheduler's job (its UUID is derived from the job) is written by each node of the
    job. The first report sets the owner.
    """
    if lab.has_erased_names:
        names = erased_names(lab.pk)
        neutral = {
            name: names.replace(getattr(facts, name), keys=True)
            for name in ("name", "command", "params", "host")
        }
        neutral["os_user"] = names.text(facts.os_user, Reading.NAME)
        facts = replace(facts, **neutral)
    arguments: dict[str, Any] = {
        "lab": lab,
        "uuid": uuid,
        "facts": facts,
        "by": by,
        "bound_node": bound_node,
        "now": now,
        "reported_by": reported_by,
    }
    try:
        return _put(**arguments)
    except IntegrityError:  # a concurrent request created the same run
        return _put(**arguments)


@transaction.atomic
@enqueue_batch()
def _put(
    *,
    lab: Lab,
    uuid: UUID,
    facts: RunFacts,
    by: User | None,
    bound_node: UUID | None,
    now: int | None,
    reported_by: str,
) -> tuple[Run, str]:
    if bound_node is not None and facts.node_uuid not in (None, bound_node):
        raise Forbidden(
            "This token may only write runs of its own node.",
            hint="Omit 'node', or use a personal token.",
        )
    node_uuid = bound_node or facts.node_uuid
    node = Node.objects.filter(lab=lab, uuid=node_uuid).first() if node_uuid else None
    project = project_by_slug(lab, facts.project) if facts.project else None
    warning = ""
    if facts.project and project is None:
        known = list(lab.projects.order_by("slug").values_list("slug", flat=True)[:10])
        warning = (
            f"There is no project {facts.project!r} (known: {', '.join(known)}). The run goes on, "
            "charged to no project. "
            f"Next time --project {known[0] if known else 'NAME'}, or create it first at "
            f"{settings.SITE_URL}{reverse('projects')}"
        )
    if facts.known.external is not None and (
        first := _find_by_external_id(lab, uuid, facts.known.external, bound_node, now)
    ):
        return first, (
            f"{facts.known.external.tool} {facts.known.external.value!r} is already registered as "
            f"run {first.uuid}. "
            "Nothing was changed. Use that UUID."
        )
    is_job = facts.job is not None and facts.job.run_uuid == uuid
    run, is_new = _locked(lab, uuid, facts)
    run.lab = lab  # already read
    is_other_node = bound_node is not None and run.node is not None and run.node.uuid != bound_node
    is_unbound = (
        bound_node is not None
        and run.node is None
        and not is_new
        and run.reported_by not in SOURCES_BEFORE_NODES
    )
    if (is_other_node or is_unbound) and not is_job:
        raise Conflict(
            "This run belongs to no node." if is_unbound else "This run belongs to another node.",
            hint="Use a new UUID for a new run.",
        )
    before = None if is_new else (run.project_id, run.os_user, run.account, run.user_id)
    if facts.job is not None:
        _apply_job(run, facts.job, is_job=is_job, os_user=facts.os_user, bound_node=bound_node)
    touch(run, now)
    if is_other_node:
        run.save()
        return run, ""
    run.project = project
    if project is not None:  # the project of the run has the highest priority
        run.charged_project, run.attributed_by = project, AttributionSource.EXPLICIT
    run.requested_project = facts.project or ""
    run.user = run.user if is_job else by or run.user  # the reporter of a job need not be its owner
    run.node = node or run.node
    run.name = facts.name
    run.command = list(facts.command)
    run.params = dict(facts.params)
    run.os_user = facts.os_user
    run.host = facts.host
    # A requeued job started before the start time that its scheduler reports.
    run.started_us = min(run.started_us, facts.started_us) if is_job else facts.started_us
    if run.ended_us is not None and run.ended_us < run.started_us:
        raise InvalidInput("The run would end before it starts.", field="started_at")
    run.reported_by = run.reported_by or reported_by
    run.requested_estimate = facts.estimate or run.requested_estimate
    apply_update(run, facts.known)
    run.save()
    warning = " ".join(filter(None, (warning, *_request_estimate(run, facts))))
    save_update(run, facts.known, params=run.params, is_new=is_new)
    if is_new:
        link_waiting_children(run, now)
    else:
        schedule_lost_check(run, now)
        if before is not None and before[0] != run.project_id:
            recompute_charged_runs([run])
    if before != (run.project_id, run.os_user, run.account, run.user_id):
        enqueue(kind="attribution.run", key=f"{lab.pk}:{uuid}")
    return run, warning


def _request_estimate(run: Run, facts: RunFacts) -> list[str]:
    """Have the estimate attached that a registration names, before the fingerprint of the run
    attaches another one. Return the warnings.
    """
    if facts.estimate is None:
        return []
    return [str(text) for _, text in estimate_requested.send(sender=Run, run=run)]


def _find_by_external_id(
    lab: Lab, uuid: UUID, external: External, bound_node: UUID | None, now: int | None
) -> Run | None:
    """Return another run with this external id, unless the reported run exists as well."""
    first = run_by_external_id(lab, external)
    if first is None or first.uuid == uuid or Run.objects.filter(lab=lab, uuid=uuid).exists():
        return None
    if bound_node is not None and (first.node is None or first.node.uuid != bound_node):
        raise Conflict(
            "This run belongs to another node.", field="external", hint="Use a person's token."
        )
    touch(first, now)
    first.save()
    return first


def _locked(lab: Lab, uuid: UUID, facts: RunFacts) -> tuple[Run, bool]:
    """Return the locked row of a run, or an unsaved new one; and whether it is new."""
    rows = list(
        fetch_rows(
            f"SELECT id FROM runs_run WHERE lab_id = %s AND uuid = %s{for_update()}",
            [lab.pk, uuid_param(uuid)],
        )
    )
    if not rows:  # most common case: saves the second query
        return Run(lab=lab, uuid=uuid, name=facts.name, started_us=facts.started_us), True
    return Run.objects.select_related("node").get(pk=rows[0]["id"]), False


def _require_place(run: Run, bound_node: UUID) -> None:
    """Raise Conflict unless a node can be one of those on which a scheduler's job runs."""
    is_its_own = run.node is not None and run.node.uuid == bound_node
    if not is_its_own and not can_join(run.job_facts, str(bound_node)):
        nodes = run.job_facts.get("nodes") or "one node"
        raise Conflict(
            f"All nodes of this job have reported it ({nodes}), and this node is not one of them.",
            hint="A PI or an admin can accept the message on the page of this node.",
        )


def _apply_job(
    run: Run, job: JobIn, *, is_job: bool, os_user: str, bound_node: UUID | None
) -> None:
    """Copy the facts of a scheduler's job to a run.

    Raises Conflict if another node reported different facts, or if all nodes of the job are known.
    """
    if is_job and bound_node is not None:
        _require_place(run, bound_node)
    reporter = str(bound_node) if bound_node else IMPORTED
    if is_job and not can_change_owner(run.job_facts, reporter):
        stored_facts = {"user": run.os_user, "account": run.account, "partition": run.partition}
        reported_facts = {"user": os_user, "account": job.account, "partition": job.partition}
        if name := first_contradiction(stored_facts, reported_facts):
            raise Conflict(
                f"Another node says otherwise of this job's {name}.",
                field=name,
                hint=(
                    "If the first word was wrong, import the job with a person's token: "
                    "labcarbon-collect import-sacct"
                ),
            )
    run.scheduler, run.cluster, run.job_id = job.scheduler, job.cluster, job.job_id
    run.account, run.partition = job.account or run.account, job.partition or run.partition
    facts = merge_job_facts(run.job_facts, job.facts)
    run.job_facts = record_reporter(facts, reporter) if is_job else facts


def can_report(run: Run, bound_node: UUID) -> bool:
    """Return whether a node's token may report the end of a run.

    It may for its own run, and for a job that it reported before.
    """
    return (run.node is not None and run.node.uuid == bound_node) or str(
        bound_node
    ) in run.job_facts.get("told_by", [])


@transaction.atomic
def change_run(
    *,
    lab: Lab,
    uuid: UUID,
    state: RunState | None,
    ended_us: int | None,
    exit_code: int | None,
    reported_energy_mj: int | None,
    bound_node: UUID | None,
    job_facts: Mapping[str, Any] | None = None,
    update: RunUpdate | None = None,
    now: int | None = None,
) -> Run:
    """Record the end of a run (``state``), or later facts. ``now`` as in :func:`put_run`.

    The reported energy is stored separately from the ledger. An ended run never becomes running
    again, except for a scheduler's job, which may be requeued.
    """
    run = Run.objects.select_for_update().filter(lab=lab, uuid=uuid).first()
    if run is None:
        raise NotFound(
            "There is no such run in this lab.", hint="Send PUT with the run's facts first."
        )
    if bound_node is not None and not can_report(run, bound_node):
        raise NotFound(
            "There is no such run in this lab.", hint="Send PUT with the run's facts first."
        )
    is_job = bool(run.scheduler) and run.uuid == job_run(f"{run.cluster}/{run.job_id}")
    if is_job and ended_us is not None:  # schedulers report whole seconds
        ended_us = max(ended_us, run.started_us)
    if ended_us is not None and ended_us < run.started_us:
        raise InvalidInput(
            "The run would end before it starts.",
            field="ended_at",
            hint="Check the clock of the machine.",
        )
    if is_job and state == RunState.RUNNING:  # requeued: it runs again
        run.ended_us = run.exit_code = None
    if run.scheduler and job_facts:
        run.job_facts = merge_job_facts(run.job_facts, job_facts)
    touch(run, now)
    if state is not None and (state != RunState.RUNNING or is_job):
        run.state = state
    run.ended_us = ended_us if ended_us is not None else run.ended_us
    run.exit_code = exit_code if exit_code is not None else run.exit_code
    run.reported_energy_mj = (
        reported_energy_mj if reported_energy_mj is not None else run.reported_energy_mj
    )
    if update is not None:
        apply_update(run, update)
    run.save()
    if update is not None:
        save_update(run, update)
    schedule_lost_check(run, now)
    return run
