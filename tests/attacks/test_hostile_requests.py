"""No request makes a server error: seeded hostile requests at every address, by every visitor.

``LABCARBON_SEED`` repeats a run.
"""

import sys
import traceback
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from django.core.cache import cache
from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client

from labcarbon.entrance import flag_content_type
from tests.attacks.conftest import RUN, World
from tests.attacks.hostile_requests import (
    HostileRequest,
    Targets,
    extreme_dates,
    hostile_requests,
    nul_everywhere,
)
from tests.attacks.hostile_targets import addresses_of, bodies_of, forms_on_pages
from tests.faults.seed import HOSTILE_REQUESTS, SEED

VISITORS = ("anonymous", "node", "token", "token", "admin", "admin", "member", "outsider")


def _environ(request: HostileRequest) -> dict[str, object]:
    """Return the WSGI variables that a web server makes of the request."""
    path, _, query = request.target.partition(b"?")
    environ: dict[str, object] = {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query.decode("latin-1"),
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.input": BytesIO(request.body),
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = value
    return environ


def _send(client: Client, request: HostileRequest) -> int:
    """Send the request and undo what it wrote. Returns the status."""
    kept = client.cookies.output()
    with transaction.atomic():
        environ = flag_content_type(_environ(request))
        if "HTTP_COOKIE" not in environ:
            environ["HTTP_COOKIE"] = client.cookies.output(header="", sep=";").strip()
        response = client.request(**environ)
        list(response) if response.streaming else response.content
        transaction.set_rollback(True)
    if client.cookies.output() != kept:
        client.cookies.load(kept.replace("Set-Cookie: ", ""))
    return response.status_code


@pytest.fixture
def places() -> Iterator[list[str]]:
    """Collect where each server error came from, for the message of the test."""
    found: list[str] = []

    def note(**signal: Any) -> None:
        error = sys.exc_info()[1]
        own = [
            f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__ if error else None)
            if "/apps/" in frame.filename
        ]
        found.append(f"{type(error).__name__}: {str(error)[:80]} at {' '.join(own[-3:])}")

    got_request_exception.connect(note)
    yield found
    got_request_exception.disconnect(note)


@pytest.fixture
def targets(world: World) -> Targets:
    addresses = addresses_of(world.ours, RUN)
    forms = forms_on_pages(addresses, world.visitors["admin"])
    assert len(forms) > 100
    return Targets(addresses, forms, bodies_of(world.ours, RUN), VISITORS)


@pytest.mark.django_db
def test_no_request_makes_a_server_error(world: World, targets: Targets, places: list[str]) -> None:
    requests = hostile_requests(targets, seed=SEED, count=HOSTILE_REQUESTS)
    statuses = _send_all(world, requests, places)
    assert statuses[2] > HOSTILE_REQUESTS // 20, statuses  # they do not all end at the entrance


@pytest.mark.django_db
def test_no_date_makes_a_server_error(world: World, targets: Targets, places: list[str]) -> None:
    _send_all(world, extreme_dates(targets, visitor="admin"), places)


@pytest.mark.django_db
def test_no_nul_makes_a_server_error(world: World, targets: Targets, places: list[str]) -> None:
    _send_all(world, nul_everywhere(targets, visitor="admin", seed=SEED), places)


def _send_all(
    world: World, requests: Iterable[HostileRequest], places: list[str]
) -> dict[int, int]:
    """Send all requests; none may be a server error. Returns how many had 2xx, 3xx, …."""
    wrong: dict[str, str] = {}  # by the place that failed
    statuses = dict.fromkeys(range(6), 0)
    for request in requests:
        cache.clear()
        status = _send(world.visitors[request.visitor], request)
        statuses[status // 100] += 1
        if status >= 500:
            wrong.setdefault(places.pop() if places else "?", f"{status} {request}")
    report = "\n".join(f"{place}\n  {request}" for place, request in wrong.items())
    assert not wrong, f"LABCARBON_SEED={SEED}\n{report}"
    return statuses
