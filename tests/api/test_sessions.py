"""API requests with a session: they need the CSRF header, whatever the type of the body."""

import pytest
from django.test import Client

from tests.api.conftest import Labs

pytestmark = pytest.mark.django_db

CSRF = "a" * 32
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
ADDRESSES = ["ingest/", "runs/bulk/", "assets/import/", "artifacts/", "enrol/"]


def _post(labs: Labs, address: str, kind: str, body: bytes, *, csrf: str = "") -> int:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(labs.ours.owner)
    client.cookies["csrftoken"] = CSRF
    headers = {"X-CSRFToken": csrf} if csrf else {}
    reply = client.generic("POST", f"/api/v1/{address}", body, content_type=kind, headers=headers)
    return reply.status_code


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "kind", [JSON, FORM, "multipart/form-data; boundary=x", "multipart/form-data"]
)
@pytest.mark.parametrize("body", [b"", b"{}", b"a=b", b'["a"]', b"--x--"])
def test_no_body_makes_a_server_error(labs: Labs, address: str, kind: str, body: bytes) -> None:
    for csrf in ("", CSRF):
        assert _post(labs, address, kind, body, csrf=csrf) < 500


@pytest.mark.parametrize("kind", [JSON, FORM])
def test_a_session_without_the_csrf_header_is_refused(labs: Labs, kind: str) -> None:
    body = f"csrfmiddlewaretoken={CSRF}".encode() if kind == FORM else b"{}"
    assert _post(labs, "artifacts/", kind, body) == 403
    assert _post(labs, "artifacts/", JSON, b"{}", csrf=CSRF) == 400
