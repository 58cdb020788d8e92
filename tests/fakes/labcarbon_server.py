"""A LabCarbon server in one thread for the collector's tests: the wire contract, and every way to
fail it.
"""

from __future__ import annotations

import gzip
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = Callable[["_Handler"], None]
NO_MATCH = {
    "verdict": "none", "certainty": "possible", "level": "silent",
    "message": "", "asked": "11111111-1111-4111-8111-111111111111",
    "matches": [], "estimate": None,
}  # fmt: skip


@dataclass
class Request:
    """One received request."""

    method: str
    path: str
    token: str
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""  # as serialised by the client, before gzip


@dataclass
class FakeServer:
    """State of the server. Each request consumes one of ``faults``; without faults the server
    responds normally.
    """

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    windows: dict[tuple[str, str, int], int] = field(default_factory=dict)  # identity → mJ
    shares: dict[str, int] = field(default_factory=dict)  # consumer → mJ
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    run_errors: dict[str, tuple[int, str]] = field(
        default_factory=dict
    )  # run → (status, code) of the refusal of each of its messages
    window_result: Callable[[int, int], list[str]] | None = (
        None  # (row, energy) → result, instead of storing
    )
    config: dict[str, Any] = field(default_factory=dict)
    projects: tuple[str, ...] = ("demo",)
    artifacts: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # digest → last registered row
    edges: set[tuple[str, str, str]] = field(default_factory=set)  # (run, role, digest)
    nodes: tuple[str, ...] | None = None  # allowed nodes of artifacts; None: any
    copies: dict[tuple[str, str], tuple[str, str]] = field(
        default_factory=dict
    )  # (node, path) → (digest, state)
    spaces: dict[str, dict[str, Any]] | None = field(
        default_factory=dict
    )  # path → own bytes and shared groups; None: a server without this endpoint
    preflight: dict[str, Any] = field(default_factory=lambda: dict(NO_MATCH))
    greener_hours: dict[str, Any] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def stored_mj(self) -> int:
        """Energy of all stored windows, each counted one time."""
        return sum(self.windows.values())

    def sent(self, method: str, path: str) -> list[Request]:
        """Return the requests of one kind."""
        return [
            request
            for request in self.requests
            if request.method == method and path in request.path
        ]

    def present(self) -> dict[str, str]:
        """Return the digests of present copies by path."""
        return {
            path: digest for (_, path), (digest, state) in self.copies.items() if state == "present"
        }

    def register(self, body: dict[str, Any]) -> dict[str, Any]:
        """Register artifacts with their copies. Each row gets a result."""
        results = []
        for row in body["artifacts"]:
            registered = self.artifacts.get(row["digest"])
            if registered is not None and registered["bytes"] != row["bytes"]:
                results.append(
                    ["refused", f"This digest is known as a file of {registered['bytes']} bytes."]
                )
                continue
            copies = row.get("copies", [])
            locations = {
                ("" if "://" in copy["path"] else body.get("node", ""), copy["path"])
                for copy in copies
            }
            moved = any(
                self.copies.get(location) != (row["digest"], "present") for location in locations
            )
            self.copies.update(dict.fromkeys(locations, (row["digest"], "present")))
            self.artifacts[row["digest"]] = row
            project = row.get("project")
            notes = (
                []
                if project is None or project in self.projects
                else [f"There is no project {project!r}."]
            )
            for edge in row.get("runs", []):
                if edge["run"] in self.runs:
                    self.edges.add((edge["run"], edge["role"], row["digest"]))
                else:
                    notes.append(
                        f"There is no run {edge['run']} in this lab: tell of the run first, then "
                        "of this again."
                    )
            results.append(
                ["created" if registered is None else "changed" if moved else "unchanged", *notes]
            )
        return {"results": results}

    def note_space(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Store the space of copies. A server of an earlier version has no such endpoint."""
        if self.spaces is None:
            error = {"code": "not_found", "message": "Not found.", "field": None, "hint": ""}
            return 404, {"error": error}
        self.spaces.update({row["path"]: row for row in body["copies"]})
        return 200, {"changed": len(body["copies"])}

    def note_copies(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Update the state of known copies. Others are ignored."""
        changed = 0
        for row in body["copies"]:
            location = ("" if "://" in row["path"] else body.get("node", ""), row["path"])
            if location in self.copies and self.copies[location][1] != row["state"]:
                self.copies[location] = (self.copies[location][0], row["state"])
                changed += 1
        return 200, {"changed": changed}

    def store_run(self, run: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Store or refuse a message about a run."""
        if run in self.run_errors:
            status, code = self.run_errors[run]
            text = f"Run {run} belongs to another node."
            return status, {"error": {"code": code, "message": text, "field": None, "hint": ""}}
        self.runs.setdefault(run, {}).update(body)
        project = body.get("project")
        unknown = project is not None and project not in self.projects
        return 200, {"uuid": run, "warning": f"There is no project {project!r}." if unknown else ""}

    def ingest(self, body: dict[str, Any]) -> dict[str, Any]:
        columns, shares = body["windows"], body["shares"]
        results = []
        for row, energy_mj in enumerate(columns["energy_mj"]):
            if self.window_result is not None:
                results.append(self.window_result(row, energy_mj))
                if results[-1][0] not in ("accepted", "quarantined"):
                    continue
            identity = (
                body["devices"][columns["device"][row]],
                columns["epoch"][row],
                columns["seq"][row],
            )
            if identity in self.windows:
                same = self.windows[identity] == energy_mj
                results.append(["duplicate"] if same else ["quarantined", "conflict"])
                continue
            self.windows[identity] = energy_mj
            if self.window_result is None:
                results.append(["accepted"])
            for window, consumer, part in zip(
                shares["window"], shares["consumer"], shares["energy_mj"]
            ):
                if window == row:
                    key = body["consumers"][consumer]
                    self.shares[key] = self.shares.get(key, 0) + part
        now_us = time.time_ns() // 1000
        return {
            "server_time": now_us,
            "received": now_us,
            "previous": body.get("acknowledged"),  # this server forgets nothing
            "results": results,
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        self.body = json.loads(content) if content else None
        fake = self.server.fake
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        with fake.lock:
            fake.requests.append(
                Request(self.command, self.path, token, self.body, dict(self.headers), content)
            )
            fault = fake.faults.pop(0) if fake.faults else None
        if fault is not None:
            fault(self)
        else:
            with fake.lock:
                status, response = self._respond()
            self.send_json(status, response)

    do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 - the names that http.server calls

    def _respond(self) -> tuple[int, Any]:
        fake, path = self.server.fake, self.path.removeprefix("/api/v1/")
        if path == "ingest/":
            return 200, fake.ingest(self.body)
        if path == "enrol/":
            return 201, {"token": "lc_node_fake", "node": self.body["node"], "lab": "cells"}
        if path == "login/":
            return 201, {"token": "lc_user_fake", "user": "ana", "lab": "cells"}
        stored = {
            "config": fake.config,
            "preflight": fake.preflight,
            "greener-hours": fake.greener_hours,
        }
        name, _, rest = path.partition("/")
        if name in stored and (not rest or rest.startswith("?")):
            return (404, {}) if stored[name] is None else (200, stored[name])
        if path.startswith("preflight/") or path == "nodes/problem/":
            return 200, {}
        if (
            path == "artifacts/"
            and fake.nodes is not None
            and self.body.get("node", "") not in ("", *fake.nodes)
        ):
            return 400, {
                "error": {
                    "code": "x",
                    "message": "There is no such node in this lab.",
                    "field": "node",
                    "hint": "",
                }
            }
        if path == "artifacts/":
            return 200, fake.register(self.body)
        if path in ("artifacts/copies/", "artifacts/copies/space/"):
            note = fake.note_copies if path.endswith("copies/") else fake.note_space
            return note(self.body)
        if path.startswith("artifacts/"):
            registered = fake.artifacts.get(path.split("/")[1])
            error = {
                "error": {
                    "code": "not_found",
                    "message": "There is no such artifact.",
                    "field": None,
                    "hint": "",
                }
            }
            return (200, {"form": "file", "files": 1, **registered}) if registered else (404, error)
        if path.endswith("/metrics/"):
            return 200, {"points": len(self.body["points"])}
        return fake.store_run(path.removeprefix("runs/").rstrip("/"), self.body)

    def send_json(self, status: int, response: Any, **headers: str) -> None:
        content = response if isinstance(response, bytes) else json.dumps(response).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: they are part of the tests."""


def error_response(
    status: int, message: str = "no", *, field: str | None = None, **headers: str
) -> Fault:
    """Respond with an error in the API's shape."""
    body = {"error": {"code": "x", "message": message, "field": field, "hint": ""}}
    return lambda handler: handler.send_json(status, body, **headers)


def respond_with(status: int, content: Any, **headers: str) -> Fault:
    """Respond with any content."""
    return lambda handler: handler.send_json(status, content, **headers)


def drop_connection(handler: _Handler) -> None:
    """Close the connection without a response."""
    handler.close_connection = True
    handler.connection.close()


def store_and_drop_connection(handler: _Handler) -> None:
    """Commit, but lose the response."""
    with handler.server.fake.lock:
        handler._respond()
    drop_connection(handler)


def truncate_response(handler: _Handler) -> None:
    """Commit, then send half of the response."""
    with handler.server.fake.lock:
        _, response = handler._respond()
    content = json.dumps(response).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    handler.close_connection = True


def delay_response(path: str, seconds: float, hung_up: list[bool]) -> Fault:
    """Respond normally, to ``path`` only after ``seconds``. Records whether the client had
    disconnected by then.
    """

    def fault(handler: _Handler) -> None:
        if path in handler.path:
            time.sleep(seconds)
            readable, _, _ = select.select([handler.connection], [], [], 0)
            hung_up.append(bool(readable) and not handler.connection.recv(1, socket.MSG_PEEK))
        with handler.server.fake.lock:
            status, response = handler._respond()
        handler.send_json(status, response)

    return fault


def trickle_response(handler: _Handler) -> None:
    """Send one byte at a time for ever."""
    handler.close_connection = True
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        return


@contextmanager
def running(port: int = 0) -> Iterator[FakeServer]:
    """Run a server on loopback."""
    server = _Server(("127.0.0.1", port), _Handler)
    fake = server.fake = FakeServer(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
