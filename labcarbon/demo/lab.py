"""Lab, people, sites and nodes of the demo."""

from dataclasses import dataclass
from typing import Any

from apps.accounts.choices import Role
from apps.accounts.models import Lab, User
from apps.accounts.services.invitations import accept_invitation, invite
from apps.accounts.services.labs import create_lab, create_project, issue_node_token
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
from apps.carbon.services import apply_factors
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node, Site
from apps.fleet.services import (
    create_site,
    register_node,
    set_price,
    set_pue,
    set_static_power,
)
from labcarbon.demo.plan import PROJECTS, Calendar, Machine

NAME = "Demo lab (made-up data)"
_ROLES = {
    "ben": Role.PI,
    "chen": Role.MEMBER,
    "dora": Role.MEMBER,
    "emil": Role.VIEWER,
}


@dataclass(frozen=True)
class DemoLab:
    """What the other parts of the demo refer to."""

    lab: Lab
    admin: User
    people: dict[str, User]
    room: Site
    office: Site
    calendar: Calendar

    @property
    def begin_us(self) -> int:
        return self.calendar.begin * US_PER_HOUR

    def at_us(self, day: int) -> int:
        """Return the time of a day of the year."""
        return self.calendar.hour(day) * US_PER_HOUR


def create(calendar: Calendar) -> DemoLab:
    """Create the lab with projects, people without passwords, and two sites with zone, PUE and
    price. The price of the office is unknown in the first eight months.
    """
    begin_us = calendar.begin * US_PER_HOUR
    admin = User.objects.create_user(username="ada", email="ada@example.org")
    lab = create_lab(name=NAME, time_zone="Europe/Berlin", owner=admin, now=begin_us)
    for slug, name in PROJECTS:
        create_project(lab=lab, slug=slug, name=name, now=begin_us, by=admin)
    people = {"ada": admin}
    for username, role in _ROLES.items():
        people[username] = User.objects.create_user(
            username=username, email=f"{username}@example.org"
        )
        _, code = invite(lab=lab, role=role, by=admin, now=begin_us)
        accept_invitation(code=code, user=people[username], now=begin_us)
    fields: dict[str, Any] = {"lab": lab, "by": admin, "now": begin_us}
    room = create_site(
        name="Machine room", kind=SiteKind.MACHINE_ROOM, zone="DE", pue_ppm=1_340_000, **fields
    )
    office = create_site(
        name="Office", kind=SiteKind.WORKSTATION, zone="FR", pue_ppm=1_000_000, **fields
    )
    made = DemoLab(lab, admin, people, room, office, calendar)
    _set_dated_facts(made)
    apply_factors(lab=lab)
    return made


def _set_dated_facts(made: DemoLab) -> None:
    set_pue(
        site=made.room,
        pue_ppm=1_270_000,
        from_us=made.at_us(210),
        note="New cooling",
        by=made.admin,
        now=made.begin_us,
    )
    for site, price, day in (
        (made.room, 298_000, 0),
        (made.room, 271_000, 180),
        (made.office, 226_000, 243),
    ):
        set_price(
            site=site,
            ucurrency_per_kwh=price,
            currency="EUR",
            from_us=made.at_us(day),
            by=made.admin,
            now=made.begin_us,
        )


def add_node(made: DemoLab, machine: Machine) -> Node:
    """Register a machine at its site."""
    since_us = machine.from_hour * US_PER_HOUR
    site = made.office if machine.is_desk else made.room
    node = register_node(
        lab=made.lab,
        uuid=machine.uuid,
        hostname=machine.name,
        facts={"serial": f"DEMO-{machine.name.upper()}"},
        site=site,
        now=since_us,
    )
    set_static_power(
        node=node, static_power_mw=machine.static_w * 1000, by=made.admin, now=since_us
    )
    issue_node_token(lab=made.lab, node_uuid=machine.uuid, now=since_us)  # nobody knows its text
    return node


def add_rule(made: DemoLab) -> None:
    """Attribute the programs of one person to a project. Those of guests stay unattributed."""
    project = made.lab.projects.get(slug="membranes")
    rule = drafted_rule(
        lab=made.lab,
        criteria=Criteria(os_user="emil"),
        project=project,
        person=made.people["emil"],
        from_us=made.begin_us,
    )
    make_rule(rule=rule, by=made.admin, now=made.begin_us)
