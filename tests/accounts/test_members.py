"""Roles and removal: only an admin, never the last one, and two at once leave one."""

import threading

import pytest
from django.db import connection

from apps.accounts.audit import verify
from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Membership, User
from apps.accounts.services.members import change_role, remove_member
from apps.core.errors import Conflict, Forbidden, InvalidInput, LabCarbonError, NotFound
from tests.api.conftest import add_person
from tests.builders import T0, SmallLab, small_lab


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.PI])
def test_only_an_admin_changes_people(lab: SmallLab, people: dict[str, User], role: Role) -> None:
    for person in people.values():
        with pytest.raises(Forbidden):
            change_role(lab=lab.lab, person=person, role=Role.ADMIN, by=people[role], now=T0)
        with pytest.raises(Forbidden):
            remove_member(lab=lab.lab, person=person, by=people[role], now=T0)
    assert lab.lab.memberships.count() == 4


def test_an_admin_of_another_lab_changes_nobody_here(
    lab: SmallLab, people: dict[str, User]
) -> None:
    other = small_lab(name="Other Lab")
    with pytest.raises(Forbidden):
        remove_member(lab=lab.lab, person=people["viewer"], by=other.owner, now=T0)
    with pytest.raises(NotFound):
        remove_member(lab=other.lab, person=people["viewer"], by=other.owner, now=T0)
    with pytest.raises(NotFound):
        change_role(lab=lab.lab, person=other.owner, role=Role.VIEWER, by=lab.owner, now=T0)


def test_removal_reaches_no_other_lab(lab: SmallLab, people: dict[str, User]) -> None:
    other = small_lab(name="Other Lab")
    Membership.objects.create(lab=other.lab, user=people["pi"], role=Role.ADMIN)
    remove_member(lab=lab.lab, person=people["pi"], by=lab.owner, now=T0)
    assert Membership.objects.get(user=people["pi"]).lab == other.lab
    assert not AuditEntry.objects.filter(lab=other.lab, action="member.removed").exists()


def test_the_last_admin_stays(lab: SmallLab, people: dict[str, User]) -> None:
    for act in (
        lambda: remove_member(lab=lab.lab, person=lab.owner, by=lab.owner, now=T0),
        lambda: change_role(lab=lab.lab, person=lab.owner, role=Role.PI, by=lab.owner, now=T0),
    ):
        with pytest.raises(Conflict) as told:
            act()
        assert "another person the role admin" in told.value.hint
    with pytest.raises(InvalidInput):
        change_role(lab=lab.lab, person=lab.owner, role="owner", by=lab.owner, now=T0)
    assert (
        change_role(lab=lab.lab, person=lab.owner, role=Role.ADMIN, by=lab.owner, now=T0).role
        == Role.ADMIN
    )


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ["remove", "demote"])
def test_two_admins_against_each_other_leave_one(act: str) -> None:
    lab = small_lab()
    other = add_person(lab, Role.ADMIN)
    start, heard = threading.Barrier(2), []

    def strike(by: User, person: User) -> None:
        try:
            start.wait(30)
            if act == "remove":
                remove_member(lab=lab.lab, person=person, by=by, now=T0)
            else:
                change_role(lab=lab.lab, person=person, role=Role.VIEWER, by=by, now=T0)
            heard.append("done")
        except LabCarbonError as error:
            heard.append(error.code)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=strike, args=pair)
        for pair in ((lab.owner, other), (other, lab.owner))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(heard) == ["done", "forbidden"]
    assert lab.lab.memberships.filter(role=Role.ADMIN).count() == 1
    assert verify(lab.lab) is None
