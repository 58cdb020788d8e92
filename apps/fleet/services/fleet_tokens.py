"""Writes of fleet tokens: created, rotated, ended, and used to enrol new nodes.

A use locks the lab, so that two requests cannot share the last use or one UUID.
"""

import hmac
import secrets
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.urls import reverse

from apps.accounts import audit, credentials
from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import FLEET_KIND, SCOPES_OF_NODE, Act
from apps.accounts.models import Lab, Membership, Project, Token, User
from apps.accounts.services.labs import issue_node_token
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import EnrolmentState
from apps.fleet.fleet_token_selectors import MANAGER_ROLES, fleet_token_of
from apps.fleet.models import FleetEnrolment, FleetToken, Node, RefusedEnrolment, Site
from apps.fleet.services.dated_facts import record_audit
from apps.fleet.services.nodes import register_node
from apps.fleet.signals import fleet_node_enrolled

MAX_USES = 1000
MAX_LIFE_US = 90 * 24 * US_PER_HOUR
APPROVAL_FROM_US = 24 * US_PER_HOUR  # longer tokens need approval by default
PREFIX = f"lc_{FLEET_KIND}_"


@dataclass(frozen=True)
class Enrolled:
    """A node of a fleet token with its own token, which is returned only once."""

    node_uuid: UUID
    lab: Lab
    token: str
    is_waiting: bool


def _require_manager(lab: Lab, by: User) -> None:
    is_manager = Membership.objects.filter(lab=lab, user=by, role__in=MANAGER_ROLES).exists()
    if not is_manager:
        raise Forbidden(
            "Only a PI or an admin of the lab can enrol nodes.", hint="Ask an admin of your lab."
        )


def _new_text() -> tuple[str, dict[str, Any]]:
    """Return the text of a new token, and the columns that recognise it."""
    text = credentials.compose_token(
        FLEET_KIND,
        secrets.randbelow(62**credentials.ID_LENGTH),
        secrets.randbelow(62**credentials.SECRET_LENGTH),
    )
    parts = credentials.parse_token(text)
    assert parts is not None
    number = max(settings.TOKEN_PEPPERS)
    digest = credentials.keyed_digest(settings.TOKEN_PEPPERS[number], text)
    return text, {"public_id": parts.public_id, "digest": digest, "pepper": number}


@transaction.atomic
def create_fleet_token(
    *,
    lab: Lab,
    site: Site,
    project: Project | None,
    uses: int,
    life_us: int,
    needs_approval: bool | None = None,
    by: User,
    now: int,
) -> tuple[FleetToken, str]:
    """Create a fleet token. Return it and its text, which is not stored.

    ``needs_approval`` None: only if the token is valid for more than 24 hours.
    """
    _require_manager(lab, by)
    if site.lab_id != lab.pk or (project is not None and project.lab_id != lab.pk):
        raise NotFound("No such site or project in this lab.", hint="Choose one of the list.")
    if not 1 <= uses <= MAX_USES:
        raise InvalidInput(
            f"A fleet token enrols 1 to {MAX_USES} nodes.", field="uses", hint="Enter a number."
        )
    if not 0 < life_us <= MAX_LIFE_US:
        raise InvalidInput(
            "A fleet token is valid for at most 90 days.", field="life", hint="Choose fewer days."
        )
    text, columns = _new_text()
    token = FleetToken.objects.create(
        lab=lab,
        site=site,
        project=project,
        needs_approval=life_us > APPROVAL_FROM_US if needs_approval is None else needs_approval,
        max_uses=uses,
        uses_left=uses,
        created_by=by,
        created_us=now,
        expires_us=now + life_us,
        **columns,
    )
    record_audit(lab, by, Act.FLEET_TOKEN_CREATED, token.public_id, _details(token), now)
    return token, text


def _details(token: FleetToken) -> dict[str, Any]:
    return {
        "site": token.site.name,
        "project": token.project.slug if token.project else "",
        "uses": token.uses_left,
        "expires_us": token.expires_us,
        "approval": token.needs_approval,
    }


def _active(lab: Lab, public_id: str, now: int) -> FleetToken:
    """Return a token that is not ended, expired or used up, with the lab locked."""
    audit.hold(lab)
    token = fleet_token_of(lab, public_id)
    if token is None:
        raise NotFound("No such fleet token in your lab.", hint=_page_hint())
    if _reason_unusable(token, now):
        raise Conflict("This fleet token is no longer valid.", hint="Create a new one.")
    return token


@transaction.atomic
def rotate_fleet_token(*, lab: Lab, public_id: str, by: User, now: int) -> tuple[FleetToken, str]:
    """Replace a token by a new one with the same site, project, uses left and expiry. The old one
    ends at this moment.
    """
    _require_manager(lab, by)
    old = _active(lab, public_id, now)
    text, columns = _new_text()
    token = FleetToken.objects.create(
        lab=lab,
        site=old.site,
        project=old.project,
        needs_approval=old.needs_approval,
        max_uses=old.uses_left,
        uses_left=old.uses_left,
        created_by=by,
        created_us=now,
        expires_us=old.expires_us,
        **columns,
    )
    FleetToken.objects.filter(pk=old.pk).update(revoked_us=now)
    details = {"former": old.public_id, **_details(token)}
    record_audit(lab, by, Act.FLEET_TOKEN_ROTATED, token.public_id, details, now)
    return token, text


@transaction.atomic
def end_fleet_token(*, lab: Lab, public_id: str, by: User, now: int) -> FleetToken:
    """End a fleet token. Nodes that it enrolled keep their own tokens."""
    _require_manager(lab, by)
    token = _active(lab, public_id, now)
    FleetToken.objects.filter(pk=token.pk).update(revoked_us=now)
    details = {"uses_left": token.uses_left}
    record_audit(lab, by, Act.FLEET_TOKEN_ENDED, public_id, details, now)
    return token


def _page_hint() -> str:
    return f"Create a fleet token at {settings.SITE_URL}{reverse('node-add')}."


def _bad_token(message: str) -> InvalidInput:
    return InvalidInput(message, field="code", hint=_page_hint(), code="bad_code")


def _reason_unusable(token: FleetToken, now: int) -> str:
    """Return why a token cannot be used now, or ''."""
    if token.revoked_us is not None:
        return "This fleet token was ended."
    if token.expires_us <= now:
        return "This fleet token has expired."
    if token.uses_left == 0:
        return "This fleet token is used up."
    managers = Membership.objects.filter(lab_id=token.lab_id, role__in=MANAGER_ROLES)
    if not managers.filter(user=token.created_by, user__is_active=True).exists():
        return "The creator of this fleet token may no longer enrol nodes."
    return ""


def _authentic(text: str) -> FleetToken:
    """Return the token of this text, valid or not. Wrong check digits cost no query."""
    parts = credentials.parse_token(text)
    token = None
    if parts is not None and parts.kind == FLEET_KIND:
        token = FleetToken.objects.select_related("lab").filter(public_id=parts.public_id).first()
    pepper = settings.TOKEN_PEPPERS.get(token.pepper) if token else None
    if (
        token is None
        or pepper is None
        or not hmac.compare_digest(credentials.keyed_digest(pepper, text), token.digest)
    ):
        raise _bad_token("This fleet token is unknown.")
    return token


def enrol_with_fleet_token(
    *, text: str, uuid: UUID, hostname: str, facts: dict[str, Any], now: int
) -> Enrolled:
    """Enrol a new node with a fleet token. Raises Conflict for a known UUID, which managers then
    see, and which uses up nothing.
    """
    token = _authentic(text)
    try:
        enrolled = _enrol(token=token, uuid=uuid, hostname=hostname, facts=facts, now=now)
    except IntegrityError:  # another lab enrolled this UUID at the same moment
        enrolled = None
    if enrolled is None:
        raise Conflict(
            "This node UUID is enrolled already. A fleet token enrols new nodes only.",
            field="node",
            hint=(
                f"If this is the same machine, a manager can allow it once at {settings.SITE_URL}"
                f"{reverse('node-add')}#known. If the disk was copied, delete the folder "
                "`collector` of the copy's data folder."
            ),
            code="known_node",
        )
    return enrolled


@transaction.atomic
def _enrol(
    *, token: FleetToken, uuid: UUID, hostname: str, facts: dict[str, Any], now: int
) -> Enrolled | None:
    lab = audit.hold(token.lab)
    token = FleetToken.objects.select_related("site", "project", "created_by").get(pk=token.pk)
    reason = _reason_unusable(token, now)
    if reason:
        raise _bad_token(reason)
    known_node = Node.objects.filter(uuid=uuid).first()
    refused = RefusedEnrolment.objects.filter(lab=lab, node_uuid=uuid).first()
    is_known = (
        known_node is not None or FleetEnrolment.objects.filter(lab=lab, node_uuid=uuid).exists()
    )
    is_allowed = (
        refused is not None
        and (refused.allowed_until_us or 0) > now
        and (known_node is None or known_node.lab_id == lab.pk)
    )
    if is_known and not is_allowed:
        _record_refusal(lab, token, refused, uuid, hostname, now)
        return None
    if refused is not None:
        refused.delete()
    FleetToken.objects.filter(pk=token.pk).update(uses_left=token.uses_left - 1)
    return _admit(lab, token, uuid, hostname, facts, is_allowed=is_allowed, now=now)


def _record_refusal(
    lab: Lab,
    token: FleetToken,
    refused: RefusedEnrolment | None,
    uuid: UUID,
    hostname: str,
    now: int,
) -> None:
    """Count a refused attempt. The audit log records the first one of a UUID only."""
    if refused is not None:
        refused.fleet_token, refused.hostname = token, hostname
        refused.attempts, refused.last_us = refused.attempts + 1, now
        refused.save(update_fields=["fleet_token", "hostname", "attempts", "last_us"])
        return
    RefusedEnrolment.objects.create(
        lab=lab, fleet_token=token, node_uuid=uuid, hostname=hostname, created_us=now, last_us=now
    )
    _record(lab, token, Act.NODE_REFUSED, hostname, uuid, now)


def _record(lab: Lab, token: FleetToken, action: Act, hostname: str, uuid: UUID, now: int) -> None:
    audit.record(
        lab=lab,
        by=None,
        actor=str(token),
        action=action,
        subject=hostname,
        details={"node": str(uuid), "site": token.site.name, "fleet_token": token.public_id},
        now=now,
    )


def _admit(
    lab: Lab,
    token: FleetToken,
    uuid: UUID,
    hostname: str,
    facts: dict[str, Any],
    *,
    is_allowed: bool,
    now: int,
) -> Enrolled:
    """Give a node its own token, without permissions if it waits for approval."""
    is_waiting = token.needs_approval and not is_allowed
    text = issue_node_token(lab=lab, node_uuid=uuid, now=now, by=token.created_by)
    transaction.on_commit(forget_tokens)  # an earlier token of the node ended
    node_token = Token.objects.get(lab=lab, node_uuid=uuid, revoked_us__isnull=True)
    if is_waiting:
        Token.objects.filter(pk=node_token.pk).update(scopes="")
    row, _ = FleetEnrolment.objects.update_or_create(
        lab=lab,
        node_uuid=uuid,
        defaults={
            "fleet_token": token,
            "hostname": hostname,
            "facts": facts,
            "state": EnrolmentState.WAITING if is_waiting else EnrolmentState.ENROLLED,
            "created_us": now,
            "node_token": node_token,
            "decided_us": None,
            "decided_by": None,
        },
    )
    if not is_waiting:
        _register(row, now)
    action = Act.NODE_WAITING if is_waiting else Act.NODE_ENROLLED
    _record(lab, token, action, hostname, uuid, now)
    return Enrolled(uuid, lab, text, is_waiting)


def _register(row: FleetEnrolment, now: int) -> None:
    """Create the node of an enrolment at the site of its token, with the rule for its project."""
    token = row.fleet_token
    is_new = not Node.objects.filter(uuid=row.node_uuid).exists()
    node = register_node(
        lab=row.lab,
        uuid=row.node_uuid,
        hostname=row.hostname,
        facts=row.facts,
        site=token.site,
        now=now,
    )
    if token.project is not None and is_new:
        fleet_node_enrolled.send(
            sender=FleetToken, node=node, project=token.project, by=token.created_by, now=now
        )


def _waiting(lab: Lab, uuid: UUID) -> FleetEnrolment:
    audit.hold(lab)
    row = (
        FleetEnrolment.objects.select_related(
            "lab", "fleet_token__site", "fleet_token__project", "fleet_token__created_by"
        )
        .filter(lab=lab, node_uuid=uuid, state=EnrolmentState.WAITING)
        .first()
    )
    if row is None:
        raise NotFound("No such node waits for approval.", hint="Reload the page.")
    return row


@transaction.atomic
def approve_node(*, lab: Lab, uuid: UUID, by: User, now: int) -> FleetEnrolment:
    """Enrol a waiting node. What its collector measured meanwhile is uploaded then."""
    _require_manager(lab, by)
    row = _waiting(lab, uuid)
    node_token = row.node_token
    if node_token is None or node_token.revoked_us is not None:
        raise Conflict(
            "The token of this node was revoked.", hint="Decline it and enrol the node again."
        )
    _register(row, now)
    Token.objects.filter(pk=node_token.pk).update(scopes=" ".join(SCOPES_OF_NODE))
    _decide(row, EnrolmentState.ENROLLED, by, now)
    record_audit(lab, by, Act.NODE_APPROVED, row.hostname, {"node": str(uuid)}, now)
    return row


@transaction.atomic
def decline_node(*, lab: Lab, uuid: UUID, by: User, now: int) -> FleetEnrolment:
    """Refuse a waiting node and revoke its token."""
    _require_manager(lab, by)
    row = _waiting(lab, uuid)
    if row.node_token is not None and row.node_token.revoked_us is None:
        Token.objects.filter(pk=row.node_token.pk).update(revoked_us=now)
    _decide(row, EnrolmentState.DECLINED, by, now)
    record_audit(lab, by, Act.NODE_DECLINED, row.hostname, {"node": str(uuid)}, now)
    return row


def _decide(row: FleetEnrolment, state: EnrolmentState, by: User, now: int) -> None:
    row.state, row.decided_us, row.decided_by = state, now, by
    row.save(update_fields=["state", "decided_us", "decided_by"])
    transaction.on_commit(forget_tokens)


ALLOWED_US = 24 * US_PER_HOUR


def _refused(lab: Lab, uuid: UUID) -> RefusedEnrolment:
    audit.hold(lab)
    row = RefusedEnrolment.objects.filter(lab=lab, node_uuid=uuid).first()
    if row is None:
        raise NotFound("No such refused enrolment.", hint="Reload the page.")
    return row


@transaction.atomic
def allow_known_node(*, lab: Lab, uuid: UUID, by: User, now: int) -> RefusedEnrolment:
    """Let a known UUID be enrolled again once within 24 hours. Its present token ends when that
    happens.
    """
    _require_manager(lab, by)
    row = _refused(lab, uuid)
    if Node.objects.filter(uuid=uuid).exclude(lab=lab).exists():
        raise Conflict(
            "This UUID belongs to a node outside this lab.",
            hint="Set LABCARBON_NODE_ID to another UUID on the machine.",
        )
    row.allowed_until_us = now + ALLOWED_US
    row.save(update_fields=["allowed_until_us"])
    record_audit(lab, by, Act.NODE_REENROLMENT_ALLOWED, row.hostname, {"node": str(uuid)}, now)
    return row


@transaction.atomic
def dismiss_refusal(*, lab: Lab, uuid: UUID, by: User, now: int) -> RefusedEnrolment:
    """Remove a refused enrolment from the list. The node keeps its token."""
    _require_manager(lab, by)
    row = _refused(lab, uuid)
    row.delete()
    details = {"node": str(uuid), "attempts": row.attempts}
    record_audit(lab, by, Act.NODE_REFUSAL_DISMISSED, row.hostname, details, now)
    return row
