"""A proxy between collector and server that injects network faults."""

from __future__ import annotations

import email.utils
import gzip
import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PASS, REFUSED, BUSY_503, BUSY_429, HUNG, CUT, NOISY = (
    "pass",
    "refused",
    "503",
    "429",
    "hung",
    "cut",
    "noisy",
)
RETRY_AFTER_S = 120
DATE_AFTER_S = 200


@dataclass
class Delivery:
    """A received request, to be forwarded once, several times, or later."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes


@dataclass
class Arrival:
    """A received batch: fault mode, time (test clock, s), and the ends of its windows in order."""

    mode: str
    at_s: float
    ends_us: list[int]


@dataclass
class FaultProxy:
    """``mode`` is the fault. ``now_s`` is the test clock."""

    upstream: str
    now_s: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    mode: str = PASS
    arrivals: list[Arrival] = field(default_factory=list)
    forwarded: int = 0
    delayed: list[Delivery] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def forward(self, delivery: Delivery) -> tuple[int, bytes]:
        """Forward a request to the server."""
        parts = urlsplit(self.upstream)
        connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=30)
        try:
            connection.request(delivery.method, delivery.path, delivery.content, delivery.headers)
            response = connection.getresponse()
            self.forwarded += 1
            return response.status, response.read()
        finally:
            connection.close()

    def send_delayed(self, share: float = 1.0) -> None:
        """Forward a share of the delayed requests in random order."""
        self.rng.shuffle(self.delayed)
        for _ in range(round(len(self.delayed) * share)):
            self.forward(self.delayed.pop())

    def noise(self, delivery: Delivery) -> tuple[int, bytes]:
        """Forward a request one to five times, some of them later. Returns one of the first
        responses.
        """
        times = self.rng.randint(1, 5)
        immediate = self.rng.randint(1, times)
        self.delayed += [delivery] * (times - immediate)
        self.send_delayed(self.rng.random() / 2)
        return self.rng.choice([self.forward(delivery) for _ in range(immediate)])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        gate, content = (
            self.server.gate,
            self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        headers = {
            name: self.headers[name]
            for name in ("Authorization", "Content-Type", "Content-Encoding")
            if self.headers[name]
        }
        delivery, mode = Delivery(self.command, self.path, headers, content), gate.mode
        if self.path.endswith("/ingest/"):
            body = json.loads(
                gzip.decompress(content) if headers.get("Content-Encoding") == "gzip" else content
            )
            gate.arrivals.append(Arrival(mode, gate.now_s(), body["windows"]["end"]))
        if mode == BUSY_503:
            self._reply(503, b"{}", ("Retry-After", str(RETRY_AFTER_S)))
        elif mode == BUSY_429:
            self._reply(
                429,
                b"{}",
                ("Retry-After", email.utils.formatdate(time.time() + DATE_AFTER_S, usegmt=True)),
            )
        elif mode == HUNG:
            gate.released.wait(10)
            self.close_connection = True
        elif mode == CUT or (mode == NOISY and gate.rng.random() < 0.2):
            status, answer = gate.forward(delivery)
            self._reply(status, answer, cut=True)
        else:
            status, answer = gate.noise(delivery) if mode == NOISY else gate.forward(delivery)
            self._reply(status, answer)

    do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 - the names that http.server calls

    def _reply(
        self, status: int, answer: bytes, *headers: tuple[str, str], cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer[: len(answer) // 2] if cut else answer)
        self.close_connection = self.close_connection or cut


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    gate: FaultProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


@contextmanager
def standing(gate: FaultProxy, port: int) -> Iterator[None]:
    """Let the gate listen at a loopback port; outside of this, connections are refused."""
    server = _Server(("127.0.0.1", port), _Handler)
    server.gate = gate
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        gate.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
