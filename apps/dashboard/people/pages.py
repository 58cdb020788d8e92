"""People: who is in the lab and who is invited."""

from dataclasses import dataclass

from apps.accounts.choices import MAY_GRANT, PersonView, Role
from apps.accounts.models import Invitation
from apps.accounts.services.invitations import open_invitations
from apps.carbon.figures.visibility import sight_of
from apps.core.intervals import us_of
from apps.dashboard.contexts.person import energy_of_people, os_users
from apps.dashboard.decorators import Visitor
from apps.dashboard.figures import Fig
from apps.dashboard.periods import Period

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
    os_users: str
    energy: Fig | None
    seen: bool


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


def people_page(visitor: Visitor, period: Period) -> PeoplePage:
    """Return the people of the lab at hand. The number of queries does not depend on theirs."""
    sight = sight_of(visitor.lab, visitor.user)
    energy, names = energy_of_people(visitor.lab, period, sight), os_users(visitor.lab)
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
            os_users=", ".join(names.get(member.user_id, [])) if sight.of_person(member.user_id) else "",
            energy=energy.get(member.user_id),
            seen=sight.of_person(member.user_id),
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
