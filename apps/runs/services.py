"""Writes of runs: create or renew by the client's UUID, change of state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Lab, User
from apps.accounts.selectors import project_by_slug
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from apps.core.jobs import request_job
from apps.fleet.models import Node
from apps.runs.choices import RunState, Way
from apps.runs.models import Run


@dataclass(frozen=True)
class RunFacts:
    """What a client says about a run when it starts."""

    name: str
    started_us: int
    project: str | None = None
    command: list[str] = field(default_factory=list)
    params: Mapping[str, Any] = field(default_factory=dict)
    os_user: str = ""
    host: str = ""
    node_uuid: UUID | None = None


@transaction.atomic
def put_run(*, lab: Lab, uuid: UUID, facts: RunFacts, by: User | None, bound_node: UUID | None) -> tuple[Run, str]:
    """Create or renew a run; return it and a warning ('' if none). Saying the same again changes nothing.

    ``bound_node`` is the node of a node's token, which may write only runs of its own node. An unknown project is no
    reason to lose the run: it goes on unattributed, and the warning says so.
    """
    if bound_node is not None and facts.node_uuid not in (None, bound_node):
        raise Forbidden("This token writes only runs of its own node.", hint="Leave 'node' out, or use a person's token.")
    node_uuid = bound_node or facts.node_uuid
    node = Node.objects.filter(lab=lab, uuid=node_uuid).first() if node_uuid else None
    project = project_by_slug(lab, facts.project) if facts.project else None
    warning = ""
    if facts.project and project is None:
        known = list(lab.projects.order_by("slug").values_list("slug", flat=True)[:10])
        warning = (
            f"There is no project {facts.project!r} (known: {', '.join(known)}). The run goes on, charged to no project. "
            f"Next time --project {known[0] if known else 'NAME'}, or make it first at {settings.SITE_URL}/projects/"
        )
    run = Run.objects.select_for_update().filter(lab=lab, uuid=uuid).first()
    if run is not None and bound_node is not None and run.node is not None and run.node.uuid != bound_node:
        raise Conflict("This run belongs to another node.", hint="Make a new UUID for a new run.")
    before = (run.project_id, run.os_user, run.account, run.user_id) if run else None
    if run is None:
        run = Run(lab=lab, uuid=uuid)
    run.project = project
    if project is not None:  # nothing beats what the run itself names
        run.charged_project, run.charge_way = project, Way.EXPLICIT
    run.project_asked = facts.project or ""
    run.user = by or run.user
    run.node = node or run.node
    run.name = facts.name
    run.command = list(facts.command)
    run.params = dict(facts.params)
    run.os_user = facts.os_user
    run.host = facts.host
    run.started_us = facts.started_us
    if run.ended_us is not None and run.ended_us < run.started_us:
        raise InvalidInput("The run would end before it starts.", field="started_at")
    run.save()
    if before != (run.project_id, run.os_user, run.account, run.user_id):
        request_job(kind="attribution.run", key=f"{lab.pk}:{uuid}")
    return run, warning


@transaction.atomic
def change_run(
    *,
    lab: Lab,
    uuid: UUID,
    state: RunState,
    ended_us: int | None,
    exit_code: int | None,
    reported_energy_mj: int | None,
    bound_node: UUID | None,
) -> Run:
    """Record how a run ended. The reported energy is kept beside the ledger's, and never summed."""
    run = Run.objects.select_for_update().filter(lab=lab, uuid=uuid).first()
    if run is None:
        raise NotFound("There is no such run in this lab.", hint="Send PUT with the run's facts first.")
    if bound_node is not None and (run.node is None or run.node.uuid != bound_node):
        raise NotFound("There is no such run in this lab.", hint="Send PUT with the run's facts first.")
    if ended_us is not None and ended_us < run.started_us:
        raise InvalidInput("The run would end before it starts.", field="ended_at", hint="Check the clock of the machine.")
    run.state = state
    run.ended_us = ended_us if ended_us is not None else run.ended_us
    run.exit_code = exit_code if exit_code is not None else run.exit_code
    run.reported_energy_mj = reported_energy_mj if reported_energy_mj is not None else run.reported_energy_mj
    run.save()
    return run
