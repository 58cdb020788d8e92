"""A provider on loopback: the responses of the fixtures, and every way to fail. Written from the
documentation, as the fixtures are.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

Response = tuple[int, dict[str, str], bytes]
Responder = Callable[[str, dict[str, str], dict[str, str]], Response]


@dataclass
class FakeProvider:
    """``respond`` gets path, query and headers. ``fault``: "silent", "half" or "huge"."""

    respond: Responder
    fault: str = ""
    address: str = ""
    requests: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    fake: FakeProvider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(parts.query))
        self.fake.requests.append((parts.path, query, headers))
        with suppress(OSError):  # the client gave up
            if self.fake.fault == "silent":
                time.sleep(2)
            elif self.fake.fault == "half":
                self._send(200, {}, b'{"zone"', 1000)
            elif self.fake.fault == "huge":
                self._send(200, {}, b" " * (9 << 20))
            else:
                self._send(*self.fake.respond(parts.path, query, headers))

    def _send(self, status: int, headers: dict[str, str], body: bytes, length: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def fake_provider(respond: Responder) -> Iterator[FakeProvider]:
    """Run a server."""
    fake = FakeProvider(respond)
    handler = type("Handler", (_Handler,), {"fake": fake})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    fake.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
