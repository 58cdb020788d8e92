"""POST /api/v1/login/: a code shown in the browser becomes a person's token."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.choices import CodePurpose, Role
from apps.accounts.models import Membership
from apps.accounts.services.labs import issue_code
from apps.core.clock import now_us
from tests.api.conftest import Caller, Labs, add_person

Refused = Callable[..., dict[str, Any]]


def _code(labs: Labs, role: str = Role.MEMBER) -> str:
    return issue_code(
        purpose=CodePurpose.LOGIN, now=now_us(), lab=labs.ours.lab, user=add_person(labs.ours, role)
    )


def test_it_works_once(labs: Labs, refused: Refused) -> None:
    code = _code(labs)
    reply = labs.nobody("POST", "login/", {"code": code.lower().replace("-", " ")})
    assert reply.status_code == 201, reply.content
    assert set(reply.json()) == {"token", "user", "lab"}
    assert Caller(reply.json()["token"])("GET", "runs/").status_code == 200
    error = refused(labs.nobody("POST", "login/", {"code": code}), 400, "bad_code")
    assert "labcarbon-collect login" in error["hint"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.nobody(method, "login/"), 405)


def test_the_token_can_do_what_its_owner_may_and_no_more(labs: Labs, refused: Refused) -> None:
    token = Caller(
        labs.nobody("POST", "login/", {"code": _code(labs, Role.VIEWER)}).json()["token"]
    )
    assert token("GET", "runs/").status_code == 200
    refused(
        token(
            "PUT",
            "runs/7f1d3b52-2222-4333-8444-555566667777/",
            {"name": "x", "started_at": "2026-11-02T08:00Z"},
        ),
        403,
    )


def test_a_person_who_left_gets_no_token(labs: Labs, refused: Refused) -> None:
    code = _code(labs)
    Membership.objects.filter(lab=labs.ours.lab, role=Role.MEMBER).delete()
    response = labs.nobody("POST", "login/", {"code": code})
    assert response.status_code in {400, 403}, response.content


@pytest.mark.parametrize(
    "body", [{}, {"code": 5.5}, {"code": "x" * 65}, {"code": "AAAAA", "scope": "admin"}]
)
def test_bad_input(labs: Labs, refused: Refused, body: dict[str, object]) -> None:
    refused(labs.nobody("POST", "login/", body), 400)
