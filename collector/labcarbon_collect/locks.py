"""Locks that admit one process per node, machine or data folder.

Each lock is an abstract socket. The kernel releases it when the process ends.
"""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path


class AlreadyRunning(Exception):
    """Another collector process holds the lock."""


def lock_node(node: str) -> socket.socket:
    """Lock a node for the lifetime of the returned socket. Raises AlreadyRunning."""
    return _bind(
        f"labcarbon-collect-{node}",
        (
            f"another labcarbon-collect daemon already measures node {node}; its state: "
            "labcarbon-collect status"
        ),
    )


def lock_machine() -> socket.socket:
    """Lock this machine. A second daemon with another data folder would be another node and count
    the energy twice.

    A simulated node (``LABCARBON_NODE_ID``) does not need this lock. Raises AlreadyRunning.
    """
    return _bind(
        "labcarbon-collect-machine",
        "another labcarbon-collect daemon already measures this machine, with another data "
        "folder, and two would count its energy twice. To measure for another server, stop it; "
        "its state: labcarbon-collect status",
    )


def lock_scan(home: Path) -> socket.socket:
    """Lock the scans of one data folder. Raises AlreadyRunning."""
    folder_hash = hashlib.sha256(
        str(home.resolve()).encode("utf-8", "surrogateescape")
    ).hexdigest()[:32]
    return _bind(
        f"labcarbon-collect-scan-{folder_hash}",
        f"another scan with the data folder {home} is running: wait for its end",
    )


def lock_cleanup(node: str) -> socket.socket:
    """Lock the cleanup of a node. Raises AlreadyRunning."""
    return _bind(
        f"labcarbon-collect-plans-{node}",
        f"another labcarbon-collect apply-plan is running on node {node}: wait for its end",
    )


def _bind(name: str, message: str) -> socket.socket:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        lock.bind(f"\0{name}")
    except OSError as error:
        lock.close()
        raise AlreadyRunning(message) from error
    return lock
