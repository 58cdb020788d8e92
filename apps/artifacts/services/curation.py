"""What people do with an artifact: pin it, call it the best of its run, promote it, lay it aside, say what it is. Each act
is in the audit log and can be undone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import AuditEntry, Project, User
from apps.artifacts.choices import MODELS, Act, ArtifactState, CopyState, Kind, Role
from apps.artifacts.cleanup.plans import spare_lines
from apps.artifacts.models import Artifact, Copy, LineageEdge, Pin
from apps.core.errors import Conflict, Forbidden, InvalidInput
from apps.core.text import is_unstorable

MOST_TAGS = 64
_LONGEST = {"licence": 100, "note": 1000, "reason": 300, "tag": 100, "value": 300}
# Which act puts an artifact into a state, and which takes it out again.
_PUTS = {
    ArtifactState.CANDIDATE: Act.CANDIDATE, ArtifactState.PROMOTED: Act.PROMOTED, ArtifactState.ARCHIVED: Act.LAID_ASIDE,
}  # fmt: skip
_TAKES = {
    ArtifactState.CANDIDATE: Act.NO_CANDIDATE, ArtifactState.PROMOTED: Act.TAKEN_BACK, ArtifactState.ARCHIVED: Act.TAKEN_UP,
}  # fmt: skip
_AGAIN = "Load the page again."
# Why what is in a state already cannot be put into another.
_GOES = {
    ArtifactState.SCHEDULED: ("A plan would take it.", "Object on the plan's page, or pin, hold or promote it."),
    ArtifactState.TOMBSTONE: ("Its bytes are gone.", _AGAIN),
}  # fmt: skip
_NO_CANDIDATE = {
    **_GOES,
    ArtifactState.CANDIDATE: ("It is a candidate already.", _AGAIN),
    ArtifactState.PROMOTED: ("It is promoted, which is more.", "Take the promotion back first."),
    ArtifactState.ARCHIVED: ("It is laid aside.", "Take it up again first."),
}  # fmt: skip
_NOT_ASIDE = {**_GOES, ArtifactState.ARCHIVED: ("It is laid aside already.", _AGAIN)}


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
def make_candidate(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Say that an artifact is the best of its run, and of its sweep if that is of one: what the sweep's other runs made is
    kept for less long. It leaves open plans. Raises Conflict, also for what no run is known to have made."""
    held = _hold(artifact)
    _refuse(held, _NO_CANDIDATE)
    if held.kind not in MODELS:
        raise Conflict("Only a checkpoint or a model can be a candidate.", hint="Describe it anew if it is one.")
    if not LineageEdge.objects.filter(artifact=held, role=Role.PRODUCED).exists():
        raise Conflict("No run is known that made it: a candidate is the best of one.", hint="Tell of its run first.")
    spare_lines(lab=held.lab, which=Q(artifact=held), reason="a candidate", by=by, now=now)
    return _into(held, ArtifactState.CANDIDATE, Act.CANDIDATE, by, now)


@transaction.atomic
def unmake_candidate(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Take back that an artifact is the best of its run. Raises Conflict."""
    return _out_of(artifact, ArtifactState.CANDIDATE, "It is no candidate.", by, now)


@transaction.atomic
def promote(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Say that an artifact is cited or deployed: neither it nor what it came of is ever in a plan. One that is in a plan
    already stays: what may go is asked again before it goes. Raises Conflict."""
    held = _hold(artifact)
    if held.state in (ArtifactState.PROMOTED, ArtifactState.TOMBSTONE):
        words = "Its bytes are gone." if held.state == ArtifactState.TOMBSTONE else "It is promoted already."
        raise Conflict(words, hint=_AGAIN)
    spare_lines(lab=held.lab, which=Q(artifact=held), reason="promoted", by=by, now=now)
    held.refresh_from_db(fields=["state"])  # taken out of a plan it is what it was before
    return _into(held, ArtifactState.PROMOTED, Act.PROMOTED, by, now)


@transaction.atomic
def take_back(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Take a promotion back. Raises Conflict."""
    return _out_of(artifact, ArtifactState.PROMOTED, "It is not promoted.", by, now)


@transaction.atomic
def lay_aside(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Say that an artifact is kept on purpose and used no more: no plan takes it unless days are set for what is archived.
    It leaves open plans; what it came of may be in one, even where it was promoted. Raises Conflict."""
    held = _hold(artifact)
    _refuse(held, _NOT_ASIDE)
    spare_lines(lab=held.lab, which=Q(artifact=held), reason="laid aside", by=by, now=now)
    return _into(held, ArtifactState.ARCHIVED, Act.LAID_ASIDE, by, now)


@transaction.atomic
def take_up(*, artifact: Artifact, by: User, now: int) -> Artifact:
    """Use again what was laid aside. Raises Conflict."""
    return _out_of(artifact, ArtifactState.ARCHIVED, "It is not laid aside.", by, now)


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


def _refuse(artifact: Artifact, why: Mapping[ArtifactState, tuple[str, str]]) -> None:
    """Raise Conflict where the state of an artifact is one of ``why``."""
    if artifact.state in why:
        words, hint = why[ArtifactState(artifact.state)]
        raise Conflict(words, hint=hint)


def _out_of(artifact: Artifact, state: ArtifactState, otherwise: str, by: User, now: int) -> Artifact:
    """Take an artifact out of a state: it is a candidate, promoted or archived again where it was that before, else stored,
    or registered where nobody ever read its bytes. Raises Conflict for another state."""
    held = _hold(artifact)
    if held.state != state:
        raise Conflict(otherwise, hint=_AGAIN)
    before = _before(held)
    if before not in _PUTS:
        was_read = Copy.objects.filter(artifact=held).exclude(state=CopyState.DELETED).exists()
        before = ArtifactState.STORED if was_read else ArtifactState.REGISTERED
    return _into(held, ArtifactState(before), _TAKES[state], by, now)


def _before(artifact: Artifact) -> str:
    """Return what an artifact was before it was put into its state, as the log says; '' where that says nothing."""
    acts = AuditEntry.objects.filter(lab=artifact.lab, subject=artifact.digest).order_by("-sequence")
    undone = 0
    for entry in acts.filter(action__in=[*_PUTS.values(), *_TAKES.values()]):
        if entry.action in _TAKES.values():
            undone += 1
        elif undone:
            undone -= 1
        else:
            return str(entry.details["state"]["from"])
    return ""


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
    if is_unstorable(text):
        raise InvalidInput(f"The {what} holds NUL or half a character.", field=field or what, hint="Leave it out.")
    if len(text) > _LONGEST[what]:
        hint = f"At most {_LONGEST[what]} characters."
        raise InvalidInput(f"The {what} is longer than can be kept.", field=field or what, hint=hint)
    return text
