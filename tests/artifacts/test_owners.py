"""Whose an artifact is: of who ran what made it, of who says it is theirs, of whom a rule names;
never of who scanned it.
"""

import pytest

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.artifacts.models import Artifact
from apps.artifacts.services.owners import assign_owners
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
from apps.core.clock import now_us
from apps.runs.services.runs import RunFacts, put_run
from tests.artifacts.support import register_rows, row
from tests.builders import T0, SmallLab

pytestmark = pytest.mark.django_db
UUID = "77777777-7777-4777-8777-77777777777{}"


@pytest.fixture
def ana(lab: SmallLab) -> User:
    person = User.objects.create_user(username="ana")
    Membership.objects.create(lab=lab.lab, user=person, role=Role.MEMBER)
    return person


def on(path: str) -> dict[str, object]:
    return {"copies": [{"path": path}]}


def owner_of(name: str) -> User | None:
    return Artifact.objects.get(name=name).owner


def named(lab: SmallLab) -> int:
    return assign_owners(lab=lab.lab, node=lab.node, now=now_us())


def ran(lab: SmallLab, number: int, os_user: str, person: User | None) -> None:
    facts = RunFacts(name="r", started_us=T0, os_user=os_user)
    put_run(
        lab=lab.lab, uuid=UUID.format(number), facts=facts, by=person, bound_node=None, now=now_us()
    )


def test_who_scans_a_disk_does_not_own_what_lies_there(lab: SmallLab, ana: User) -> None:
    register_rows(lab, row("theirs", **on("/theirs"), user="ben"), by=ana)
    register_rows(lab, row("mine", **on("/mine"), user="ana", own=True), by=ana)
    register_rows(lab, row("somebody's", **on("/x")), by=ana)
    assert [owner_of(name) for name in ("theirs", "mine", "somebody's")] == [None, ana, None]
    register_rows(lab, row("theirs", **on("/copy"), user="ana", own=True), by=ana)
    assert owner_of("theirs") == ana, "their own copy of it, and nobody else is known"


def test_a_rule_of_the_lab_names_the_person(lab: SmallLab, ana: User) -> None:
    register_rows(
        lab,
        row("a", **on("/a"), user="ana"),
        row("b", **on("/b"), user="ben"),
        row("c", **on("/c"), user="-"),
    )
    rule = drafted_rule(
        lab=lab.lab, criteria=Criteria(os_user="ana"), project=None, person=ana, from_us=0
    )
    make_rule(rule=rule, by=lab.owner, now=T0)
    assert (named(lab), named(lab)) == (1, 0)
    assert [owner_of(name) for name in "abc"] == [ana, None, None]


def test_else_the_one_person_who_ran_something_as_that_user(lab: SmallLab, ana: User) -> None:
    register_rows(
        lab,
        row("a", **on("/a"), user="ana"),
        row("b", **on("/b"), user="root"),
        row("c", **on("/c"), user="ci"),
    )
    ran(lab, 1, "ana", ana)
    ran(lab, 2, "ana", ana)
    ran(lab, 3, "ana", None)
    ran(lab, 4, "root", ana)
    ran(lab, 5, "root", lab.owner)
    assert named(lab) == 1
    assert [owner_of(name) for name in "abc"] == [ana, None, None], (
        "two people are root, and nobody is ci"
    )


def test_an_owner_who_is_known_stays(lab: SmallLab, ana: User) -> None:
    register_rows(lab, row("a", **on("/a"), user="ana"))
    Artifact.objects.update(owner=lab.owner)
    ran(lab, 1, "ana", ana)
    assert named(lab) == 0
    assert owner_of("a") == lab.owner
