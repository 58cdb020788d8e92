"""Placing and lifting of holds on an artifact, a project, or the inputs and outputs of a run."""

from django.db import transaction
from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import Project, User
from apps.artifacts.choices import ArtifactState, AuditAction
from apps.artifacts.cleanup.plans import exclude_items
from apps.artifacts.models import Artifact, Hold
from apps.core.errors import Conflict, Forbidden, InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import END_HOUR, hour_of
from apps.runs.models import Run

MAX_REASON_LENGTH = 300
Holdable = Artifact | Project | Run


@transaction.atomic
def place_hold(
    *, on: Holdable, reason: str, until_hour: int | None, by: User, is_manager: bool, now: int
) -> Hold:
    """Place a hold from this hour until ``until_hour`` (None: until lifted) and exclude its
    artifacts from open plans.

    Members can hold an artifact or a run, managers also a project. Raises InvalidInput without a
    reason or for an end in the past, Forbidden, Conflict for an artifact without copies left.
    """
    reason = _check_reason(reason)
    hour = hour_of(now)
    if until_hour is not None and not hour < until_hour < END_HOUR:
        raise InvalidInput(
            "The end of a hold must be in the future.",
            field="until_day",
            hint="Choose a later day, or leave it empty.",
        )
    audit.hold(on.lab)
    if isinstance(on, Project) and not is_manager:
        raise Forbidden(
            "Only PIs and admins can hold a project.", hint="Hold an artifact or a run instead."
        )
    if (
        isinstance(on, Artifact)
        and Artifact.objects.filter(pk=on.pk, state=ArtifactState.TOMBSTONE).exists()
    ):
        raise Conflict(
            "All copies of this artifact were deleted.", hint="Register a copy again first."
        )
    name = (
        "artifact" if isinstance(on, Artifact) else "project" if isinstance(on, Project) else "run"
    )
    hold = Hold.objects.create(
        lab=on.lab,
        reason=reason,
        from_hour=hour,
        until_hour=until_hour,
        by=by,
        placed_us=now,
        **{name: on},
    )
    excluded = exclude_items(
        lab=on.lab, condition=_items_condition(on), reason=hold.description, by=by, now=now
    )
    _record(
        hold,
        AuditAction.HOLD_PLACED,
        by,
        {"on": name, "until_hour": until_hour, "reason": reason, "lines": excluded},
        now,
    )
    return hold


@transaction.atomic
def lift_hold(*, hold: Hold, by: User, is_manager: bool, now: int) -> Hold:
    """End a hold early. Allowed for the person who placed it and for managers.

    Items excluded from plans stay excluded. Raises Conflict if it is not active, Forbidden.
    """
    audit.hold(hold.lab)
    locked = (
        Hold.objects.select_for_update(of=("self",))
        .select_related("lab", "artifact", "project", "run")
        .get(pk=hold.pk)
    )
    if locked.lifted_us is not None or (
        locked.until_hour is not None and locked.until_hour <= hour_of(now)
    ):
        raise Conflict("This hold is not active any more.", hint="Load the page again.")
    if locked.by_id != by.pk and not is_manager:
        raise Forbidden(
            "Another person placed this hold.",
            hint="Contact that person, a PI or an admin of your lab.",
        )
    locked.lifted_us, locked.lifted_by = now, by
    locked.save(update_fields=["lifted_us", "lifted_by"])
    _record(
        locked,
        AuditAction.HOLD_LIFTED,
        by,
        {"reason": locked.reason, "until_hour": locked.until_hour},
        now,
    )
    return locked


def _check_reason(text: str) -> str:
    reason = text.strip()
    if not reason:
        raise InvalidInput(
            "Enter a reason.", field="reason", hint="For example “paper under review”."
        )
    if is_unstorable(reason):
        raise InvalidInput(
            "Invalid character in reason.", field="reason", hint="Remove it and try again."
        )
    if len(reason) > MAX_REASON_LENGTH:
        hint = f"Enter at most {MAX_REASON_LENGTH} characters."
        raise InvalidInput("The reason is too long.", field="reason", hint=hint)
    return reason


def _items_condition(on: Holdable) -> Q:
    """Return the condition for cleanup items that a subject covers."""
    if isinstance(on, Artifact):
        return Q(artifact=on)
    return Q(artifact__project=on) if isinstance(on, Project) else Q(artifact__run_edges__run=on)


def _record(hold: Hold, act: AuditAction, by: User, details: dict[str, object], now: int) -> None:
    if hold.artifact:
        subject = hold.artifact.digest
    else:
        subject = (
            f"project {hold.project.slug}"
            if hold.project
            else f"run {hold.run.uuid if hold.run else ''}"
        )
    audit.record(
        lab=hold.lab,
        by=by,
        action=act,
        subject=subject,
        details={"hold": hold.pk, **details},
        now=now,
    )
