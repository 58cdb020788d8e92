"""The data folder that the checks examine, and the running daemon that may use another one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.config import checkout_data_dir, client_sockets, data_dir
from labcarbon_collect.ipc.client import Client, DaemonUnavailable


@dataclass(frozen=True)
class DataFolder:
    """``origin``: why this folder is examined, as the end of a sentence."""

    path: Path
    origin: str
    is_of_daemon: bool = False

    @property
    def home(self) -> Path:
        """The collector's folder in it."""
        return self.path / "collector"

    @property
    def other_owner(self) -> Optional[int]:
        """The owner (uid) of the collector's folder if it is not the current user."""
        try:
            owner = self.home.stat().st_uid
        except OSError:
            return None
        return owner if owner != os.geteuid() else None

    @property
    def is_inaccessible(self) -> bool:
        """Whether only the service's user can examine it."""
        if os.geteuid() == 0:
            return self.other_owner is not None
        is_usable = os.access(self.home, os.R_OK | os.W_OK | os.X_OK)
        return self.is_of_daemon and (self.other_owner is not None or not is_usable)

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment in which a command uses this folder."""
        return {**os.environ, "LABCARBON_DATA": str(self.path)}


def data_folder() -> DataFolder:
    """Return the folder named by ``LABCARBON_DATA``, else that of the daemon, else the default."""
    in_use = str((daemon_status() or {}).get("data") or "")
    path = data_dir(os.environ)
    if os.environ.get("LABCARBON_DATA"):
        is_other = bool(in_use) and Path(in_use) != path
        origin = "set by LABCARBON_DATA" + (f"; the daemon uses {in_use}" if is_other else "")
        return DataFolder(path, origin, is_of_daemon=in_use == str(path))
    if in_use:
        return DataFolder(Path(in_use), "used by the running daemon", is_of_daemon=True)
    other = checkout_data_dir() or "FOLDER"
    return DataFolder(
        path,
        "the default, because no daemon names its own; to check another: "
        f"LABCARBON_DATA={other} labcarbon-collect doctor",
    )


def daemon_status() -> Optional[Dict[str, Any]]:
    """Return the daemon's status, or None."""
    try:
        client = Client(client_sockets(os.environ), timeout_s=2.0)
        status = client.call({"op": "status"}, timeout_s=3.0)
        client.close()
    except DaemonUnavailable:
        return None
    return status
