"""One daemon per node: an abstract socket named by the node is the lock. The kernel lets go of it with the process."""

from __future__ import annotations

import socket


class AlreadyRunning(Exception):
    """Another daemon measures this node."""


def take(node: str) -> socket.socket:
    """Hold the lock for as long as the returned socket lives. Raises AlreadyRunning."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        lock.bind(f"\0labcarbon-collect-{node}")
    except OSError as error:
        lock.close()
        raise AlreadyRunning(
            f"another labcarbon-collect daemon measures node {node} already; see it with: labcarbon-collect status"
        ) from error
    return lock
