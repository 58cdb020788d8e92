"""The recorded requests of the collector (tests/contract/) are accepted here, and our replies
have the recorded shape.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import time_machine

from apps.accounts.choices import CodePurpose
from apps.accounts.services.labs import issue_code, issue_node_token
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.fleet.services import correct_zone, register_node
from tests.api.conftest import Caller, Labs

CONTRACT = Path(__file__).parents[1] / "contract"


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((CONTRACT / f"{name}.json").read_text(encoding="utf-8"))


def shape(value: Any) -> Any:
    """Return the keys and kinds of a body: what the other side relies on."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


@pytest.fixture
def node(labs: Labs) -> Caller:
    """The node that the recordings speak of."""
    uuid = UUID(recorded("ingest_request")["node"])
    register_node(
        lab=labs.ours.lab, uuid=uuid, hostname="gpu-3", facts={}, site=labs.ours.site, now=1
    )
    run_until_idle(worker="test")
    return Caller(issue_node_token(lab=labs.ours.lab, node_uuid=uuid, now=now_us()))


def test_ingest(node: Caller) -> None:
    body = recorded("ingest_request")
    with time_machine.travel(body["sent_at"] / 1e6, tick=False):
        reply = node("POST", "ingest/", body)
    assert reply.status_code == 200, reply.content
    assert set(reply.json()) == set(recorded("ingest_reply"))
    assert reply.json()["results"] == [["accepted"]] * len(body["windows"]["seq"])
    known = {next(iter(answer)) for answer in recorded("ingest_reply")["results"]}
    assert known == {"accepted", "duplicate", "quarantined", "rejected", "retry"}


@pytest.mark.parametrize(
    ("endpoint", "purpose"), [("enrol", CodePurpose.ENROL), ("login", CodePurpose.LOGIN)]
)
def test_codes(labs: Labs, endpoint: str, purpose: CodePurpose) -> None:
    code = issue_code(purpose=purpose, now=now_us(), lab=labs.ours.lab, user=labs.ours.owner)
    reply = labs.nobody("POST", f"{endpoint}/", {**recorded(f"{endpoint}_request"), "code": code})
    assert reply.status_code == 201, reply.content
    assert shape(reply.json()) == shape(recorded(f"{endpoint}_reply"))
    assert len(reply.json()["token"]) == len(recorded(f"{endpoint}_reply")["token"])


def test_config(node: Caller, labs: Labs) -> None:
    assert shape(node("GET", "config/").json()) == shape(recorded("config_reply"))
    correct_zone(site=labs.ours.site, zone="", by=None, now=now_us())
    run_until_idle(worker="test")
    told, expected = node("GET", "config/").json(), recorded("config_reply_no_zone")
    assert set(told) == set(expected)
    assert told["factor"] is None
    assert told["site"]["zone"] is None
    assert set(told["site"]) == set(expected["site"])


def test_runs(node: Caller) -> None:
    uuid = recorded("run_put_reply")["uuid"]
    put = node("PUT", f"runs/{uuid}/", recorded("run_put"))
    assert put.status_code == 200, put.content
    assert set(recorded("run_put_reply")) <= set(put.json())
    patch = node("PATCH", f"runs/{uuid}/", recorded("run_patch"))
    assert patch.status_code == 200, patch.content
    assert patch.json()["state"] == recorded("run_patch")["state"]


def test_errors(labs: Labs, refused: Callable[..., dict[str, Any]]) -> None:
    error = refused(Caller("lc_node_wrong")("GET", "config/"), 401)
    assert set(error) == set(recorded("error_reply")["error"])
