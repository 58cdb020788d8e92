"""POST /api/v1/nodes/problem/: why a collector does not start, until its next upload."""

from collections.abc import Callable
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.test import Client

from apps.core.units import US_PER_S
from apps.fleet.services import restore_node, retire_node
from tests.api.conftest import Labs
from tests.builders import T0, W, push
from tests.dashboard.conftest import client_of
from tests.dashboard.support import HOSTILE, text_of

Refused = Callable[..., dict[str, Any]]
PROBLEM = {"message": "LABCARBON_SOURCES is 'nvlm': use nvml, rapl"}


def overview(labs: Labs) -> str:
    client: Client = client_of(labs.ours.owner)
    return text_of(client.get("/"))


def has_alert(labs: Labs) -> bool:
    return 'data-alert="start-problem"' in overview(labs)


def test_it_is_on_the_overview_until_the_next_upload(labs: Labs) -> None:
    assert not has_alert(labs)
    response = labs.node("POST", "nodes/problem/", PROBLEM)
    assert response.status_code == 200
    assert response.json()["since"] > 0
    page = overview(labs)
    assert page.count('data-alert="start-problem"') == 1
    assert 'data-alert="silent"' not in page, "one alert per node"
    assert "use nvml, rapl" in page
    node_page = text_of(client_of(labs.ours.owner).get(f"/nodes/{labs.ours.node.uuid}/"))
    assert "data-start-problem" in node_page
    push(labs.ours.node, [W("gpu:GPU-1", 1)])
    assert not has_alert(labs)


def test_the_same_again_changes_nothing(labs: Labs) -> None:
    with time_machine.travel(T0 / US_PER_S, tick=False) as clock:
        first = labs.node("POST", "nodes/problem/", PROBLEM).json()
        clock.shift(60)
        assert labs.node("POST", "nodes/problem/", PROBLEM).json() == first
        clock.shift(60)
        other = labs.node("POST", "nodes/problem/", {"message": "the spool is full"}).json()
    assert other["since"] == first["since"] + 120 * US_PER_S
    page = overview(labs)
    assert "the spool is full" in page
    assert "nvlm" not in page


def test_a_retired_node_has_no_problem(labs: Labs, refused: Refused) -> None:
    labs.node("POST", "nodes/problem/", PROBLEM)
    retire_node(node=labs.ours.node, by=labs.ours.owner, now=T0)
    assert not has_alert(labs)
    refused(labs.node("POST", "nodes/problem/", PROBLEM), 401)
    labs.ours.node.refresh_from_db()
    restore_node(node=labs.ours.node, by=labs.ours.owner, now=T0)
    assert not has_alert(labs)


def test_nothing_of_another_lab(labs: Labs) -> None:
    assert labs.their_node("POST", "nodes/problem/", PROBLEM).status_code == 200
    assert not has_alert(labs)


@pytest.mark.parametrize("who", ["admin", "member", "viewer", "outsider"])
def test_a_person_has_no_collector(labs: Labs, refused: Refused, who: str) -> None:
    refused(getattr(labs, who)("POST", "nodes/problem/", PROBLEM), 403)


def test_anonymous(labs: Labs, refused: Refused) -> None:
    refused(labs.nobody("POST", "nodes/problem/", PROBLEM), 401)


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.node(method, "nodes/problem/"), 405)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": ""},
        {"message": " \n "},
        {"message": None},
        {"message": ["x"]},
        {"message": "x" * 301},
        {"message": "a\0b"},
        {"message": "x", "node": "7f1d3b52-2222-4333-8444-555566667777"},
        [],
        b'{"message": "\\ud800"}',
        b"{",
    ],
)
def test_invalid_input(labs: Labs, refused: Refused, body: Any) -> None:
    refused(labs.node("POST", "nodes/problem/", body), 400)
    assert not has_alert(labs)


def test_a_message_is_text_and_one_line(labs: Labs) -> None:
    message = f"a\n\tb {HOSTILE}"
    assert labs.node("POST", "nodes/problem/", {"message": message}).status_code == 200
    page = overview(labs)
    assert HOSTILE not in page
    labs.ours.node.refresh_from_db()
    assert labs.ours.node.start_problem == f"a b {HOSTILE}"


def test_too_many(labs: Labs, refused: Refused) -> None:
    cache.clear()
    for i in range(12):
        assert labs.node("POST", "nodes/problem/", {"message": f"{i}"}).status_code == 200
    response = labs.node("POST", "nodes/problem/", PROBLEM)
    refused(response, 429)
    assert int(response["Retry-After"]) > 0
    assert labs.their_node("POST", "nodes/problem/", PROBLEM).status_code == 200
    cache.clear()
