"""Two labs, with one API client of each kind."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import pytest
from django.http import HttpResponse
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.accounts.services.labs import issue_node_token, issue_user_token
from apps.core.clock import now_us
from tests.builders import SmallLab, small_lab

MEND = {"not_authenticated", "bad_token"}


@dataclass
class Caller:
    """Sends API requests with one token (or none)."""

    token: str | None
    client: Client = field(default_factory=Client)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        content = (
            body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        )
        kind = headers.pop("content_type", "application/json")
        return self.client.generic(
            method, f"/api/v1/{path}", content, content_type=kind, headers=headers
        )  # type: ignore[return-value]


class Labs:
    """Our lab with a caller of each kind, and a member and a node of another lab.

    Each is created on first access.
    """

    @cached_property
    def nobody(self) -> Caller:
        return Caller(None)

    @cached_property
    def ours(self) -> SmallLab:
        return small_lab(name="Ours")

    @cached_property
    def theirs(self) -> SmallLab:
        return small_lab(name="Theirs", zone="FR")

    @cached_property
    def admin(self) -> Caller:
        return Caller(issue_user_token(lab=self.ours.lab, user=self.ours.owner, now=now_us()))

    @cached_property
    def member(self) -> Caller:
        return _person(self.ours, Role.MEMBER)

    @cached_property
    def viewer(self) -> Caller:
        return _person(self.ours, Role.VIEWER)

    @cached_property
    def node(self) -> Caller:
        return _machine(self.ours)

    @cached_property
    def outsider(self) -> Caller:
        return _person(self.theirs, Role.ADMIN)

    @cached_property
    def their_node(self) -> Caller:
        return _machine(self.theirs)


def _person(small: SmallLab, role: str) -> Caller:
    return Caller(issue_user_token(lab=small.lab, user=add_person(small, role), now=now_us()))


def _machine(small: SmallLab) -> Caller:
    return Caller(issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=now_us()))


def add_person(small: SmallLab, role: str) -> User:
    """Add a person to a lab."""
    user = User.objects.create_user(
        username=f"{role}-{uuid.uuid4().hex[:6]}", password="correct horse battery"
    )
    Membership.objects.create(lab=small.lab, user=user, role=role)
    return user


@pytest.fixture
def labs(db: None) -> Labs:
    made = Labs()
    made.ours  # noqa: B018 - creates the lab before a test counts queries
    return made


@pytest.fixture
def refused() -> Callable[..., dict[str, Any]]:
    """Return a function that asserts the error format, the message and the hint.

    It returns the error.
    """

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
