"""Locations and logins: server, tokens, data folder, socket. Read from environment and files
only.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import List, Mapping, Optional, Tuple

from labcarbon_collect.node_identity import (
    ConfigurationError,
    ensure_private_dir,
    read_secret,
    write_private_file,
)

MIN_INTERVAL_S, MAX_INTERVAL_S, DEFAULT_INTERVAL_S = 10, 300, 60
DEFAULT_SPOOL_MB, MAX_SPOOL_MB = 200, 1_000_000
SYSTEM_SOCKET = Path("/run/labcarbon/collect.sock")
_SOCKET_NAME = "collect.sock"
_ENROLMENT = "enrolment.json"
_NODE_TOKEN = "node-token"  # noqa: S105 - a file name
_LOGIN = "login.json"
RUN_VARIABLE = "LABCARBON_RUN"  # in the environment of the command: UUID of its run


@dataclass(frozen=True)
class Login:
    """A token for a server. ``lab`` and ``name`` (of the user or node) are for printing."""

    url: str
    token: str
    lab: str = ""
    name: str = ""


def data_dir(environ: Mapping[str, str]) -> Path:
    """Return ``LABCARBON_DATA``, systemd's state folder, /var/lib/labcarbon for root, else the
    user's state folder.
    """
    configured = environ.get("LABCARBON_DATA") or environ.get("STATE_DIRECTORY", "").split(":")[0]
    if configured:
        return Path(configured).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/labcarbon")
    state = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "labcarbon"


def checkout_data_dir() -> Optional[Path]:
    """Return the data folder of `make run` if this program runs from the virtual environment of a
    checkout whose collector is enrolled, else None.
    """
    folder = Path(sys.prefix).parent / "var"
    is_checkout = sys.prefix != sys.base_prefix and _is_enrolled(folder)
    return folder if is_checkout else None


def _is_enrolled(folder: Path) -> bool:
    try:
        return (folder / "collector" / _ENROLMENT).exists()
    except OSError:
        return False


def collector_dir(environ: Mapping[str, str]) -> Path:
    """Return the collector's private folder in the data folder, created if missing. Raises
    ConfigurationError.
    """
    folder = data_dir(environ)
    try:
        return ensure_private_dir(folder / "collector")
    except OSError as error:
        raise ConfigurationError(
            f"the data folder {folder} cannot be used ({error.strerror}): set another one with "
            "LABCARBON_DATA=FOLDER"
        ) from error


def daemon_socket(environ: Mapping[str, str]) -> Path:
    """Return the socket path of the daemon: the first path of the fixed order that is writable."""
    if environ.get("LABCARBON_SOCKET"):
        return Path(environ["LABCARBON_SOCKET"]).absolute()
    if os.access(SYSTEM_SOCKET.parent, os.W_OK):
        return SYSTEM_SOCKET
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "labcarbon" / _SOCKET_NAME
    return data_dir(environ) / _SOCKET_NAME


def client_sockets(environ: Mapping[str, str]) -> List[Path]:
    """Return the socket paths that a client tries, in order.

    Without ``LABCARBON_SOCKET`` and ``LABCARBON_DATA`` the list ends with sockets of the same name
    that the kernel lists. A daemon with another data folder is therefore reachable without a
    setting.
    """
    if environ.get("LABCARBON_SOCKET"):
        return [Path(environ["LABCARBON_SOCKET"])]
    paths = [SYSTEM_SOCKET]
    if environ.get("XDG_RUNTIME_DIR"):
        paths.append(Path(environ["XDG_RUNTIME_DIR"]) / "labcarbon" / _SOCKET_NAME)
    paths.append(data_dir(environ) / _SOCKET_NAME)
    if not environ.get("LABCARBON_DATA"):
        paths.extend(path for path in _bound_sockets() if path not in paths)
    return paths


def _bound_sockets() -> List[Path]:
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    except OSError:
        return []
    paths = (line.split(None, 7)[7] for line in lines if line.endswith(f"/{_SOCKET_NAME}"))
    return sorted({Path(path) for path in paths if path.startswith("/")})


def interval_s(text: str) -> int:
    """Parse a window length in seconds. Raises ValueError outside 10–300."""
    value = int(text)
    if not MIN_INTERVAL_S <= value <= MAX_INTERVAL_S:
        raise ValueError(
            f"the interval must be {MIN_INTERVAL_S} to {MAX_INTERVAL_S} seconds, not {value}"
        )
    return value


def daemon_interval_s(environ: Mapping[str, str]) -> int:
    """Return the window length of the daemon by its setting. Raises ConfigurationError."""
    text = environ.get("LABCARBON_INTERVAL_S") or str(DEFAULT_INTERVAL_S)
    try:
        return interval_s(text)
    except ValueError as error:
        raise ConfigurationError(
            f"LABCARBON_INTERVAL_S is {text!r}: set {MIN_INTERVAL_S} to {MAX_INTERVAL_S} (seconds)"
        ) from error


def spool_max_bytes(environ: Mapping[str, str]) -> int:
    """Return the maximum size of the spool. Raises ConfigurationError."""
    text = environ.get("LABCARBON_SPOOL_MAX_MB") or str(DEFAULT_SPOOL_MB)
    megabytes = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= megabytes <= MAX_SPOOL_MB:
        raise ConfigurationError(
            f"LABCARBON_SPOOL_MAX_MB is {text!r}: set 1 to {MAX_SPOOL_MB} (megabytes)"
        )
    return megabytes << 20


def save_enrolment(home: Path, login: Login, node: str) -> None:
    """Store a node token (0600) with its server, lab and node."""
    write_private_file(home / _NODE_TOKEN, login.token + "\n")
    write_private_file(
        home / _ENROLMENT, json.dumps({"url": login.url, "lab": login.lab, "node": node}) + "\n"
    )


def read_enrolment(home: Path, environ: Mapping[str, str], node: str) -> Optional[Login]:
    """Return the node's login, None if it is not enrolled. Raises ConfigurationError if the token
    is not private or damaged.
    """
    try:
        token = read_secret(home / _NODE_TOKEN)
    except ValueError as error:
        raise ConfigurationError(
            f"{home / _NODE_TOKEN} is damaged ({error}): labcarbon-collect enrol URL"
        ) from error
    saved = _read_json(home / _ENROLMENT)
    url = environ.get("LABCARBON_URL") or saved.get("url", "")
    if not token or not url:
        return None
    if saved.get("node") and saved["node"] != node:
        raise ConfigurationError(
            f"the token in {home} is for node {saved['node']}, this is {node}: labcarbon-collect "
            f"enrol {url}"
        )
    return Login(url, token, saved.get("lab", ""), node)


def configured_server(environ: Mapping[str, str]) -> Optional[Tuple[str, str]]:
    """Return the server of the node that the configuration of this command names, and the variable
    or folder that names it. None without one, or if it cannot be read.
    """
    if environ.get("LABCARBON_URL"):
        return environ["LABCARBON_URL"], "LABCARBON_URL"
    folder = data_dir(environ) if environ.get("LABCARBON_DATA") else checkout_data_dir()
    url = _read_json(folder / "collector" / _ENROLMENT).get("url") if folder else None
    return (url, str(folder)) if url else None


def config_dir(environ: Mapping[str, str]) -> Path:
    """``~/.config/labcarbon``."""
    config = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "labcarbon"


def save_login(environ: Mapping[str, str], login: Login) -> Path:
    """Store a user token in ~/.config/labcarbon/login.json (0600)."""
    path = ensure_private_dir(config_dir(environ)) / _LOGIN
    write_private_file(
        path,
        json.dumps({"url": login.url, "token": login.token, "lab": login.lab, "user": login.name})
        + "\n",
    )
    return path


def read_login(environ: Mapping[str, str]) -> Optional[Login]:
    """Return the user's login from ``LABCARBON_TOKEN`` or the user's file, None without one. Raises
    ConfigurationError.
    """
    path = config_dir(environ) / _LOGIN
    try:
        saved = json.loads(read_secret(path) or "{}")
        if not isinstance(saved, dict) or not all(isinstance(text, str) for text in saved.values()):
            raise ValueError("its content is not that of a login")
    except ValueError as error:
        raise ConfigurationError(
            f"{path} is damaged ({error}): labcarbon-collect login URL"
        ) from error
    url = environ.get("LABCARBON_URL") or saved.get("url", "")
    token = environ.get("LABCARBON_TOKEN") or saved.get("token", "")
    return Login(url, token, saved.get("lab", ""), saved.get("user", "")) if url and token else None


def is_uuid(text: object) -> bool:
    """Whether ``text`` is a UUID in its canonical form."""
    try:
        return isinstance(text, str) and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _read_json(path: Path) -> Mapping[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_usable = isinstance(content, dict) and all(
        isinstance(text, str) for text in content.values()
    )
    return content if is_usable else {}
