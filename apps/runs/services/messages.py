"""Messages about runs: apply one, and keep a refused message of a node until a manager decides."""

import hashlib
import json
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from rest_framework.exceptions import ValidationError

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.core.errors import InvalidInput, LabCarbonError, NotFound
from apps.core.intervals import datetime_to_us
from apps.core.text import replace_unstorable
from apps.fleet.models import Node
from apps.runs.bulk_parsing import parse_job, parse_job_end
from apps.runs.choices import RunState, Source
from apps.runs.models import RefusedMessage, Run
from apps.runs.serializers import RunBody, RunChange
from apps.runs.services.runs import RunFacts, change_run, put_run

PUT, PATCH = "PUT", "PATCH"
PENDING_DECISION = "pending_decision"  # error code: refused, but kept for a decision
MAX_MESSAGES_PER_NODE, MAX_MESSAGE_CHARS = 1000, 64 * 1024


def apply_put(
    *,
    lab: Lab,
    uuid: UUID,
    body: Any,
    by: User | None,
    bound_node: UUID | None,
    now: int,
    reported_by: Source,
) -> tuple[Run, str]:
    """Create or update a run from the body of a PUT; return it and a warning, or ''.

    ``reported_by``: the first source, unless the run is the job of a scheduler. Raises
    ValidationError for a wrong body, and as :func:`put_run`.
    """
    parsed = RunBody(data=body)
    parsed.is_valid(raise_exception=True)
    data = parsed.validated_data
    facts = RunFacts(
        name=data["name"],
        started_us=datetime_to_us(data["started_at"]),
        project=data.get("project"),
        command=data.get("command", []),
        params=data.get("params", {}),
        os_user=data.get("user", ""),
        host=data.get("host", ""),
        node_uuid=data.get("node"),
        job=parse_job(data["job"]) if data.get("job") else None,
        estimate=data.get("estimate"),
        known=parsed.to_update(),
    )
    is_job = facts.job is not None and facts.job.run_uuid == uuid
    return put_run(
        lab=lab,
        uuid=uuid,
        facts=facts,
        by=by,
        bound_node=bound_node,
        now=now,
        reported_by=Source.SLURM if is_job else reported_by,
    )


def apply_patch(*, lab: Lab, uuid: UUID, body: Any, bound_node: UUID | None, now: int) -> Run:
    """Change a run by the body of a PATCH. Raises ValidationError for a wrong body, and as
    :func:`change_run`.
    """
    parsed = RunChange(data=body)
    parsed.is_valid(raise_exception=True)
    data = parsed.validated_data
    ended_at = data.get("ended_at")
    return change_run(
        lab=lab,
        uuid=uuid,
        state=RunState(data["state"]) if data.get("state") else None,
        ended_us=datetime_to_us(ended_at) if ended_at else None,
        exit_code=data.get("exit_code"),
        reported_energy_mj=data.get("energy_mj"),
        bound_node=bound_node,
        job_facts=parse_job_end(data["job"]) if data.get("job") else None,
        update=parsed.to_update(),
        now=now,
    )


@transaction.atomic
def keep_refused(
    *, node: Node, run_uuid: UUID, verb: str, body: Any, error: LabCarbonError, now: int
) -> LabCarbonError:
    """Store a refused message of a node; return the error of the response, whose code says so.

    A message that is too long, that a database cannot store or that exceeds the number per node
    stays with the collector: its error is returned unchanged.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    is_storable = isinstance(body, dict) and replace_unstorable(body) == body
    if not is_storable or len(text) > MAX_MESSAGE_CHARS:
        return error
    locked = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    digest = hashlib.sha256(text.encode()).hexdigest()
    identity = {"node": locked, "run_uuid": run_uuid, "verb": verb, "digest": digest}
    if not RefusedMessage.objects.filter(**identity).exists():
        if locked.refused_messages.count() >= MAX_MESSAGES_PER_NODE:
            return error
        RefusedMessage.objects.create(
            **identity, body=body, reason=error.message[:500], received_us=now
        )
    address = f"{settings.SITE_URL}{reverse('node', args=[node.uuid])}#refused-messages"
    error.code = PENDING_DECISION
    error.hint = f"The message is stored until a manager decides at {address}"
    return error


def _messages(node: Node, run_uuid: UUID) -> list[RefusedMessage]:
    """Return the refused messages of a node about a run in the order of their arrival."""
    rows = list(node.refused_messages.select_for_update().filter(run_uuid=run_uuid).order_by("pk"))
    if not rows:
        raise NotFound(
            "There is no refused message about this run.", hint="Reload the page of the node."
        )
    return rows


@transaction.atomic
def accept_messages(*, node: Node, run_uuid: UUID, by: User, now: int) -> Run:
    """Apply the refused messages of a node about a run, in order, with the right of a manager.

    All are applied or none. Raises InvalidInput, Conflict or NotFound of the first that cannot be
    applied.
    """
    audit.hold(node.lab)
    rows = _messages(node, run_uuid)
    for row in rows:
        try:
            if row.verb == PUT:
                apply_put(
                    lab=node.lab,
                    uuid=run_uuid,
                    body={**row.body, "node": row.body.get("node") or str(node.uuid)},
                    by=None,
                    bound_node=None,
                    now=now,
                    reported_by=Source.COLLECTOR,
                )
            else:
                apply_patch(lab=node.lab, uuid=run_uuid, body=row.body, bound_node=None, now=now)
        except ValidationError as error:
            raise InvalidInput(
                f"The message {row.verb} cannot be applied: {error.detail}",
                hint="Discard it, or report the run again.",
            ) from error
    _delete(node, rows, Act.RUN_MESSAGES_ACCEPTED, by, now)
    return Run.objects.get(lab=node.lab, uuid=run_uuid)


@transaction.atomic
def discard_messages(*, node: Node, run_uuid: UUID, by: User, now: int) -> None:
    """Delete the refused messages of a node about a run."""
    audit.hold(node.lab)
    _delete(node, _messages(node, run_uuid), Act.RUN_MESSAGES_DISCARDED, by, now)


def _delete(node: Node, rows: list[RefusedMessage], action: Act, by: User, now: int) -> None:
    audit.record(
        lab=node.lab,
        by=by,
        action=action,
        subject=node.hostname,
        details={
            "node": str(node.uuid),
            "run": str(rows[0].run_uuid),
            "messages": [{"verb": row.verb, "sha256": row.digest} for row in rows],
            "reason": rows[0].reason,
        },
        now=now,
    )
    RefusedMessage.objects.filter(pk__in=[row.pk for row in rows]).delete()
