"""Notifications to systemd (NOTIFY_SOCKET)."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Notify systemd of ``state`` if NOTIFY_SOCKET is set."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notifier:
        try:
            notifier.connect("\0" + address[1:] if address.startswith("@") else address)
            notifier.send(state.encode())
        except OSError:
            pass
