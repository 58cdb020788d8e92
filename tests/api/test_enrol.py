"""POST /api/v1/enrol/: a one-time code becomes the token of one node."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.choices import CodePurpose
from apps.accounts.models import OneTimeCode, Token
from apps.accounts.services.labs import CODE_LIFE_US, issue_code
from apps.core.clock import now_us
from apps.fleet.models import Node, Placement
from tests.api.conftest import Caller, Labs
from tests.builders import W, batch_body

Refused = Callable[..., dict[str, Any]]


def _code(
    labs: Labs, *, now: int | None = None, uses: int = 1, purpose: CodePurpose = CodePurpose.ENROL
) -> str:
    return issue_code(
        purpose=purpose, now=now or now_us(), lab=labs.ours.lab, user=labs.ours.owner, uses=uses
    )


def _body(code: str, **more: object) -> dict[str, object]:
    return {
        "code": code,
        "node": str(uuid.uuid4()),
        "hostname": "gpu-7",
        "facts": {"cpu": "x"},
        **more,
    }


def test_it_works_and_the_token_pushes(labs: Labs) -> None:
    body = _body(_code(labs))
    reply = labs.nobody("POST", "enrol/", body)
    assert reply.status_code == 201, reply.content
    told = reply.json()
    assert told["node"] == body["node"]
    assert told["lab"] == labs.ours.lab.slug
    node = Node.objects.get(uuid=str(body["node"]))
    assert node.lab == labs.ours.lab
    assert Placement.objects.get(node=node).site == labs.ours.site
    pushed = Caller(told["token"])("POST", "ingest/", batch_body(node, [W("gpu:GPU-1234", 5)]))
    assert pushed.json()["results"] == [["accepted"]]


def test_no_live_secret_is_stored(labs: Labs) -> None:
    code = _code(labs)
    token = labs.nobody("POST", "enrol/", _body(code)).json()["token"]
    stored = [
        *Token.objects.values_list("digest", "public_id", "scopes"),
        *OneTimeCode.objects.values_list("digest"),
    ]
    secret = token.split("_")[3]
    assert not any(
        part in str(stored) for part in (token, secret, secret[:43], code, code.replace("-", ""))
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.nobody(method, "enrol/"), 405)


def test_a_code_works_as_often_as_it_says(labs: Labs, refused: Refused) -> None:
    code = _code(labs, uses=2)
    assert [labs.nobody("POST", "enrol/", _body(code)).status_code for _ in range(3)] == [
        201,
        201,
        400,
    ]
    error = refused(labs.nobody("POST", "enrol/", _body(code)), 400, "bad_code")
    assert "/nodes/enrol/" in error["hint"]


def test_unknown_expired_and_foreign_codes_get_one_answer(labs: Labs, refused: Refused) -> None:
    old = _code(labs, now=now_us() - CODE_LIFE_US[CodePurpose.ENROL] - 1)
    other = _code(labs, purpose=CodePurpose.LOGIN)
    answers = [
        refused(labs.nobody("POST", "enrol/", _body(code)), 400)
        for code in ("AAAAA-BBBBB", old, other, "")
    ]
    assert answers[0] == answers[1] == answers[2]
    assert not Node.objects.filter(hostname="gpu-7").exists()


def test_a_node_of_another_lab_is_not_taken_over(labs: Labs, refused: Refused) -> None:
    code = _code(labs)
    error = refused(
        labs.nobody("POST", "enrol/", _body(code, node=str(labs.theirs.node.uuid))), 409, "conflict"
    )
    assert "LABCARBON_NODE_ID" in error["hint"]
    assert labs.nobody("POST", "enrol/", _body(code)).status_code == 201, (
        "a refused enrolment must not use up the code"
    )


def test_enrolling_again_ends_the_earlier_token(labs: Labs, refused: Refused) -> None:
    node = str(uuid.uuid4())
    first = labs.nobody("POST", "enrol/", _body(_code(labs), node=node)).json()["token"]
    second = labs.nobody("POST", "enrol/", _body(_code(labs), node=node)).json()["token"]
    refused(Caller(first)("GET", "config/"), 401)
    assert Caller(second)("GET", "config/").status_code == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"node": "not-a-uuid"}, "node"),
        ({"hostname": ""}, "hostname"),
        ({"hostname": "h" * 300}, "hostname"),
        ({"hostname": "a\x00b"}, "hostname"),
        ({"colour": "blue"}, "colour"),
        ({"facts": []}, "facts"),
        ({"facts": {"k": "v" * 2000}}, "facts"),
        ({"code": None}, "code"),
    ],
)
def test_bad_input(labs: Labs, refused: Refused, change: dict[str, object], field: str) -> None:
    error = refused(labs.nobody("POST", "enrol/", {**_body(_code(labs)), **change}), 400)
    assert error["field"].split(".")[0] == field


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"text"', b"\xff"])
def test_no_object(labs: Labs, refused: Refused, body: bytes) -> None:
    refused(labs.nobody("POST", "enrol/", body), 400)


def test_guessing_is_slowed_down(labs: Labs, refused: Refused) -> None:
    statuses = [labs.nobody("POST", "enrol/", _body("AAAAA")).status_code for _ in range(31)]
    assert statuses == [400] * 30 + [429]
    last = labs.nobody("POST", "enrol/", _body("AAAAA"), **{"X-Forwarded-For": "203.0.113.9"})
    refused(last, 429)
    assert int(last["Retry-After"]) > 0
