"""Connections that send half of a request, or nothing, keep nobody waiting."""

import http.client
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.installation import ROOT, Installation
from tests.services.process import answers, end_process, end_with_parent, wait_until

pytestmark = pytest.mark.faults

HALF_HEADERS = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_BODY = (
    b"POST /api/v1/enrol/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)
IDLE = b""
EACH = 60


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose web server runs as `make run` starts it."""
    made = Installation(tmp_path_factory.mktemp("slow") / "data")
    made.prepare()
    command = end_with_parent(made.command("web server"))
    with made.log("web").open("wb") as log:
        web = subprocess.Popen(command, cwd=ROOT, env=made.environ, stdout=log, stderr=log)
    try:
        wait_until(lambda: answers(f"{made.url}/livez"), what="the web server's first answer")
        yield made
    finally:
        end_process(web, seconds=60)


def _open(stack: ExitStack, place: Installation, start: bytes) -> socket.socket:
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", place.port), 60))
    connection.sendall(start)
    return connection


def _status(place: Installation, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("start", [HALF_HEADERS, HALF_BODY, IDLE], ids=["headers", "body", "idle"])
def test_others_are_answered(place: Installation, start: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(EACH):
            _open(stack, place, start)
        assert {_status(place, "/accounts/login/") for _ in range(20)} == {200}


def test_a_slow_request_is_answered_once_it_is_complete(place: Installation) -> None:
    with ExitStack() as stack:
        connection = _open(stack, place, HALF_HEADERS)
        assert _status(place, "/livez") == 200
        connection.sendall(b"1\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_silent_connection_is_closed(place: Installation) -> None:
    with ExitStack() as stack:
        for connection in [_open(stack, place, start) for start in (HALF_HEADERS, HALF_BODY, IDLE)]:
            connection.settimeout(90)
            received = b"-"
            while received:
                received = connection.recv(1000)
