"""Every address answers 503 with Retry-After while the database is away or locked."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.core.cache import cache
from django.db import OperationalError, connection, transaction
from django.test import Client

from apps.accounts.authentication import forget_tokens
from apps.accounts.models import Token
from tests.attacks.conftest import RUN, World
from tests.attacks.hostile_targets import bodies_of
from tests.attacks.routes import address, routes

pytestmark = pytest.mark.django_db

VISITORS = ("anonymous", "node", "token", "admin")
_WRITES = ("INSERT", "UPDATE", "DELETE")


class Outage:
    """Lets queries fail as a driver does. ``refused`` counts them."""

    def __init__(self, *, writes_only: bool) -> None:
        self.writes_only, self.refused = writes_only, 0

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        verb = sql.lstrip().partition(" ")[0].upper()
        # The test's own transaction goes on.
        is_own = verb in {"SAVEPOINT", "RELEASE", "ROLLBACK"}
        if is_own or (self.writes_only and verb not in _WRITES):
            return execute(sql, params, many, context)
        self.refused += 1
        raise OperationalError("server closed the connection unexpectedly\n\tat 10.0.0.1")


@contextmanager
def outage(*, writes_only: bool) -> Iterator[Outage]:
    made = Outage(writes_only=writes_only)
    with connection.execute_wrapper(made):
        yield made


def _wrong(client: Client, method: str, path: str, body: Any, *, writes_only: bool) -> str:
    """Send a request during an outage. Returns what is wrong with the response, or ''."""
    cache.clear()
    forget_tokens()
    kept = client.cookies.output()
    with transaction.atomic(), outage(writes_only=writes_only) as away:
        response = client.generic(method, path, body, content_type="application/json")
        content = b"".join(response) if response.streaming else response.content
        transaction.set_rollback(True)
    client.cookies.load(kept.replace("Set-Cookie: ", ""))
    if b"10.0.0.1" in content:
        return f"{method} {path}: shows the driver's message"
    if response.status_code == 503 and not response.has_header("Retry-After"):
        return f"{method} {path}: 503 without Retry-After"
    if response.status_code > 503 or response.status_code in range(500, 503):
        return f"{method} {path}: {response.status_code}"
    if away.refused and response.status_code != 503:
        return f"{method} {path}: {response.status_code} after a failed query"
    return ""


@pytest.mark.parametrize("visitor", VISITORS)
@pytest.mark.parametrize("writes_only", [False, True], ids=["away", "locked"])
def test_every_address_answers_503(world: World, visitor: str, writes_only: bool) -> None:
    client = world.visitors[visitor]
    requests: list[tuple[str, str, bytes]] = []
    for path in (address(route, world.ours, RUN) for route in sorted(routes())):
        requests += [("GET", path, b""), ("POST", path, b"{}")]
        if path.startswith("/api/"):
            requests += [(method, path, b"{}") for method in ("PUT", "PATCH", "DELETE")]
    wrong = [
        _wrong(client, method, path, body, writes_only=writes_only)
        for method, path, body in requests
    ]
    assert [line for line in wrong if line] == []


@pytest.mark.parametrize("visitor", ["node", "token", "anonymous"])
def test_valid_bodies_while_the_database_is_locked(world: World, visitor: str) -> None:
    client = world.visitors[visitor]
    wrong = [
        _wrong(client, method, path, json.dumps(body).encode(), writes_only=True)
        for method, path, body in bodies_of(world.ours, RUN)
    ]
    assert [line for line in wrong if line] == []


def test_the_lookup_of_a_token_is_answered_as_json(world: World) -> None:
    forget_tokens()
    with outage(writes_only=False):
        response = world.visitors["node"].post("/api/v1/ingest/", b"{}", "application/json")
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert response.json()["error"]["code"] == "unavailable"


def test_the_last_use_of_a_token_is_answered_as_json(world: World) -> None:
    forget_tokens()
    Token.objects.update(last_used_us=None)
    with outage(writes_only=True) as away:
        response = world.visitors["token"].get("/api/v1/runs/")
    assert away.refused == 1
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "unavailable"


def test_a_page_names_the_problem(world: World) -> None:
    with outage(writes_only=False):
        response = world.visitors["admin"].get("/nodes/")
    assert response.status_code == 503
    assert 'data-problem="unavailable"' in response.content.decode()


def test_an_error_outside_of_views(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are saved by middleware, after the view."""

    def fail(self: SessionStore, must_create: bool = False) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(SessionStore, "save", fail)
    monkeypatch.setattr("django.conf.settings.SESSION_SAVE_EVERY_REQUEST", True)
    response = world.visitors["admin"].get("/nodes/")
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
