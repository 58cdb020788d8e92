"""Writes of membership: changing a role, removing a person. An admin stays in every lab."""

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
        raise Forbidden("Only an admin of the lab changes who is in it.", hint="Ask an admin of your lab.")


def _membership(lab: Lab, person: User) -> Membership:
    membership = Membership.objects.filter(lab=lab, user=person).first()
    if membership is None:
        raise NotFound("There is no such person in your lab.", hint=f"See {reverse('people')} for those there are.")
    return membership


def _refuse_last_admin(membership: Membership) -> None:
    others = Membership.objects.filter(lab=membership.lab, role=Role.ADMIN, user__is_active=True).exclude(pk=membership.pk)
    if membership.role == Role.ADMIN and not others.exists():
        raise Conflict(
            "This is the lab's last admin: without one, nobody could add people or change settings.",
            field="role",
            hint="Make somebody else an admin first.",
        )


def _revoke_invitations_of(lab: Lab, person: User, role: str | None, now: int) -> int:
    """End the open codes and invitations that a person with ``role`` (None: removed) could not make any more.

    Return how many invitations ended.
    """
    if role not in {Role.PI, Role.ADMIN}:  # only these may enrol nodes
        OneTimeCode.objects.filter(lab=lab, user=person, purpose=CodePurpose.ENROL).update(uses_left=0)
    if role is None:
        OneTimeCode.objects.filter(lab=lab, user=person, purpose=CodePurpose.LOGIN).update(uses_left=0)
    theirs = Invitation.objects.filter(lab=lab, by=person, accepted_us__isnull=True, revoked_us__isnull=True)
    return theirs.exclude(role__in=MAY_GRANT[role] if role else ()).update(revoked_us=now)


@transaction.atomic
def change_role(*, lab: Lab, person: User, role: str, by: User, now: int) -> Membership:
    """Give a person another role; tokens never do more than the present role, so theirs follow at once."""
    if role not in Role.values:
        raise InvalidInput(f"{role[:40]!r} is not a role.", field="role", hint=f"Use one of {', '.join(Role.values)}.")
    audit.hold(lab)  # two admins who remove each other at once must not both succeed
    _require_admin(lab, by)
    membership = _membership(lab, person)
    before = membership.role
    if role == before:
        return membership
    if role != Role.ADMIN:
        _refuse_last_admin(membership)
    membership.role = role
    membership.save(update_fields=["role"])
    details = {"role": {"from": before, "to": role}, "invitations_ended": _revoke_invitations_of(lab, person, role, now)}
    audit.record(lab=lab, by=by, action=Act.MEMBER_ROLE, subject=person.get_username(), details=details, now=now)
    transaction.on_commit(forget_tokens)  # a tracker's token does no more than its maker's role allows
    return membership


@transaction.atomic
def remove_member(*, lab: Lab, person: User, by: User, now: int) -> None:
    """Remove a person: their tokens, codes and open invitations of this lab end at once. Their runs and figures stay."""
    audit.hold(lab)  # two admins who remove each other at once must not both succeed
    _require_admin(lab, by)
    membership = _membership(lab, person)
    _refuse_last_admin(membership)
    theirs = Q(user=person) | Q(made_by=person, kind__in=SERVICE_KINDS)
    ended = Token.objects.filter(theirs, lab=lab, revoked_us__isnull=True).update(revoked_us=now)
    invitations = _revoke_invitations_of(lab, person, None, now)
    membership.delete()
    details = {"role": membership.role, "tokens_ended": ended, "invitations_ended": invitations}
    audit.record(lab=lab, by=by, action=Act.MEMBER_REMOVED, subject=person.get_username(), details=details, now=now)
    transaction.on_commit(forget_tokens)
