"""Runs, failed runs and duplicates on the page of a person."""

import re
from html import unescape
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.runs.models import Run
from tests.builders import T0, SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    PERIOD,
    assert_each_figure_explains_itself,
    queries,
    text_of,
)
from tests.dashboard.test_duplicates import decided, repeats


@pytest.fixture
def ada(lab: SmallLab) -> User:
    user = User.objects.create_user(username="ada")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.MEMBER)
    return user


@pytest.fixture
def runs(lab: SmallLab, owner: Client, ada: User) -> None:
    """Three duplicates of ada with 6 000 001 mJ each: one confirmed, one failed; a failed run
    without energy; one run of the owner.
    """
    findings = repeats(lab, 3, user=ada)
    decided(owner, findings[:1], "confirmed")
    Run.objects.filter(pk=findings[1].run_id).update(state="failed")
    Run.objects.create(
        lab=lab.lab, uuid=uuid4(), name="broken", user=ada, started_us=T0, ended_us=T0,
        state="failed",
    )  # fmt: skip
    repeats(lab, first=1)


def kinds_on(page: str) -> dict[str, int]:
    kinds = re.findall(r'data-kind="(\w+)" data-number="(\d+)"', page)
    return {kind: int(number) for kind, number in kinds}


def row_of(page: str, kind: str) -> str:
    return page.partition(f'data-kind="{kind}"')[2].partition("</tr>")[0]


def test_runs_with_the_most_energy_and_links_to_the_lists(
    lab: SmallLab, owner: Client, ada: User, runs: None
) -> None:
    for client in (owner, client_of(ada)):
        page = text_of(client.get(f"/people/{ada.pk}/?{PERIOD}"))
        assert 'data-runs="4"' in page
        names = re.findall(r'href="/runs/[0-9a-f-]{36}/">([^<]*)<', page)
        assert len(names) == 4
        assert names[-1] == "broken"  # unknown energy is last
        assert_each_figure_explains_itself(client, page)
        [href] = set(re.findall(r'href="(/runs/\?person=[^"]*sort=[^"]*)"', page))
        assert 'data-total="4"' in text_of(client.get(unescape(href)))


def test_failed_runs_and_duplicates_are_those_of_their_lists(
    owner: Client, ada: User, runs: None
) -> None:
    page = text_of(owner.get(f"/people/{ada.pk}/?{PERIOD}"))
    assert kinds_on(page) == {"failed": 2, "open": 2, "confirmed": 1}
    failed = row_of(page, "failed")
    assert "data-would" in failed
    assert 'data-unmeasured-runs="1"' in failed
    assert "6,000,001" in failed.replace("\u202f", ",").replace("\u2009", ",")
    for kind, number in kinds_on(page).items():
        [href] = re.findall(r'href="([^"]+)"', row_of(page, kind))
        assert owner.get(unescape(href)).status_code == 200
        csv = text_of(owner.get(unescape(href).replace("/?", ".csv?")))
        assert csv.count("\n") == number + 1


def test_another_period_has_none_and_zero_is_not_unknown(
    owner: Client, ada: User, runs: None
) -> None:
    page = text_of(owner.get(f"/people/{ada.pk}/?from=2026-10-01T00:00Z&to=2026-10-02T00:00Z"))
    assert 'data-runs="0"' in page
    assert not kinds_on(page)
    Run.objects.filter(state="failed").update(state="finished")
    row = row_of(text_of(owner.get(f"/people/{ada.pk}/?{PERIOD}")), "failed")
    assert "unknown" not in row
    assert "href" not in row


def test_others_see_nothing_of_it(viewer: Client, ada: User, runs: None) -> None:
    assert viewer.get(f"/people/{ada.pk}/?{PERIOD}").status_code == 403


def test_queries_do_not_grow(lab: SmallLab, owner: Client, ada: User, runs: None) -> None:
    address = f"/people/{ada.pk}/?{PERIOD}"
    before = queries(owner, address)
    repeats(lab, 9, first=2, user=ada)
    Run.objects.filter(user=ada).update(state="failed")
    assert queries(owner, address) <= before
