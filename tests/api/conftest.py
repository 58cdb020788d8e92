"""Two labs, and one caller of each kind."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from django.http import HttpResponse
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.accounts.services import issue_node_token, issue_user_token
from apps.core.clock import now_us
from tests.builders import SmallLab, small_lab

MEND = {"not_authenticated", "bad_token"}


@dataclass
class Caller:
    """Speaks to the API with one token (or none)."""

    token: str | None
    client: Client = field(default_factory=Client)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        kind = headers.pop("content_type", "application/json")
        return self.client.generic(method, f"/api/v1/{path}", content, content_type=kind, headers=headers)  # type: ignore[return-value]


@dataclass
class Labs:
    """Our lab with a caller of each kind, and another lab's member and node."""

    ours: SmallLab
    theirs: SmallLab
    admin: Caller
    member: Caller
    viewer: Caller
    node: Caller
    outsider: Caller
    their_node: Caller
    nobody: Caller


def add_person(small: SmallLab, role: str) -> User:
    """Add a person to a lab."""
    user = User.objects.create_user(username=f"{role}-{uuid.uuid4().hex[:6]}", password="correct horse battery")
    Membership.objects.create(lab=small.lab, user=user, role=role)
    return user


@pytest.fixture
def labs(db: None) -> Labs:
    ours, theirs = small_lab(name="Ours"), small_lab(name="Theirs", zone="FR")
    now = now_us()

    def person(small: SmallLab, role: str) -> Caller:
        return Caller(issue_user_token(lab=small.lab, user=add_person(small, role), now=now))

    def machine(small: SmallLab) -> Caller:
        return Caller(issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=now))

    return Labs(
        ours=ours,
        theirs=theirs,
        admin=Caller(issue_user_token(lab=ours.lab, user=ours.owner, now=now)),
        member=person(ours, Role.MEMBER),
        viewer=person(ours, Role.VIEWER),
        node=machine(ours),
        outsider=person(theirs, Role.ADMIN),
        their_node=machine(theirs),
        nobody=Caller(None),
    )


@pytest.fixture
def refused() -> Callable[..., dict[str, Any]]:
    """Assert the one error shape, a plain message and a mend; return the error."""

    def check(response: HttpResponse, status: int, code: str | None = None) -> dict[str, Any]:
        assert response.status_code == status, response.content
        body = msgspec.json.decode(response.content)
        assert set(body) == {"error"}
        error: dict[str, Any] = body["error"]
        assert set(error) == {"code", "message", "field", "hint"}
        assert error["message"]
        assert "Traceback" not in error["message"]
        if code:
            assert error["code"] == code
        if error["code"] in MEND:
            assert "labcarbon-collect" in error["hint"]
            assert response["WWW-Authenticate"] == "Bearer"
        return error

    return check
