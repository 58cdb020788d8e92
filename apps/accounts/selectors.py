"""Reads of accounts."""

from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.choices import SCOPES_OF_ROLE, SERVICE_KINDS, PersonView, Role, TokenKind
from apps.accounts.models import Lab, Membership, Project, Token, User
from apps.core.errors import Forbidden, InvalidInput
from apps.core.text import is_unstorable

LAB_KEY = "lab"  # of the session: the number of the lab at hand


def memberships_of(user: User, lab_id: int | None) -> list[Membership]:
    """Return a person's memberships with the one of the lab at hand first; raise Forbidden if there
    is none.

    A lab the person is no longer (or never was) a member of is passed over. One query.
    """
    memberships = list(Membership.objects.select_related("lab").filter(user=user).order_by("id"))
    if not memberships:
        raise Forbidden(
            "You are not a member of a lab.", hint="Ask an admin of your lab to add you."
        )
    return sorted(
        memberships, key=lambda membership: membership.lab_id != lab_id
    )  # stable: the others in order of joining


def lab_of_user(user: User, lab_id: int | None = None) -> tuple[Lab, frozenset[str]]:
    """Return the current membership of a person. ``lab_id``: the lab of their session."""
    membership = memberships_of(user, lab_id)[0]
    return membership.lab, frozenset(SCOPES_OF_ROLE[membership.role])


def role_in(lab: Lab, user: User) -> str:
    """Return the role of a person in a lab, '' for none."""
    return (
        Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True).first() or ""
    )


def may_see_person(role: str, policy: str, own: bool) -> bool:
    """Return whether a person with ``role`` may see the energy of another under the policy
    ``person_view``.

    ``own``: the person is the asker. What is not known (no role, no such policy) is not shown.
    """
    if own:
        return True
    if policy == PersonView.LAB:
        return role in Role.values
    return policy == PersonView.PI and role in {Role.PI, Role.ADMIN}


def tokens_of(lab: Lab, user: User, role: str) -> QuerySet[Token]:
    """Return the tokens that a person may see and revoke: own ones and those they created; for
    an admin all of the lab.
    """
    tokens = (
        Token.objects.filter(lab=lab)
        .select_related("user", "created_by")
        .order_by("-created_us", "-id")
    )
    return (
        tokens
        if role == Role.ADMIN
        else tokens.filter(Q(user=user) | Q(created_by=user, kind__in=SERVICE_KINDS))
    )


def has_node_token(lab: Lab, node_uuid: UUID) -> bool:
    """Return whether a node has a token that is not revoked."""
    tokens = Token.objects.filter(lab=lab, node_uuid=node_uuid, kind=TokenKind.NODE)
    return tokens.filter(revoked_us__isnull=True).exists()


def project_by_slug(lab: Lab, slug: str) -> Project | None:
    """Return the lab's project ``slug``, or None."""
    return next(iter(Project.objects.filter(lab=lab, slug=slug).order_by()), None)


def require_project(lab: Lab, slug: str, field: str = "project") -> None:
    """Raise InvalidInput unless the lab has a project ``slug``. ``field``: the filter that names
    it.
    """
    if is_unstorable(slug) or project_by_slug(lab, slug) is None:
        raise InvalidInput(
            f"There is no project {slug[:60]!r} in this lab.",
            field=field,
            hint="Use the short name of a project of the lab.",
        )


def is_set_up() -> bool:
    """Return whether the server is set up."""
    return Lab.objects.exists()
