"""Client of the daemon's local socket."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from labcarbon_collect.ipc.server import peer_uid

_MAX_RESPONSE_BYTES = 1 << 20


class DaemonUnavailable(Exception):
    """No daemon answers. The text lists the paths that were tried."""


class SocketDenied(DaemonUnavailable):
    """The kernel denies access to a socket, so that a daemon may run there."""


class Client:
    """A connection to the daemon. Each call has a timeout."""

    def __init__(self, paths: Iterable[Path], *, timeout_s: float) -> None:
        """Connect to the first answering socket of a trusted daemon. Raises DaemonUnavailable."""
        self._buffer = b""
        self.path, self._socket = _connect(list(paths), timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, request: Mapping[str, Any], *, timeout_s: float) -> Dict[str, Any]:
        """Send a request and return the response, possibly an ``error`` object. Raises
        DaemonUnavailable after the timeout.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(json.dumps(request, separators=(",", ":")).encode() + b"\n")
            while b"\n" not in self._buffer:
                self._socket.settimeout(max(0.01, deadline_s - time.monotonic()))
                received = self._socket.recv(65536)
                if (
                    not received
                    or len(self._buffer) > _MAX_RESPONSE_BYTES
                    or time.monotonic() > deadline_s
                ):
                    raise DaemonUnavailable(
                        f"the daemon at {self.path} closed the connection or timed out"
                    )
                self._buffer += received
            line, _, self._buffer = self._buffer.partition(b"\n")
            response = json.loads(line)
        except (OSError, ValueError) as error:
            raise DaemonUnavailable(
                f"the daemon at {self.path} did not answer: {error or type(error).__name__}"
            ) from error
        if not isinstance(response, dict):
            raise DaemonUnavailable(f"the process at {self.path} is no labcarbon-collect daemon")
        return response


def response_error(response: Mapping[str, Any]) -> Optional[str]:
    """Return message and hint of an error response, None for any other."""
    error = response.get("error")
    if not isinstance(error, Mapping):
        return None
    return " ".join(str(error[key]) for key in ("message", "hint") if error.get(key))


def _connect(paths: List[Path], timeout_s: float) -> Tuple[Path, socket.socket]:
    denied: List[Path] = []
    for path in paths:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
        except PermissionError:
            connection.close()
            denied.append(path)
            continue
        except OSError:
            connection.close()
            continue
        # A socket of another user could read the commands of this user.
        if _is_trusted(path, peer_uid(connection)):
            return path, connection
        connection.close()
    if denied:
        raise SocketDenied(
            f"permission denied for the daemon's socket {', '.join(str(path) for path in denied)}: "
            "the socket needs mode 0666, and all users need execute permission on its folders"
        )
    tried = ", ".join(str(path) for path in paths)
    raise DaemonUnavailable(f"no daemon answers at {tried}; start one: labcarbon-collect daemon")


def _is_trusted(path: Path, uid: int) -> bool:
    """Whether the daemon is root's, this user's or the service's. Only root grants write access to
    /run/labcarbon.
    """
    return (
        uid in (0, os.geteuid())
        or path.parent == Path("/run/labcarbon")
        or bool(os.environ.get("LABCARBON_SOCKET"))
    )
