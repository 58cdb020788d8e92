"""Where no view answers the API keeps its one shape of errors; pages stay pages."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from tests.api.conftest import Labs

pytestmark = pytest.mark.django_db

Refused = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("path", ["projects/", "nothing", "runs/not-a-uuid/", "a/../b/"])
def test_what_is_nowhere(labs: Labs, refused: Refused, method: str, path: str) -> None:
    error = refused(labs.member(method, path), 404, "not_found")
    assert "nothing at this URL" in error["message"]
    assert "/api/docs/" in error["hint"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_changes_something_is_not_sent_on_to_the_slash(
    labs: Labs, refused: Refused, method: str
) -> None:
    """A client that follows sends a GET, without the body: its run would never be registered,
    and it would not know.
    """
    error = refused(labs.member(method, "runs", {"name": "x"}), 404, "not_found")
    assert error["hint"] == "The URL ends with a slash: /api/v1/runs/"


def test_what_is_read_is_sent_on(labs: Labs) -> None:
    told = labs.member("GET", "runs?state=running")
    assert (told.status_code, told["Location"]) == (301, "/api/v1/runs/?state=running")


def test_a_host_that_is_not_ours(client: Client) -> None:
    told = client.get("/api/v1/runs/", headers={"Host": "evil.example.org"})
    assert (told.status_code, told.json()["error"]["code"]) == (400, "bad_request")
    assert b"<h1>" in client.get("/", headers={"Host": "evil.example.org"}).content


def test_what_breaks(labs: Labs, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> HttpResponse:
        raise ZeroDivisionError("the lab's secret")

    monkeypatch.setattr("rest_framework.views.APIView.initial", broken)
    labs.member.client.raise_request_exception = False
    told = labs.member("GET", "runs/")
    assert (told.status_code, told.json()["error"]["code"]) == (500, "server_error")
    assert b"secret" not in told.content
    page = labs.member.client.get("/nowhere/")
    assert (page.status_code, page["Content-Type"]) == (404, "text/html; charset=utf-8")
