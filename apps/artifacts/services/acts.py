"""What people do with an artifact: pin it, promote it, say what it is. Each act is in the audit log and can be undone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import AuditEntry, Project, User
from apps.artifacts.choices import Act, ArtifactState, CopyState, Kind
from apps.artifacts.models import Artifact, Copy, Pin
from apps.artifacts.services.sparing import spare_lines
from apps.core.errors import Conflict, Forbidden, InvalidInput
from apps.core.text import unstorable

MOST_TAGS = 64
_LONGEST = {"licence": 100, "note": 1000, "reason": 300, "tag": 100, "value": 300}


@dataclass(frozen=True)
class Description:
    """What people say of an artifact."""

    kind: str
    licence: str
    note: str
    tags: Mapping[str, str]
    project: Project | None


@transaction.atomic
def pin(*, artifact: Artifact, reason: str, by: User, now: int) -> Pin:
    """Pin an artifact: no plan takes it while the pin holds. Raises InvalidInput without a reason, Conflict where it is
    pinned already or its bytes are gone."""
    reason = _checked(reason.strip(), "reason")
    if not reason:
        raise InvalidInput("Why should it stay?", field="reason", hint="Say it in a few words: others will ask.")
    held = _hold(artifact)
    if held.state == ArtifactState.TOMBSTONE:
        raise Conflict("Its bytes are gone: there is nothing to keep.", hint="Tell of it anew where it is still copied.")
    if held.pins.filter(ended_us=None).exists():
        raise Conflict("It is pinned already.", hint="Take that pin away first.")
    spare_lines(lab=held.lab, which=Q(artifact=held), reason=f"pinned: {reason}", by=by, now=now)
    made = Pin.objects.create(artifact=held, by=by, reason=reason, from_us=now)
    _record(held, by, Act.PINNED, {"name": held.name, "reason": reason}, now)
    return made


@transaction.atomic
def unpin(*, artifact: Artifact, by: User, keeper: bool, now: int) -> Pin:
    """Take a pin away: who set it may, and PIs and admins (``keeper``). Raises Conflict where there is none, Forbidden."""
    held = _hold(artifact)
    there = held.pins.select_for_update().filter(ended_us=None).first()
    if there is None:
        raise Conflict("It is not pinned.", hint="Load the page again.")
    if there.by_id != by.pk and not keeper:
        raise Forbidden("Somebody else pinned it.", hint="Ask them, or a PI or an admin of your lab.")
    there.ended_us, there.ended_by = now, by
    there.save(update_fields=["ended_us", "ended_by"])
    _record(held, by, Act.UNPINNED, {"name": held.name, "reason": there.reason}, now)
    return there


@transaction.atomic
def promote(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Say that an artifact is cited or deployed: neither it nor what it came of is ever in a plan. One that is in a plan
    already stays: what may go is asked again before it goes. Raises Conflict."""
    held = _hold(artifact)
    if held.state in (ArtifactState.PROMOTED, ArtifactState.TOMBSTONE):
        words = "Its bytes are gone." if held.state == ArtifactState.TOMBSTONE else "It is promoted already."
        raise Conflict(words, hint="Load the page again.")
    spare_lines(lab=held.lab, which=Q(artifact=held), reason="promoted", by=by, now=now)
    held.refresh_from_db(fields=["state"])  # taken out of a plan it is what it was before
    return _into(held, ArtifactState.PROMOTED, Act.PROMOTED, by, now)


@transaction.atomic
def take_back(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Take a promotion back: it is a candidate or archived again where it was that before, else stored, or registered where
    nobody ever read its bytes. Raises Conflict."""
    held = _hold(artifact)
    if held.state != ArtifactState.PROMOTED:
        raise Conflict("It is not promoted.", hint="Load the page again.")
    return _into(held, _before_promotion(held), Act.TAKEN_BACK, by, now)


def _before_promotion(artifact: Artifact) -> ArtifactState:
    """Return what an artifact is without its promotion, as the log says; whether it was read may have changed since."""
    promoted = AuditEntry.objects.filter(lab=artifact.lab, action=Act.PROMOTED, subject=artifact.digest)
    entry = promoted.order_by("-sequence").first()
    before = entry.details["state"]["from"] if entry else ""
    if before in (ArtifactState.CANDIDATE, ArtifactState.ARCHIVED):
        return ArtifactState(before)
    was_read = Copy.objects.filter(artifact=artifact).exclude(state=CopyState.DELETED).exists()
    return ArtifactState.STORED if was_read else ArtifactState.REGISTERED


@transaction.atomic
def describe(*, artifact: Artifact, told: Description, by: User, now: int) -> AuditEntry | None:
    """Say anew what an artifact is; return the log's entry, by which it can be undone, None where nothing changed.

    Raises InvalidInput for what cannot be said.
    """
    fresh = _said(told)
    held = _hold(artifact)
    before = _description(held)
    changes = {name: {"from": before[name], "to": value} for name, value in fresh.items() if before[name] != value}
    if not changes:
        return None
    _write(held, fresh)
    return _record(held, by, Act.DESCRIBED, changes, now)


@transaction.atomic
def restore(*, artifact: Artifact, entry: AuditEntry, by: User, now: int) -> None:
    """Take back what ``entry`` of the log said of an artifact. Raises Conflict where it was said anew since."""
    held = _hold(artifact)
    before = _description(held)
    if entry.lab_id != held.lab_id or entry.action != Act.DESCRIBED or entry.subject != held.digest:
        raise Conflict("That entry is of something else.", hint="Load the page again.")
    changes: dict[str, dict[str, Any]] = entry.details
    if any(before[name] != change["to"] for name, change in changes.items()):
        raise Conflict("It was described anew since.", hint="Change it by hand: the audit log has what it said before.")
    _write(held, {**before, **{name: change["from"] for name, change in changes.items()}})
    back = {name: {"from": change["to"], "to": change["from"]} for name, change in changes.items()}
    _record(held, by, Act.RESTORED, back, now)


def _hold(artifact: Artifact) -> Artifact:
    """Queue at the lab's row and the artifact's; return it as it is now."""
    audit.hold(artifact.lab)
    return Artifact.objects.select_for_update(of=("self",)).select_related("lab", "project").get(pk=artifact.pk)


def _record(artifact: Artifact, by: User, act: Act, details: dict[str, Any], now: int) -> AuditEntry:
    return audit.record(lab=artifact.lab, by=by, action=act.value, subject=artifact.digest, details=details, now=now)


def _into(artifact: Artifact, state: ArtifactState, act: Act, by: User, now: int) -> Artifact:
    details = {"name": artifact.name, "state": {"from": str(artifact.state), "to": state.value}}
    artifact.state = state
    artifact.save(update_fields=["state"])
    _record(artifact, by, act, details, now)
    return artifact


def _description(artifact: Artifact) -> dict[str, Any]:
    project = artifact.project.slug if artifact.project else None
    return {
        "kind": str(artifact.kind), "licence": artifact.licence, "note": artifact.note, "tags": artifact.tags,
        "project": project,
    }  # fmt: skip


def _write(artifact: Artifact, said: Mapping[str, Any]) -> None:
    slug = said["project"]
    project = Project.objects.filter(lab_id=artifact.lab_id, slug=slug).first() if slug is not None else None
    if slug is not None and project is None:
        raise InvalidInput("There is no such project in your lab.", field="project", hint="Choose one of the list, or none.")
    artifact.kind, artifact.licence, artifact.note = said["kind"], said["licence"], said["note"]
    artifact.tags, artifact.project = said["tags"], project
    artifact.save(update_fields=["kind", "licence", "note", "tags", "project"])


def _said(told: Description) -> dict[str, Any]:
    if told.kind not in Kind.values:
        hint = f"Use one of {', '.join(Kind.values)}."
        raise InvalidInput(f"{told.kind[:40]!r} is no kind.", field="kind", hint=hint)
    if len(told.tags) > MOST_TAGS:
        raise InvalidInput(f"{len(told.tags)} tags are more than {MOST_TAGS}.", field="tags", hint="Leave some out.")
    return {
        "kind": told.kind,
        "licence": _checked(told.licence.strip(), "licence"),
        "note": _checked(told.note.strip(), "note"),
        "tags": {_checked(name, "tag", "tags"): _checked(value, "value", "tags") for name, value in told.tags.items()},
        "project": told.project.slug if told.project else None,
    }


def _checked(text: str, what: str, field: str = "") -> str:
    if unstorable(text):
        raise InvalidInput(f"The {what} holds NUL or half a character.", field=field or what, hint="Leave it out.")
    if len(text) > _LONGEST[what]:
        hint = f"At most {_LONGEST[what]} characters."
        raise InvalidInput(f"The {what} is longer than can be kept.", field=field or what, hint=hint)
    return text
