"""People: who is in the lab and who is invited."""

from dataclasses import dataclass

from apps.accounts.choices import MAY_GRANT, PersonView, Role
from apps.accounts.invitations import open_invitations
from apps.accounts.models import Invitation
from apps.core.intervals import us_of
from apps.dashboard.access import Visitor

POLICY_WORDS = {
    PersonView.OWN: "Summed up by person, everyone sees only their own energy, PIs and admins too.",
    PersonView.PI: "Summed up by person, you see your own energy; PIs and admins see everyone's.",
    PersonView.LAB: "Summed up by person, everyone in the lab sees everyone's energy.",
}
ROLE_WORDS = {
    Role.VIEWER: "looks",
    Role.MEMBER: "looks, registers runs, makes projects",
    Role.PI: "also adds machines, changes sites, invites viewers and members, reads the audit log",
    Role.ADMIN: "also changes roles, removes people, makes services' tokens, changes the lab's settings",
}
_ORDER = {role: i for i, role in enumerate((Role.ADMIN, Role.PI, Role.MEMBER, Role.VIEWER))}


@dataclass(frozen=True)
class PersonRow:
    """A member. Times in µs; None: not known (joined) or never (signed in)."""

    pk: int
    username: str
    name: str
    role: str
    joined_us: int | None
    signed_in_us: int | None
    own: bool
    active: bool


@dataclass(frozen=True)
class InvitationRow:
    """An open invitation and whether the visitor may end it."""

    invitation: Invitation
    by: str
    may_revoke: bool


@dataclass(frozen=True)
class PeoplePage:
    """Everyone in the lab, and who is invited (None: not the visitor's to see)."""

    people: list[PersonRow]
    invitations: list[InvitationRow] | None
    may_grant: list[tuple[str, str]]
    roles: list[tuple[str, str, str]]
    policy: str


def people_page(visitor: Visitor) -> PeoplePage:
    """Return the people of the lab at hand. Two queries whatever their number."""
    members = visitor.lab.memberships.select_related("user").order_by("user__username")
    rows = [
        PersonRow(
            pk=member.user_id,
            username=member.user.get_username(),
            name=member.user.get_full_name(),
            role=member.role,
            joined_us=member.joined_us,
            signed_in_us=us_of(member.user.last_login) if member.user.last_login else None,
            own=member.user_id == visitor.user.pk,
            active=member.user.is_active,
        )
        for member in members
    ]
    grant = MAY_GRANT[visitor.role]
    return PeoplePage(
        people=sorted(rows, key=lambda row: _ORDER[Role(row.role)]),
        invitations=_invitations(visitor, grant) if grant else None,
        may_grant=[(role, Role(role).label) for role in grant],
        roles=[(role, role.label, ROLE_WORDS[role]) for role in Role],
        policy=POLICY_WORDS[PersonView(visitor.lab.person_view)],
    )


def _invitations(visitor: Visitor, grant: tuple[str, ...]) -> list[InvitationRow]:
    found = open_invitations(visitor.now).filter(lab=visitor.lab).select_related("by").order_by("-created_us", "-id")
    return [InvitationRow(row, row.by.get_username() if row.by else "", row.role in grant) for row in found]
