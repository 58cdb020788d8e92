"""What systemd asked to be told (NOTIFY_SOCKET)."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Tell systemd, if it asked to be told (NOTIFY_SOCKET)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notifier:
        try:
            notifier.connect("\0" + address[1:] if address.startswith("@") else address)
            notifier.send(state.encode())
        except OSError:
            pass
