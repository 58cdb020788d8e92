"""/runs/duplicates/ by person, one's own runs, and period."""

import re
from html import unescape

import pytest
from django.test import Client

from apps.accounts.choices import PersonView, Role
from apps.accounts.models import Lab, Membership, User
from apps.core.clock import now_us
from apps.preflight.models import DuplicateFinding
from apps.runs.models import Run
from tests.builders import SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import queries, text_of
from tests.dashboard.test_duplicates import repeats

ADDRESS = "/runs/duplicates/"


@pytest.fixture
def ada(lab: SmallLab) -> User:
    user = User.objects.create_user(username="ada")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.MEMBER)
    return user


@pytest.fixture
def findings(lab: SmallLab, ada: User) -> list[DuplicateFinding]:
    """One of the owner, one of ada that repeats a run of the owner, one charged to ada."""
    [first] = repeats(lab)
    [second] = repeats(lab, first=1, user=ada)
    [third] = repeats(lab, first=2)
    Run.objects.filter(pk=third.run_id).update(charged_person=ada)
    return [first, second, third]


def numbers_on(page: str) -> set[int]:
    return {int(number) for number in re.findall(r'href="/runs/duplicates/(\d+)/"', page)}


def test_by_person_as_in_the_list_of_runs(owner: Client, findings: list[DuplicateFinding]) -> None:
    page = text_of(owner.get(f"{ADDRESS}?person=ada"))
    assert numbers_on(page) == {findings[1].pk, findings[2].pk}
    listed = text_of(owner.get("/runs/?person=ada"))
    assert all(str(finding.run.uuid) in listed for finding in findings[1:])
    assert str(findings[0].run.uuid) not in listed
    assert text_of(owner.get("/runs/duplicates.csv?person=ada")).count("\n") == 3
    assert owner.get(f"{ADDRESS}?person=nobody").status_code == 400


def test_mine_are_those_to_decide_about(
    owner: Client, ada: User, findings: list[DuplicateFinding]
) -> None:
    page = text_of(client_of(ada).get(f"{ADDRESS}?mine=1"))
    assert numbers_on(page) == {findings[1].pk}
    assert page.count('name="item"') == 1
    assert re.search(r'name="mine" value="1" checked', page)
    assert numbers_on(text_of(owner.get(f"{ADDRESS}?mine=1"))) == {f.pk for f in findings}


def test_a_member_does_not_filter_by_another_person(
    lab: SmallLab, ada: User, findings: list[DuplicateFinding]
) -> None:
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=PersonView.PI)
    client = client_of(ada)
    for address in (ADDRESS, "/runs/duplicates.csv"):
        assert client.get(f"{address}?person={lab.owner.username}").status_code == 403
        assert client.get(f"{address}?person=nobody").status_code == 403
        assert client.get(f"{address}?person=ada").status_code == 200


def test_by_period_with_its_bar(owner: Client, findings: list[DuplicateFinding]) -> None:
    Run.objects.filter(pk=findings[0].run_id).update(
        started_us=now_us() - 60_000_000, ended_us=now_us()
    )
    page = text_of(owner.get(f"{ADDRESS}?period=7d&state=all"))
    assert numbers_on(page) == {findings[0].pk}
    assert re.search(r'aria-current="true">7 d<', page)
    assert re.search(r'type="hidden" name="period" value="7d"', page)
    assert "period=7d" in unescape(re.findall(r'href="(/runs/duplicates.csv[^"]*)"', page)[0])
    days = "from=2026-11-02&to=2026-11-02"
    expected = {findings[1].pk, findings[2].pk}
    assert numbers_on(text_of(owner.get(f"{ADDRESS}?{days}"))) == expected
    response = owner.get(f"{ADDRESS}?first_day=2026-11-02&last_day=2026-11-02&person=ada")
    assert response["Location"] == f"{ADDRESS}?person=ada&{days}"
    assert owner.get(f"{ADDRESS}?period=eon").status_code == 400


def test_filters_stay_in_links_and_need_no_further_query(
    lab: SmallLab, owner: Client, findings: list[DuplicateFinding]
) -> None:
    repeats(lab, 2, first=3)
    page = text_of(owner.get(f"{ADDRESS}?mine=1&period=year&sort=energy"))
    [family] = {unescape(h) for h in re.findall(r'href="([^"]*family=[^"]*)"', page)}
    assert {"mine=1", "period=year"} <= set(family.removeprefix("?").split("&"))
    assert queries(owner, f"{ADDRESS}?mine=1&period=year") <= queries(owner, ADDRESS)
