"""Page objects: members of the lab, open invitations, and the energy of one person."""

from collections import defaultdict
from dataclasses import dataclass

from django.urls import reverse

from apps.accounts.choices import MAY_GRANT, PersonView, Role
from apps.accounts.models import Invitation, Lab, Membership, User
from apps.accounts.services.invitations import open_invitations
from apps.attribution.models import AttributionRule
from apps.carbon.figures.energy import figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.figures.visibility import Visibility, visibility_for
from apps.core.intervals import datetime_to_us
from apps.dashboard.decorators import Visitor
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Quantity,
    Units,
    column_units,
    energy_and_emissions,
    percent_quantity,
    quantity,
    total,
)
from apps.dashboard.overview.energy_use import SPECIAL
from apps.dashboard.people.forms import RoleForm
from apps.dashboard.people.person_runs import PersonRuns, person_runs
from apps.dashboard.periods import Period, lab_query


@dataclass(frozen=True)
class ChargeRow:
    """What a person used for one project."""

    name: str
    href: str
    figures: EnergyAndEmissions
    share: Quantity


@dataclass(frozen=True)
class PersonPage:
    """One person over a period."""

    person: User
    period: Period
    own: bool
    measured: bool
    figures: EnergyAndEmissions
    column: EnergyAndEmissions
    units: Units
    rows: list[ChargeRow]
    os_users: list[str]
    runs: PersonRuns


def person_query(lab: Lab, period: Period, person_id: int) -> FigureQuery:
    """Return the query of a person over a period."""
    return lab_query(lab, period).replace(subject_kind="person", subject_key=str(person_id))


def os_users(lab: Lab) -> dict[int, list[str]]:
    """Return the OS users that rules assign to each person. One query."""
    names_by_person: dict[int, set[str]] = defaultdict(set)
    rules = AttributionRule.objects.filter(
        lab=lab, person__isnull=False, withdrawn_us__isnull=True
    ).exclude(os_user="")
    for person_id, name in rules.values_list("person_id", "os_user"):
        names_by_person[person_id or 0].add(name)
    return {person_id: sorted(names) for person_id, names in names_by_person.items()}


def energy_of_people(lab: Lab, period: Period, visibility: Visibility) -> dict[int, Quantity]:
    """Return the energy of each person whom the visitor may see. One query."""
    query = lab_query(lab, period)
    figures = figures_by(lab, query, ["person"])
    units = column_units(figures.values())
    return {
        person: quantity(
            query.replace(subject_kind="person", subject_key=str(person)), part, units.energy
        )
        for (person,), part in figures.items()
        if person is not None and visibility.of_person(person)
    }


def person_page(
    *, lab: Lab, person: User, period: Period, visibility: Visibility, now: int
) -> PersonPage:
    """Return the energy of a person by project, and their runs. The number of queries does not
    depend on the number of rows.
    """
    query = person_query(lab, period, person.pk)
    visibility.check(query)
    figures = figures_by(lab, query, ["charge"])
    whole = total(figures.values())
    units = column_units([whole])
    names = dict(lab.projects.values_list("slug", "name"))
    rows = []
    of_period = f"?{period.query}"
    for (key,), part in sorted(figures.items(), key=lambda item: -item[1].energy_mj):
        own = query.replace(consumer=key[1:]) if key.startswith("~") else query.replace(project=key)
        name, href = (
            (SPECIAL[key][0], reverse("unattributed") + of_period)
            if key in SPECIAL
            else (names.get(key, key), reverse("project", args=[key]) + of_period)
        )
        rows.append(
            ChargeRow(
                name,
                href,
                energy_and_emissions(own, part, units),
                percent_quantity(own, part.energy_mj, whole.energy_mj),
            )
        )
    return PersonPage(
        person=person,
        period=period,
        own=person.pk == visibility.person_id,
        measured=bool(figures),
        figures=energy_and_emissions(query, whole),
        column=energy_and_emissions(query, whole, units),
        units=units,
        rows=rows,
        os_users=os_users(lab).get(person.pk, []),
        runs=person_runs(lab, person, period, visibility, now),
    )


POLICY_TEXTS = {
    PersonView.OWN: "Everyone sees only their own energy by person, including PIs and admins.",
    PersonView.PI: "You see your own energy. PIs and admins see the energy of everyone.",
    PersonView.LAB: "Everyone in the lab sees the energy of everyone.",
}
ROLE_TEXTS = {
    Role.VIEWER: "Reads pages",
    Role.MEMBER: "Also registers runs and creates projects",
    Role.PI: "Also adds nodes, changes sites, invites viewers and members, and reads the audit log",
    Role.ADMIN: "Also changes roles and lab settings, removes people, and creates service tokens",
}
_ORDER = {role: i for i, role in enumerate((Role.ADMIN, Role.PI, Role.MEMBER, Role.VIEWER))}


@dataclass(frozen=True)
class PersonRow:
    """A member. Times in µs; None: unknown (joined) or never (signed in). ``role_form``: for
    admins only.
    """

    pk: int
    username: str
    name: str
    role: str
    joined_us: int | None
    signed_in_us: int | None
    own: bool
    active: bool
    os_users: str
    energy: Quantity | None
    is_visible: bool
    role_label: str
    role_form: RoleForm | None


@dataclass(frozen=True)
class InvitationRow:
    """An open invitation and whether the visitor may revoke it."""

    invitation: Invitation
    by: str
    may_revoke: bool


@dataclass(frozen=True)
class PeoplePage:
    """Everyone in the lab, and the open invitations (None: hidden from the visitor)."""

    people: list[PersonRow]
    invitations: list[InvitationRow] | None
    can_invite: bool
    roles: list[tuple[str, str]]
    policy: str


def people_page(visitor: Visitor, period: Period) -> PeoplePage:
    """Return the people of the visitor's lab. The number of queries does not depend on the
    number of people.
    """
    visibility = visibility_for(visitor.lab, visitor.user)
    energy, names = energy_of_people(visitor.lab, period, visibility), os_users(visitor.lab)
    members = visitor.lab.memberships.select_related("user").order_by("user__username")
    rows = [
        PersonRow(
            pk=member.user_id,
            username=member.user.get_username(),
            name=member.user.get_full_name(),
            role=member.role,
            joined_us=member.joined_us,
            signed_in_us=datetime_to_us(member.user.last_login) if member.user.last_login else None,
            own=member.user_id == visitor.user.pk,
            active=member.user.is_active,
            os_users=", ".join(names.get(member.user_id, []))
            if visibility.of_person(member.user_id)
            else "",
            energy=energy.get(member.user_id),
            is_visible=visibility.of_person(member.user_id),
            role_label=Role(member.role).label,
            role_form=_role_form(visitor, member),
        )
        for member in members
    ]
    grant = MAY_GRANT[visitor.role]
    return PeoplePage(
        people=sorted(rows, key=lambda row: _ORDER[Role(row.role)]),
        invitations=_invitations(visitor, grant) if grant else None,
        can_invite=bool(grant),
        roles=[(role.label, ROLE_TEXTS[role]) for role in Role],
        policy=POLICY_TEXTS[PersonView(visitor.lab.person_view)],
    )


def _role_form(visitor: Visitor, member: Membership) -> RoleForm | None:
    if not visitor.can_administer:
        return None
    return RoleForm(visitor, initial={"role": member.role}, person=member.user)


def _invitations(visitor: Visitor, grant: tuple[str, ...]) -> list[InvitationRow]:
    invitations = (
        open_invitations(visitor.now)
        .filter(lab=visitor.lab)
        .select_related("by")
        .order_by("-created_us", "-id")
    )
    return [
        InvitationRow(row, row.by.get_username() if row.by else "", row.role in grant)
        for row in invitations
    ]
