"""Cursors of lists: a changed one is refused, and no page repeats."""

from base64 import b64encode
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.services.labs import issue_user_token
from apps.activity.services import record_activity
from apps.core.clock import now_us
from apps.runs.services.runs import RunFacts, put_run
from tests.activity.support import draft
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


@pytest.fixture
def api(small: SmallLab) -> Client:
    token = issue_user_token(lab=small.lab, user=small.owner, now=T0)
    return Client(headers={"authorization": f"Bearer {token}"})


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


CHANGED = [
    "p=abc", "p=%00", "p=NaN", "p=1e400", "p=", "p=None", "p=1.5", "p=" + "9" * 40, "p=--1",
    "p=%D9%A3", "r=1&p=x", "r=x", "o=x", "o=-1", "o=1&p=%ED%A0%80",
]  # fmt: skip


@pytest.mark.parametrize(
    "address", ["activity", "assets", "duplicates", "runs", "runs?sort=-ended"]
)
@pytest.mark.parametrize("text", CHANGED)
def test_a_changed_cursor_is_refused(api: Client, address: str, text: str) -> None:
    _assert_refused(api, address, _encoded(text))


@pytest.mark.parametrize(
    "address", ["activity", "assets", "duplicates", "runs", "runs?sort=name", "artifacts"]
)
@pytest.mark.parametrize("cursor", ["a", "ä", b64encode(b"p=\xff").decode()])
def test_a_text_that_is_no_cursor_is_refused(api: Client, address: str, cursor: str) -> None:
    _assert_refused(api, address, cursor)


@pytest.mark.parametrize("address", ["activity", "assets", "duplicates", "runs", "artifacts"])
@pytest.mark.parametrize("cursor", ["", "====", "\0", "cD0x\n", *map(_encoded, CHANGED)])
def test_no_cursor_is_an_error_of_the_server(api: Client, address: str, cursor: str) -> None:
    assert api.get(f"/api/v1/{address}/", {"cursor": cursor}).status_code < 500


@pytest.mark.parametrize("text", ["p=%00", "p=a%00b", "r=x&p=a", "o=-1&p=a"])
def test_a_changed_cursor_of_runs_by_name_is_refused(api: Client, text: str) -> None:
    _assert_refused(api, "runs?sort=name", _encoded(text))


def test_runs_by_name_are_listed_once(small: SmallLab, api: Client) -> None:
    names = ["ä=&%", "b c", "10", "", "NaN"]
    for name in names:
        put_run(
            lab=small.lab, uuid=uuid4(), by=small.owner, bound_node=None,
            facts=RunFacts(name=name, started_us=T0),
        )  # fmt: skip
    for sort in ("name", "-name", "started", "-ended"):
        listed, address = [], f"/api/v1/runs/?page_size=2&sort={sort}"
        while address:
            page = api.get(address).json()
            listed += [row["name"] for row in page["results"]]
            address = page["next"]
        assert sorted(listed) == sorted(names), sort


def _assert_refused(api: Client, address: str, cursor: str) -> None:
    path, _, query = address.partition("?")
    params = {"cursor": cursor, **dict([query.split("=")] if query else [])}
    response = api.get(f"/api/v1/{path}/", params)
    assert response.status_code in (400, 404)
    assert response.json()["error"]["message"]


def test_activities_with_one_start_are_listed_once(small: SmallLab, api: Client) -> None:
    for number in range(5):
        one = draft(name=f"nas-{number}")
        record_activity(lab=small.lab, draft=one, by=small.owner, now=now_us())
    names, address = [], "/api/v1/activity/?page_size=2"
    while address:
        page = api.get(address).json()
        names += [row["name"] for row in page["results"]]
        address = page["next"]
    assert names == [f"nas-{number}" for number in reversed(range(5))]
