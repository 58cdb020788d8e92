"""One daemon per node: an abstract socket named by the node is the lock. The kernel lets go of it with the process."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path


class AlreadyRunning(Exception):
    """Another process of ours does this already."""


def lock_node(node: str) -> socket.socket:
    """Hold a node's lock for as long as the returned socket lives. Raises AlreadyRunning."""
    return _bind(
        f"labcarbon-collect-{node}",
        f"another labcarbon-collect daemon measures node {node} already; see it with: labcarbon-collect status",
    )


def lock_machine() -> socket.socket:
    """Hold this machine's lock: with another data folder it would be another node, and its energy would count twice.

    A node that is not this machine (``LABCARBON_NODE_ID``: simulated nodes) does without. Raises AlreadyRunning.
    """
    return _bind(
        "labcarbon-collect-machine",
        "another labcarbon-collect daemon measures this machine already, from another data folder; see it with: "
        "labcarbon-collect status (a node that only simulates: set LABCARBON_NODE_ID to a UUID of its own)",
    )


def lock_scan(home: Path) -> socket.socket:
    """Hold the lock of the scans of one data folder. Raises AlreadyRunning."""
    folder_hash = hashlib.sha256(str(home.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return _bind(
        f"labcarbon-collect-scan-{folder_hash}", f"another scan with the data folder {home} goes on: wait for its end"
    )


def lock_cleanup(node: str) -> socket.socket:
    """Hold the lock on carrying out plans on a node. Raises AlreadyRunning."""
    return _bind(
        f"labcarbon-collect-plans-{node}",
        f"another labcarbon-collect apply-plan is at work on node {node}: wait for its end",
    )


def _bind(name: str, message: str) -> socket.socket:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        lock.bind(f"\0{name}")
    except OSError as error:
        lock.close()
        raise AlreadyRunning(message) from error
    return lock
