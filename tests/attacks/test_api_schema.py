"""Requests that schemathesis makes of the API schema: none makes a server error.

``LABCARBON_SEED`` repeats a run.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from tests.attacks.conftest import World
from tests.examples import examples
from tests.faults.seed import HOSTILE_REQUESTS, SEED

SCHEMA = Path(__file__).parents[2] / "docs" / "api" / "openapi.yaml"
OPERATIONS = {
    result.ok().label: result.ok()
    for result in schemathesis.openapi.from_path(SCHEMA).get_all_operations()
}
VISITORS = ("token", "node", "admin", "anonymous")
REQUESTS = examples(max(10, -(-HOSTILE_REQUESTS // len(OPERATIONS))))
JSON = "application/json"


def _send(client: Client, case: Any) -> Any:
    """Send a case and undo what it wrote."""
    arguments = case.as_transport_kwargs(base_url="http://testserver")
    arguments.pop("cookies", None)
    prepared = requests.Request(**arguments).prepare()
    body = prepared.body or b""
    url = urlsplit(prepared.url)
    headers = {
        f"HTTP_{name.upper().replace('-', '_')}": value.decode("latin-1")
        if isinstance(value, bytes)
        else value
        for name, value in prepared.headers.items()
        if name.lower() not in {"content-type", "content-length", "authorization", "cookie"}
    }
    with transaction.atomic():
        response = client.generic(
            prepared.method or "GET",
            url.path or "/",
            body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass"),
            content_type=str(prepared.headers.get("Content-Type", JSON)),
            QUERY_STRING=url.query,
            **headers,
        )
        list(response) if response.streaming else response.content  # type: ignore[attr-defined]
        transaction.set_rollback(True)
    return response


@pytest.mark.django_db
@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_no_request_of_the_schema_makes_a_server_error(world: World, label: str) -> None:
    operation = OPERATIONS[label]
    statuses: list[int] = []
    cases = st.one_of(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )

    @seed(SEED)
    @settings(
        max_examples=REQUESTS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, visitor=st.sampled_from(VISITORS))
    def send(case: Any, visitor: str) -> None:
        cache.clear()
        response = _send(world.visitors[visitor], case)
        statuses.append(response.status_code)
        assert response.status_code < 500, f"{visitor} {case.as_curl_command()}"
        if response.status_code >= 400 and case.method != "HEAD":
            assert response["Content-Type"].startswith(JSON), response.content[:200]
            assert response.json()["error"]["message"] if response.content else True

    send()
    assert len(statuses) >= REQUESTS, "hypothesis found fewer different requests"
