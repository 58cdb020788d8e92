"""NetBox, Snipe-IT and GLPI on loopback: the polled part of their REST APIs, and every way to fail.

Written from the published documentation, as the fixtures in tests/pollers/fixtures are. Never
compared with a real server.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

FIXTURES = Path(__file__).parent.parent / "pollers" / "fixtures"
TOKEN, APP_TOKEN, SESSION = "read-only-token", "app-token", "83af7e620c83a50a18d3eac2"


def fixture(system: str) -> dict[str, Any]:
    """Return a fixture."""
    content: dict[str, Any] = json.loads((FIXTURES / f"{system}.json").read_text())
    return content


@dataclass
class FakeAssets:
    """``fault``: replaces responses: (status, headers, body), or "silent", "drips", "half",
    "huge". ``max_page``: rows per page, as the server limits them. ``other_types``: items of GLPI
    that are no computers. ``forbidden``: types that the profile of the token may not read.
    """

    system: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    other_types: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    fault: Any = None
    max_page: int = 1000
    address: str = ""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def respond(
        self, path: str, query: dict[str, str], headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        method = {"netbox": self._netbox, "snipe_it": self._snipe_it, "glpi": self._glpi}
        status, more, value = method[self.system](path, query, headers)
        return status, {"Content-Type": "application/json", **more}, json.dumps(value).encode()

    def _netbox(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Any:
        if headers.get("authorization") != f"Token {TOKEN}":
            return 403, {}, {"detail": "Invalid token"}
        if path != "/api/dcim/devices/":
            return 404, {}, {"detail": "Not found."}
        page, offset = self._page(query)
        following = None
        if offset + len(page) < len(self.rows):
            following = f"http://169.254.169.254{path}?limit=50&offset={offset + len(page)}"
        value = {"count": len(self.rows), "next": following, "previous": None, "results": page}
        return 200, {}, value

    def _snipe_it(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Any:
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {}, {"error": "Unauthorized."}
        if path != "/api/v1/hardware":
            return 200, {}, {"status": "error", "messages": "404 endpoint not found"}
        return 200, {}, {"total": len(self.rows), "rows": self._page(query)[0]}

    def _glpi(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Any:
        if headers.get("app-token") != APP_TOKEN:
            return 400, {}, ["ERROR_APP_TOKEN_PARAMETERS_MISSING", "missing parameter app_token"]
        if path == "/apirest.php/initSession/":
            if headers.get("authorization") != f"user_token {TOKEN}":
                return 401, {}, ["ERROR_GLPI_LOGIN_USER_TOKEN", "wrong user token"]
            return 200, {}, {"session_token": SESSION}
        if headers.get("session-token") != SESSION:
            return 401, {}, ["ERROR_SESSION_TOKEN_INVALID", "session_token seems invalid"]
        if path == "/apirest.php/killSession/":
            return 200, {}, True
        item_type = path.removeprefix("/apirest.php/").rstrip("/")
        if item_type in self.forbidden:
            message = "You don't have permission to perform this action."
            return 403, {}, ["ERROR_RIGHT_MISSING", message]
        rows = self.rows if item_type == "Computer" else self.other_types.get(item_type, [])
        first, _, last = query["range"].partition("-")
        size = min(int(last) - int(first) + 1, self.max_page)
        page = rows[int(first) : int(first) + size]
        end = int(first) + len(page) - 1
        whole = len(page) == len(rows)
        content_range = {"Content-Range": f"{first}-{end}/{len(rows)}", "Accept-Range": "990"}
        return (200 if whole else 206), content_range, page

    def _page(self, query: dict[str, str]) -> tuple[list[dict[str, Any]], int]:
        offset = int(query["offset"])
        return self.rows[offset : offset + min(int(query["limit"]), self.max_page)], offset


class _Handler(BaseHTTPRequestHandler):
    fake: FakeAssets

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.fake.requests.append((parts.path, parts.query, headers))
        fault = self.fake.fault
        if isinstance(fault, str):
            with suppress(OSError):  # the client gave up
                self._misbehave(fault)
            return
        query = dict(parse_qsl(parts.query))
        self._send(*(fault or self.fake.respond(parts.path, query, headers)))

    def _send(self, status: int, headers: dict[str, str], body: bytes, length: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _misbehave(self, fault: str) -> None:
        if fault == "silent":
            time.sleep(2)
        elif fault == "half":
            self._send(200, {}, b'{"count": 1', 1000)
        elif fault == "huge":
            self._send(200, {}, b" " * (9 << 20))
        else:
            assert fault == "drips"
            self.send_response(200)
            self.end_headers()
            for _ in range(40):
                self.wfile.write(b" ")
                time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def fake_assets(system: str) -> Iterator[FakeAssets]:
    """Run a server with the rows of a fixture."""
    content = fixture(system)
    fake = FakeAssets(system, content["rows"], content.get("other_types", {}))
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
