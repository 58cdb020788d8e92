"""A response that a timeout cuts is a failure in each HTTP client of the project, never a shorter
response.
"""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import requests
from labcarbon_collect.api.transport import ServerUnavailable, Transport

from apps.accounts.oidc import provider
from apps.accounts.oidc.provider import CarefulSession
from apps.core.http_client import OutboundError, send_request
from apps.core.url_allowlist import Allowlist, parse_address

HEADS = {
    "until it closes": b"HTTP/1.0 200 OK\r\n\r\n{}",
    "with a length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
}
DRIP = "drips"
CLOSED = "closed too early"
TIMEOUT_S = 0.6


@pytest.fixture(params=[*HEADS, DRIP, CLOSED])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that begins its response and never ends it."""
    head = HEADS.get(
        request.param, HEADS["with a length" if request.param == CLOSED else "until it closes"]
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(head)
                if request.param == CLOSED:
                    return
                while not ended.wait(0.05):
                    if request.param == DRIP:
                        try:
                            connection.send(b" ")
                        except OSError:
                            return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        thread.join(5)


@pytest.mark.parametrize("is_stored", [True, False])
def test_server_to_a_tracker(address: str, is_stored: bool) -> None:
    chunks: list[bytes] = []
    started_s = time.monotonic()
    with pytest.raises(OutboundError):
        send_request(
            parse_address(address),
            "GET",
            "/",
            allowlist=Allowlist(loopback=True),
            headers={},
            timeout_s=TIMEOUT_S,
            max_bytes=1 << 20,
            on_chunk=None if is_stored else chunks.append,
        )
    assert time.monotonic() - started_s < TIMEOUT_S + 3


def test_collector_to_the_server(address: str) -> None:
    transport = Transport(address, "t", deadline_s=TIMEOUT_S)
    with pytest.raises(ServerUnavailable):
        transport.call("GET", "config/")
    transport.close()


def test_server_to_the_identity_provider(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "TIMEOUT_S", TIMEOUT_S)
    started_s = time.monotonic()
    with CarefulSession() as session, pytest.raises(requests.RequestException):
        session.get(address)
    assert time.monotonic() - started_s < TIMEOUT_S + 3
