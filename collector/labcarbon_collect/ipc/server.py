"""The daemon's local socket: one JSON object per line, answered in order. The kernel identifies the
caller (SO_PEERCRED).
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import stat
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Mapping

from labcarbon_collect.errors import RequestError
from labcarbon_collect.node_identity import ConfigurationError

MAX_LINE_BYTES = 64 * 1024
MAX_CONNECTIONS = 128
IDLE_TIMEOUT_S = 30.0
Handler = Callable[
    [Mapping[str, Any], int], Dict[str, Any]
]  # (request, uid of the caller) → response


@dataclass
class _Caller:
    uid: int
    received: bytes = b""
    to_send: bytes = b""
    active_s: float = field(default_factory=time.monotonic)


class SocketServer:
    """A server that runs inside the daemon's loop."""

    def __init__(self, path: Path, handler: Handler) -> None:
        """Listen at ``path`` (mode 0666). Raises ConfigurationError if another daemon listens
        there.
        """
        self.path = path
        self._handler = handler
        self._selector = selectors.DefaultSelector()
        self._listener = _listen(path)
        self._inode = path.stat().st_ino
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._callers: Dict[socket.socket, _Caller] = {}

    def serve(self, timeout_s: float) -> None:
        """Answer requests for ``timeout_s`` seconds, with 0 only those that are waiting."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            for key, events in self._selector.select(left_s):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._exchange(key.fileobj, events)
            if time.monotonic() >= deadline_s:
                break
        self._drop_idle()

    def close(self) -> None:
        """Stop listening and remove the socket file if it is still this server's."""
        for connection in list(self._callers):
            self._drop(connection)
        self._listener.close()
        self._selector.close()
        if self.path.exists() and self.path.stat().st_ino == self._inode:
            self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._callers) >= MAX_CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        self._callers[connection] = _Caller(uid=peer_uid(connection))
        self._selector.register(connection, selectors.EVENT_READ)

    def _exchange(self, connection: socket.socket, events: int) -> None:
        caller = self._callers[connection]
        caller.active_s = time.monotonic()
        try:
            if events & selectors.EVENT_READ:
                received = connection.recv(MAX_LINE_BYTES)
                if not received:
                    self._drop(connection)
                    return
                self._receive(caller, received)
            if caller.to_send:
                sent = connection.send(caller.to_send)
                caller.to_send = caller.to_send[sent:]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(connection)
            return
        if len(caller.received) > MAX_LINE_BYTES:
            self._drop(connection)
            return
        interests = selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.to_send else 0)
        self._selector.modify(connection, interests)

    def _receive(self, caller: _Caller, received: bytes) -> None:
        caller.received += received
        while b"\n" in caller.received and len(caller.to_send) < MAX_LINE_BYTES:
            line, _, caller.received = caller.received.partition(b"\n")
            caller.to_send += (
                json.dumps(self._respond(line, caller.uid), separators=(",", ":")).encode() + b"\n"
            )

    def _respond(self, line: bytes, uid: int) -> Dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise RequestError("bad_request", "a request is one JSON object on one line")
            return self._handler(request, uid)
        except (ValueError, RecursionError):
            return _error(
                "bad_request", "invalid JSON: a request is one JSON object on one line", ""
            )
        except RequestError as error:
            return _error(error.code, str(error), error.hint)

    def _drop_idle(self) -> None:
        last_allowed_s = time.monotonic() - IDLE_TIMEOUT_S
        for connection, caller in list(self._callers.items()):
            if caller.active_s < last_allowed_s:
                self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._callers[connection]
        connection.close()


def peer_uid(connection: socket.socket) -> int:
    """Return the uid of the other end, as reported by the kernel."""
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return int(struct.unpack("3i", credentials)[1])


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if path.exists() or path.is_symlink():
        _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen at {path} ({error.strerror or error}): set LABCARBON_SOCKET to a "
            "shorter or writable path"
        ) from error
    os.chmod(path, 0o666)  # noqa: S103 - every user may send requests; the kernel identifies them
    listener.listen(64)
    listener.setblocking(False)
    return listener


def _remove_stale(path: Path) -> None:
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise ConfigurationError(
            f"{path} exists and is no socket: remove it, or set LABCARBON_SOCKET"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise ConfigurationError(
        f"another daemon listens at {path}: stop it, or set another LABCARBON_SOCKET for this one"
    )


def _error(code: str, message: str, hint: str) -> Dict[str, Any]:
    return {"error": {"code": code, "message": message, "field": None, "hint": hint}}
