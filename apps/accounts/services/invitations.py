"""Invitations to join a lab in a role, accepted once, by link or by a verified e-mail address.

LabCarbon sends no e-mail for them. An invitation is valid only while its author is still permitted
to make it.
"""

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.choices import MAY_GRANT, Act, Role
from apps.accounts.models import Invitation, Lab, Membership, User
from apps.accounts.services.labs import MINUTE_US, code_digests, new_code
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from apps.core.text import is_unstorable, replace_unstorable

LIFE_US = 14 * 24 * 60 * MINUTE_US


def normalise_email(text: str) -> str:
    """Return an address for comparison: without surrounding spaces, in lower case."""
    return text.strip().lower()


def checked_email(text: str) -> str:
    """Return a normalised e-mail address; raise InvalidInput for any other non-empty text."""
    email = normalise_email(replace_unstorable(text))
    if email and (
        len(email) > 254
        or email.count("@") != 1
        or email[0] == "@"
        or email[-1] == "@"
        or " " in email
    ):
        raise InvalidInput(
            f"{text[:60]!r} is not an e-mail address.",
            field="email",
            hint="Enter an address such as ada@example.org, or leave the field empty.",
        )
    return email


@transaction.atomic
def check_role(role: str) -> None:
    """Raise InvalidInput unless ``role`` is a role."""
    if role not in Role.values:
        raise InvalidInput(
            f"{role[:40]!r} is not a role.",
            field="role",
            hint=f"Use one of {', '.join(Role.values)}.",
        )


def invite(
    *, lab: Lab, role: str, by: User, now: int, email: str = "", note: str = ""
) -> tuple[Invitation, str]:
    """Create an invitation for 14 days. Return it and its one-time code, which is not stored."""
    own = Membership.objects.filter(lab=lab, user=by).values_list("role", flat=True).first()
    if not MAY_GRANT.get(own or "", ()):
        raise Forbidden(
            "Your role does not permit invitations.", hint="Ask a PI or an admin of your lab."
        )
    check_role(role)
    if role not in MAY_GRANT[own or ""]:
        permitted = " or ".join(MAY_GRANT[own or ""])
        raise Forbidden(
            f"Your role permits invitations as {permitted}, not as {role}.",
            field="role",
            hint="Ask an admin of your lab.",
        )
    code, digest = new_code()
    invitation = Invitation.objects.create(
        lab=lab,
        email=checked_email(email),
        role=role,
        note=replace_unstorable(note).strip()[:200],
        digest=digest,
        by=by,
        created_us=now,
        expires_us=now + LIFE_US,
    )
    details = {
        "role": role,
        "email": invitation.email,
        "note": invitation.note,
        "expires_us": invitation.expires_us,
    }
    audit.record(
        lab=lab,
        by=by,
        action=Act.INVITATION_CREATED,
        subject=f"invitation {invitation.pk}",
        details=details,
        now=now,
    )
    return invitation, code


def open_invitations(now: int) -> QuerySet[Invitation]:
    """Return invitations that are not accepted, revoked or expired."""
    return Invitation.objects.filter(
        accepted_us__isnull=True, revoked_us__isnull=True, expires_us__gt=now
    )


def _is_valid(invitation: Invitation) -> bool:
    """Return whether the author of the invitation is still permitted to make it."""
    author = Membership.objects.filter(lab=invitation.lab, user=invitation.by, user__is_active=True)
    role = author.values_list("role", flat=True).first()
    return invitation.role in MAY_GRANT.get(role or "", ())


def invitation_by_code(code: str, now: int) -> Invitation:
    """Return the open invitation of a code. Wrong, used, expired and revoked codes get the same
    error.
    """
    invitation = (
        open_invitations(now)
        .select_related("lab", "by")
        .filter(digest__in=code_digests(code))
        .first()
    )
    if invitation is None or not _is_valid(invitation):
        raise _invalid_invitation_error()
    return invitation


def _invalid_invitation_error() -> InvalidInput:
    return InvalidInput(
        "This invitation is not valid: its code is wrong, used, expired or revoked.",
        field="code",
        hint=(
            "Ask the sender for a new invitation. If you already joined, sign in at "
            f"{reverse('account_login')}."
        ),
        code="bad_invitation",
    )


def _add_member(invitation: Invitation, user: User, now: int) -> Membership | None:
    """Accept the invitation and create the membership. Return None if it was already accepted."""
    audit.hold(invitation.lab)
    if (
        open_invitations(now).filter(pk=invitation.pk).update(accepted_us=now, accepted_by=user)
        == 0
    ):
        return None
    try:
        with transaction.atomic():
            joined = Membership.objects.create(
                lab=invitation.lab, user=user, role=invitation.role, joined_us=now
            )
    except IntegrityError as error:
        raise _already_member_error(invitation.lab) from error
    details = {
        "role": invitation.role,
        "invited_by": invitation.by.get_username() if invitation.by else "",
    }
    subject = f"invitation {invitation.pk}"
    audit.record(
        lab=invitation.lab,
        by=user,
        action=Act.INVITATION_ACCEPTED,
        subject=subject,
        details=details,
        now=now,
    )
    return joined


def _already_member_error(lab: Lab) -> Conflict:
    return Conflict(
        f"You are already a member of {lab.name}. The invitation remains open.",
        hint="Pass it on to the person it is for. To get another role, ask an admin of the lab.",
    )


@transaction.atomic
def accept_invitation(*, code: str, user: User, now: int) -> Membership:
    """Join the lab of a code. Of two concurrent calls one succeeds; the other gets the error of
    a used code.
    """
    invitation = invitation_by_code(code, now)
    if Membership.objects.filter(lab=invitation.lab, user=user).exists():
        raise _already_member_error(invitation.lab)
    joined = _add_member(invitation, user, now)
    if joined is None:
        raise _invalid_invitation_error()
    return joined


def invitations_for_email(email: str, *, now: int) -> list[Invitation]:
    """Return the open invitations to an address, in upper or lower case. None for ''."""
    address = normalise_email(email)
    if not address or is_unstorable(address):
        return []
    invitations = (
        open_invitations(now).select_related("lab", "by").filter(email=address).order_by("id")
    )
    return [invitation for invitation in invitations if _is_valid(invitation)]


@transaction.atomic
def accept_by_email(*, user: User, verified_email: str, now: int) -> list[Membership]:
    """Join every lab that invited ``verified_email``. The caller must have verified that the person
    owns the address.

    Labs of which the person is a member are skipped. Of several invitations of one lab the first is
    used.
    """
    joined: list[Membership] = []
    own_lab_ids = set(Membership.objects.filter(user=user).values_list("lab_id", flat=True))
    for invitation in invitations_for_email(verified_email, now=now):
        if (
            invitation.lab_id not in own_lab_ids
            and (membership := _add_member(invitation, user, now)) is not None
        ):
            joined.append(membership)
            own_lab_ids.add(invitation.lab_id)
    return joined


@transaction.atomic
def revoke_invitation(*, lab: Lab, pk: int, by: User, now: int) -> None:
    """Revoke an open invitation of the lab, by a person who is permitted to make it."""
    invitation = Invitation.objects.filter(lab=lab, pk=pk).first()
    if invitation is None:
        raise NotFound(
            "No such invitation in your lab.",
            hint=f"Open invitations are listed at {reverse('people')}.",
        )
    own = Membership.objects.filter(lab=lab, user=by).values_list("role", flat=True).first()
    if invitation.role not in MAY_GRANT.get(own or "", ()):
        raise Forbidden(
            "Your role does not permit revoking this invitation.", hint="Ask an admin of your lab."
        )
    audit.hold(lab)
    if open_invitations(now).filter(pk=pk).update(revoked_us=now) == 0:
        raise Conflict(
            "This invitation is no longer open.",
            hint=f"Open invitations are listed at {reverse('people')}.",
        )
    details = {"role": invitation.role, "email": invitation.email}
    audit.record(
        lab=lab,
        by=by,
        action=Act.INVITATION_REVOKED,
        subject=f"invitation {pk}",
        details=details,
        now=now,
    )
