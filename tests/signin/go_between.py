"""Proxy of the real provider, under the issuer's URL. Tests can forge its responses."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Lie = Callable[[bytes], bytes]  # maps a body of the provider to a forged one
_NOT_PASSED_ON = {
    "connection",
    "transfer-encoding",
    "content-length",
    "keep-alive",
    "server",
    "date",
}


class GoBetween:
    """A proxy before the provider.

    ``lies``: forged response by path. ``redirects``: redirect by path.
    ``asked``: (method, path, body) of all requests.
    """

    def __init__(self, provider_port: int) -> None:
        self.lies: dict[str, Lie] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[tuple[str, str, bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, provider_port))
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}/o"

    @contextmanager
    def lying(self, path: str, lie: Lie) -> Iterator[None]:
        self.lies[path] = lie
        try:
            yield
        finally:
            del self.lies[path]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def about(change: Callable[[dict[str, Any]], None]) -> Lie:
    """Return a forgery: ``change`` modifies the JSON object of the response in place."""

    def lie(body: bytes) -> bytes:
        answer = json.loads(body)
        change(answer)
        return json.dumps(answer).encode()

    return lie


def _handler(go_between: GoBetween, provider_port: int) -> type[BaseHTTPRequestHandler]:
    class PassOn(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            """Write no log."""

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            go_between.asked.append((self.command, self.path, body))
            if path in go_between.redirects:
                self._answer(307, [("Location", go_between.redirects[path])], b"")
                return
            behind = http.client.HTTPConnection("127.0.0.1", provider_port, timeout=20)
            behind.request(self.command, self.path, body, dict(self.headers.items()))
            answer = behind.getresponse()
            said, lie = answer.read(), go_between.lies.get(path)
            behind.close()
            self._answer(
                answer.status,
                answer.getheaders(),
                lie(said) if lie and answer.status == 200 else said,
            )

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in _NOT_PASSED_ON:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client closed the connection

        do_GET = do_POST = do_HEAD = _pass_on  # noqa: N815  # names that http.server calls

    return PassOn
