"""Actions of people on an artifact: pin, mark as candidate, promote, archive, describe.

Each action is recorded in the audit log and can be undone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import AuditEntry, Project, User
from apps.artifacts.choices import MODELS, ArtifactState, AuditAction, CopyState, Kind, LineageRole
from apps.artifacts.cleanup.plans import exclude_items
from apps.artifacts.models import Artifact, Copy, LineageEdge, Pin
from apps.core.errors import Conflict, Forbidden, InvalidInput
from apps.core.text import is_unstorable

MAX_TAGS = 64
_MAX_LENGTH = {"licence": 100, "note": 1000, "reason": 300, "tag": 100, "value": 300}
# The actions that put an artifact into a state and out of it.
_ENTER_ACTIONS = {
    ArtifactState.CANDIDATE: AuditAction.CANDIDATE,
    ArtifactState.PROMOTED: AuditAction.PROMOTED,
    ArtifactState.ARCHIVED: AuditAction.ARCHIVED,
}
_LEAVE_ACTIONS = {
    ArtifactState.CANDIDATE: AuditAction.CANDIDATE_REMOVED,
    ArtifactState.PROMOTED: AuditAction.DEMOTED,
    ArtifactState.ARCHIVED: AuditAction.UNARCHIVED,
}
_RELOAD_HINT = "Load the page again."
# States that block other states: message and hint.
_BLOCKED_STATES = {
    ArtifactState.SCHEDULED: (
        "This artifact is in an open cleanup plan.",
        "Object in the plan, or pin, hold or promote it",
    ),
    ArtifactState.TOMBSTONE: ("All copies of this artifact were deleted.", _RELOAD_HINT),
}
_CANDIDATE_CONFLICTS = {
    **_BLOCKED_STATES,
    ArtifactState.CANDIDATE: ("This artifact is already a candidate.", _RELOAD_HINT),
    ArtifactState.PROMOTED: ("This artifact is promoted.", "Remove the promotion first."),
    ArtifactState.ARCHIVED: ("This artifact is archived.", "Unarchive it first."),
}  # fmt: skip
_ARCHIVE_CONFLICTS = {
    **_BLOCKED_STATES,
    ArtifactState.ARCHIVED: ("This artifact is already archived.", _RELOAD_HINT),
}


@dataclass(frozen=True)
class Description:
    """A description of an artifact, as entered by a person."""

    kind: str
    licence: str
    note: str
    tags: Mapping[str, str]
    project: Project | None


@transaction.atomic
def pin(*, artifact: Artifact, reason: str, by: User, now: int) -> Pin:
    """Pin an artifact: cleanup plans exclude it while the pin is active.

    Raises InvalidInput without a reason, Conflict if it is pinned already or has no copies left.
    """
    reason = _check_text(reason.strip(), "reason")
    if not reason:
        raise InvalidInput(
            "Enter a reason.", field="reason", hint="For example “paper under review”."
        )
    locked = _lock_artifact(artifact)
    if locked.state == ArtifactState.TOMBSTONE:
        raise Conflict(
            "All copies of this artifact were deleted.", hint="Register a copy again first."
        )
    if locked.pins.filter(ended_us=None).exists():
        raise Conflict("This artifact is already pinned.", hint="Unpin it first.")
    exclude_items(
        lab=locked.lab, condition=Q(artifact=locked), reason=f"pinned: {reason}", by=by, now=now
    )
    new_pin = Pin.objects.create(artifact=locked, by=by, reason=reason, from_us=now)
    _record(locked, by, AuditAction.PINNED, {"name": locked.name, "reason": reason}, now)
    return new_pin


@transaction.atomic
def unpin(*, artifact: Artifact, by: User, is_manager: bool, now: int) -> Pin:
    """Remove a pin. Allowed for the person who set it and for managers. Raises Conflict without a
    pin, Forbidden.
    """
    locked = _lock_artifact(artifact)
    pin = locked.pins.select_for_update().filter(ended_us=None).first()
    if pin is None:
        raise Conflict("This artifact is not pinned.", hint=_RELOAD_HINT)
    if pin.by_id != by.pk and not is_manager:
        raise Forbidden(
            "Another person pinned this artifact.",
            hint="Contact that person, a PI or an admin of your lab.",
        )
    pin.ended_us, pin.ended_by = now, by
    pin.save(update_fields=["ended_us", "ended_by"])
    _record(locked, by, AuditAction.UNPINNED, {"name": locked.name, "reason": pin.reason}, now)
    return pin


@transaction.atomic
def mark_candidate(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Mark an artifact as the best of its run and, if the run is part of a sweep, of that sweep.

    Outputs of the sweep's other runs are then retained for a shorter period. The artifact is
    excluded from open plans. Raises Conflict, also for an artifact without a known producing run.
    """
    locked = _lock_artifact(artifact)
    _check_state(locked, _CANDIDATE_CONFLICTS)
    if locked.kind not in MODELS:
        raise Conflict(
            "Only checkpoints and models can be candidates.",
            hint="If it is one, correct its kind in the description.",
        )
    if not LineageEdge.objects.filter(artifact=locked, role=LineageRole.PRODUCED).exists():
        raise Conflict(
            "The run that produced this artifact is unknown.",
            hint="Register the artifact with its run first.",
        )
    exclude_items(lab=locked.lab, condition=Q(artifact=locked), reason="candidate", by=by, now=now)
    return _enter_state(locked, ArtifactState.CANDIDATE, AuditAction.CANDIDATE, by, now)


@transaction.atomic
def unmark_candidate(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Remove the candidate mark. Raises Conflict."""
    return _leave_state(
        artifact, ArtifactState.CANDIDATE, "This artifact is not a candidate.", by, now
    )


@transaction.atomic
def promote(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Promote an artifact that is cited or deployed: neither it nor its ancestors are in cleanup
    plans.

    Items of ancestors in existing plans are checked again before they are deleted. Raises Conflict.
    """
    locked = _lock_artifact(artifact)
    if locked.state in (ArtifactState.PROMOTED, ArtifactState.TOMBSTONE):
        is_deleted = locked.state == ArtifactState.TOMBSTONE
        message = (
            "All copies of this artifact were deleted."
            if is_deleted
            else "This artifact is already promoted."
        )
        raise Conflict(message, hint=_RELOAD_HINT)
    exclude_items(lab=locked.lab, condition=Q(artifact=locked), reason="promoted", by=by, now=now)
    locked.refresh_from_db(fields=["state"])  # excluded from a plan it has its previous state again
    return _enter_state(locked, ArtifactState.PROMOTED, AuditAction.PROMOTED, by, now)


@transaction.atomic
def demote(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Undo a promotion. Raises Conflict."""
    return _leave_state(artifact, ArtifactState.PROMOTED, "This artifact is not promoted.", by, now)


@transaction.atomic
def archive(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Archive an artifact that is retained but no longer in use.

    Plans propose it only if a retention period is set for archived artifacts. It is excluded from
    open plans. Its ancestors can be in plans, even if it was promoted before. Raises Conflict.
    """
    locked = _lock_artifact(artifact)
    _check_state(locked, _ARCHIVE_CONFLICTS)
    exclude_items(lab=locked.lab, condition=Q(artifact=locked), reason="archived", by=by, now=now)
    return _enter_state(locked, ArtifactState.ARCHIVED, AuditAction.ARCHIVED, by, now)


@transaction.atomic
def unarchive(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Undo archiving. Raises Conflict."""
    return _leave_state(artifact, ArtifactState.ARCHIVED, "This artifact is not archived.", by, now)


@transaction.atomic
def describe(
    *, artifact: Artifact, description: Description, by: User, now: int
) -> AuditEntry | None:
    """Change the description of an artifact; return the audit entry for undoing, None without a
    change.

    Raises InvalidInput for invalid values.
    """
    new_values = _validated(description)
    locked = _lock_artifact(artifact)
    before = _description(locked)
    changes = {
        name: {"from": before[name], "to": value}
        for name, value in new_values.items()
        if before[name] != value
    }
    if not changes:
        return None
    _write(locked, new_values)
    return _record(locked, by, AuditAction.DESCRIBED, changes, now)


@transaction.atomic
def restore_description(*, artifact: Artifact, entry: AuditEntry, by: User, now: int) -> None:
    """Undo the description of audit entry ``entry``. Raises Conflict if it was changed since."""
    locked = _lock_artifact(artifact)
    before = _description(locked)
    if (
        entry.lab_id != locked.lab_id
        or entry.action != AuditAction.DESCRIBED
        or entry.subject != locked.digest
    ):
        raise Conflict("This entry belongs to another artifact.", hint=_RELOAD_HINT)
    changes: dict[str, dict[str, Any]] = audit.with_names(entry).details
    if any(before[name] != change["to"] for name, change in changes.items()):
        raise Conflict(
            "The description was changed again since.",
            hint="Edit it. The audit log contains the earlier values.",
        )
    _write(locked, {**before, **{name: change["from"] for name, change in changes.items()}})
    back = {name: {"from": change["to"], "to": change["from"]} for name, change in changes.items()}
    _record(locked, by, AuditAction.RESTORED, back, now)


def _lock_artifact(artifact: Artifact) -> Artifact:
    """Lock the rows of the lab and the artifact; return the current artifact."""
    audit.hold(artifact.lab)
    return (
        Artifact.objects.select_for_update(of=("self",))
        .select_related("lab", "project")
        .get(pk=artifact.pk)
    )


def _record(
    artifact: Artifact, by: User, act: AuditAction, details: dict[str, Any], now: int
) -> AuditEntry:
    return audit.record(
        lab=artifact.lab, by=by, action=act.value, subject=artifact.digest, details=details, now=now
    )


def _check_state(artifact: Artifact, conflicts: Mapping[ArtifactState, tuple[str, str]]) -> None:
    """Raise Conflict if the state of an artifact is one of ``conflicts``."""
    if artifact.state in conflicts:
        message, hint = conflicts[ArtifactState(artifact.state)]
        raise Conflict(message, hint=hint)


def _leave_state(
    artifact: Artifact, state: ArtifactState, conflict: str, by: User, now: int
) -> Artifact:
    """Take an artifact out of a state and return it to the previous one.

    It becomes a candidate, promoted or archived again if it was before. Otherwise it is stored, or
    registered without any copy. Raises Conflict if it is in another state.
    """
    locked = _lock_artifact(artifact)
    if locked.state != state:
        raise Conflict(conflict, hint=_RELOAD_HINT)
    before = _previous_state(locked)
    if before not in _ENTER_ACTIONS:
        was_read = Copy.objects.filter(artifact=locked).exclude(state=CopyState.DELETED).exists()
        before = ArtifactState.STORED if was_read else ArtifactState.REGISTERED
    return _enter_state(locked, ArtifactState(before), _LEAVE_ACTIONS[state], by, now)


def _previous_state(artifact: Artifact) -> str:
    """Return the state before the current one from the audit log; '' if the log has none."""
    entries = AuditEntry.objects.filter(lab=artifact.lab, subject=artifact.digest).order_by(
        "-sequence"
    )
    undone = 0
    for entry in entries.filter(action__in=[*_ENTER_ACTIONS.values(), *_LEAVE_ACTIONS.values()]):
        if entry.action in _LEAVE_ACTIONS.values():
            undone += 1
        elif undone:
            undone -= 1
        else:
            return str(entry.details["state"]["from"])
    return ""


def _enter_state(
    artifact: Artifact, state: ArtifactState, act: AuditAction, by: User, now: int
) -> Artifact:
    details = {"name": artifact.name, "state": {"from": str(artifact.state), "to": state.value}}
    artifact.state = state
    artifact.save(update_fields=["state"])
    _record(artifact, by, act, details, now)
    return artifact


def _description(artifact: Artifact) -> dict[str, Any]:
    project = artifact.project.slug if artifact.project else None
    return {
        "kind": str(artifact.kind),
        "licence": artifact.licence,
        "note": artifact.note,
        "tags": artifact.tags,
        "project": project,
    }


def _write(artifact: Artifact, values: Mapping[str, Any]) -> None:
    slug = values["project"]
    project = (
        Project.objects.filter(lab_id=artifact.lab_id, slug=slug).first()
        if slug is not None
        else None
    )
    if slug is not None and project is None:
        raise InvalidInput(
            "There is no such project in this lab.",
            field="project",
            hint="Choose one of the list, or none.",
        )
    artifact.kind, artifact.licence, artifact.note = (
        values["kind"],
        values["licence"],
        values["note"],
    )
    artifact.tags, artifact.project = values["tags"], project
    artifact.save(update_fields=["kind", "licence", "note", "tags", "project"])


def _validated(description: Description) -> dict[str, Any]:
    if description.kind not in Kind.values:
        hint = f"Use one of {', '.join(Kind.values)}."
        raise InvalidInput(f"Unknown kind {description.kind[:40]!r}.", field="kind", hint=hint)
    if len(description.tags) > MAX_TAGS:
        raise InvalidInput(
            f"Too many tags: {len(description.tags)}.",
            field="tags",
            hint=f"Enter at most {MAX_TAGS}.",
        )
    return {
        "kind": description.kind,
        "licence": _check_text(description.licence.strip(), "licence"),
        "note": _check_text(description.note.strip(), "note"),
        "tags": {
            _check_text(name, "tag", "tags"): _check_text(value, "value", "tags")
            for name, value in description.tags.items()
        },
        "project": description.project.slug if description.project else None,
    }


def _check_text(text: str, name: str, field: str = "") -> str:
    if is_unstorable(text):
        raise InvalidInput(
            f"Invalid character in {name}.", field=field or name, hint="Remove it and try again."
        )
    if len(text) > _MAX_LENGTH[name]:
        hint = f"Enter at most {_MAX_LENGTH[name]} characters."
        raise InvalidInput(f"The {name} is too long.", field=field or name, hint=hint)
    return text
