"""Writes of memberships: change a role, remove a person. Every lab keeps at least one admin."""

from django.db import transaction
from django.db.models import Q
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.authentication import forget_tokens
from apps.accounts.choices import MAY_GRANT, SERVICE_KINDS, Act, CodePurpose, Role
from apps.accounts.models import Invitation, Lab, Membership, OneTimeCode, Token, User
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound


def _require_admin(lab: Lab, by: User) -> None:
    if not Membership.objects.filter(lab=lab, user=by, role=Role.ADMIN).exists():
        raise Forbidden(
            "Only an admin of the lab can change its members.", hint="Ask an admin of your lab."
        )


def _membership(lab: Lab, person: User) -> Membership:
    membership = Membership.objects.filter(lab=lab, user=person).first()
    if membership is None:
        raise NotFound(
            "No such person in your lab.", hint=f"Members are listed at {reverse('people')}."
        )
    return membership


def _refuse_last_admin(membership: Membership) -> None:
    others = Membership.objects.filter(
        lab=membership.lab, role=Role.ADMIN, user__is_active=True
    ).exclude(pk=membership.pk)
    if membership.role == Role.ADMIN and not others.exists():
        raise Conflict(
            "This person is the last admin of the lab.",
            field="role",
            hint="Give another person the role admin first.",
        )


def _revoke_invitations_of(lab: Lab, person: User, role: str | None, now: int) -> int:
    """Revoke open codes and invitations that a person with ``role`` (None: removed) is no longer
    permitted to make.

    Return the number of revoked invitations.
    """
    if role not in {Role.PI, Role.ADMIN}:  # only these may enrol nodes
        OneTimeCode.objects.filter(lab=lab, user=person, purpose=CodePurpose.ENROL).update(
            uses_left=0
        )
    if role is None:
        OneTimeCode.objects.filter(lab=lab, user=person, purpose=CodePurpose.LOGIN).update(
            uses_left=0
        )
    invitations = Invitation.objects.filter(
        lab=lab, by=person, accepted_us__isnull=True, revoked_us__isnull=True
    )
    return invitations.exclude(role__in=MAY_GRANT[role] if role else ()).update(revoked_us=now)


@transaction.atomic
def change_role(*, lab: Lab, person: User, role: str, by: User, now: int) -> Membership:
    """Change the role of a person. Permissions of their tokens follow immediately."""
    if role not in Role.values:
        raise InvalidInput(
            f"{role[:40]!r} is not a role.",
            field="role",
            hint=f"Use one of {', '.join(Role.values)}.",
        )
    audit.hold(lab)  # of two admins who remove each other concurrently, one must fail
    _require_admin(lab, by)
    membership = _membership(lab, person)
    before = membership.role
    if role == before:
        return membership
    if role != Role.ADMIN:
        _refuse_last_admin(membership)
    membership.role = role
    membership.save(update_fields=["role"])
    details = {
        "role": {"from": before, "to": role},
        "invitations_ended": _revoke_invitations_of(lab, person, role, now),
    }
    audit.record(
        lab=lab,
        by=by,
        action=Act.MEMBER_ROLE,
        subject=person.get_username(),
        details=details,
        now=now,
    )
    transaction.on_commit(
        forget_tokens
    )  # the permissions of a tracker token follow the role of its creator
    return membership


@transaction.atomic
def remove_member(*, lab: Lab, person: User, by: User, now: int) -> None:
    """Remove a person. Their tokens, codes and open invitations are revoked. Their runs and
    figures are kept.
    """
    audit.hold(lab)  # of two admins who remove each other concurrently, one must fail
    _require_admin(lab, by)
    membership = _membership(lab, person)
    _refuse_last_admin(membership)
    own_tokens = Q(user=person) | Q(created_by=person, kind__in=SERVICE_KINDS)
    ended = Token.objects.filter(own_tokens, lab=lab, revoked_us__isnull=True).update(
        revoked_us=now
    )
    invitations = _revoke_invitations_of(lab, person, None, now)
    membership.delete()
    details = {"role": membership.role, "tokens_ended": ended, "invitations_ended": invitations}
    audit.record(
        lab=lab,
        by=by,
        action=Act.MEMBER_REMOVED,
        subject=person.get_username(),
        details=details,
        now=now,
    )
    transaction.on_commit(forget_tokens)
