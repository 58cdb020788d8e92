"""Cursors of lists: a changed one is refused, and no page repeats."""

from base64 import b64encode

import pytest
from django.test import Client

from apps.accounts.services.labs import issue_user_token
from apps.activity.services import record_activity
from apps.core.clock import now_us
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


@pytest.mark.parametrize("address", ["activity", "assets", "duplicates"])
@pytest.mark.parametrize(
    "text", ["p=abc", "p=%00", "p=NaN", "p=1e400", "p=", "p=9" * 40, "r=1&p=x"]
)
def test_a_changed_cursor_is_refused(api: Client, address: str, text: str) -> None:
    cursor = b64encode(text.encode()).decode()
    assert api.get(f"/api/v1/{address}/", {"cursor": cursor}).status_code in (400, 404)


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
