"""Identity of this node and boot, and private files of the collector."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import List, Mapping, Optional, Tuple

from labcarbon_collect.clock import Clock

_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_NODE_FILE = "node.json"
_MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class ConfigurationError(Exception):
    """A folder, file or setting cannot be used. The text states the fix."""


@dataclass(frozen=True)
class Node:
    """Identity of this node. ``foreign_files``: files in the data folder that belonged to another
    machine (a cloned disk).
    """

    uuid: str
    foreign_files: Tuple[str, ...] = ()


def read_clock() -> Clock:
    """Read both clocks. CLOCK_BOOTTIME advances while the machine sleeps, as energy counters do."""
    return Clock(time.clock_gettime_ns(_MONOTONIC) // 1000, time.time_ns() // 1000)


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        started_s = round(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC), -1)
        return f"started-{started_s:.0f}"


def ensure_private_dir(path: Path) -> Path:
    """Create or check a folder that only this user may write. Raises ConfigurationError with the
    command that fixes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    parent = path.parent.stat()
    if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
        raise ConfigurationError(
            f"{path.parent} is writable by everybody, so {path} could be replaced: chmod o-w "
            f"{path.parent}"
        )
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise ConfigurationError(
            f"{path} is a symbolic link: replace it by a folder, or set LABCARBON_DATA to a folder"
        )
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{path} belongs to uid {status.st_uid}, this process has uid {os.geteuid()}: chown "
            f"-R {os.geteuid()} {path}"
        )
    if status.st_mode & 0o022:
        raise ConfigurationError(f"{path} is writable by others: chmod 700 {path}")
    return path


def read_secret(path: Path) -> Optional[str]:
    """Read a token from a file that only its owner may read, None without one. Raises
    ConfigurationError, and ValueError if it is no text.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error.strerror}): it must be a regular file of uid "
            f"{os.geteuid()}"
        ) from error
    with os.fdopen(descriptor, encoding="utf-8") as file:
        status = os.fstat(file.fileno())
        if status.st_mode & 0o077:
            raise ConfigurationError(
                f"{path} is readable by others, so its token is no secret: chmod 600 {path}, then "
                "enrol again"
            )
        if status.st_uid not in (os.geteuid(), 0):
            raise ConfigurationError(
                f"{path} belongs to uid {status.st_uid}: chown {os.geteuid()} {path}"
            )
        return file.read().strip() or None


def write_private_file(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner only and synced to disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def node_identity(home: Path, environ: Mapping[str, str], *, machine: Optional[str] = None) -> Node:
    """Return the UUID of this node. It is created on the first call and stored in ``home``, a
    private folder.

    ``LABCARBON_NODE_ID`` overrides it. The folder stores a hash of the machine id. If the hash
    differs, the disk was cloned: all files are moved to a subfolder and a new node starts, which
    must be enrolled.
    """
    machine = _machine_hash() if machine is None else machine
    configured = environ.get("LABCARBON_NODE_ID", "")
    saved = _read_node_file(home)
    foreign_files: Tuple[str, ...] = ()
    if (
        saved
        and not configured
        and machine
        and saved.get("machine")
        and saved["machine"] != machine
    ):
        foreign_files = _move_foreign_files(home, saved["node"])
        saved = {}
    try:
        node = str(uuid.UUID(configured or saved.get("node") or str(uuid.uuid4())))
    except ValueError as error:
        raise ConfigurationError(
            f"the node id {configured or saved.get('node')!r} is not a UUID: correct "
            "LABCARBON_NODE_ID"
        ) from error
    if not configured and saved.get("node") != node:
        write_private_file(home / _NODE_FILE, json.dumps({"node": node, "machine": machine}) + "\n")
    return Node(node, foreign_files)


def _read_node_file(home: Path) -> Mapping[str, str]:
    path = home / _NODE_FILE
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigurationError(
            f"{path} is damaged ({error}): remove it and enrol this node again"
        ) from error
    if not isinstance(saved, dict) or not all(isinstance(text, str) for text in saved.values()):
        raise ConfigurationError(f"{path} is damaged: remove it and enrol this node again")
    return saved


def _machine_hash() -> str:
    for name in _MACHINE_ID_FILES:
        try:
            machine_id = Path(name).read_text().strip()
        except OSError:
            continue
        if machine_id:
            return hashlib.sha256(f"labcarbon:{machine_id}".encode()).hexdigest()[:32]
    return ""


def _move_foreign_files(home: Path, node: str) -> Tuple[str, ...]:
    folder = home / f"of-{node}"
    folder.mkdir(mode=0o700, exist_ok=True)
    moved: List[str] = []
    for path in sorted(home.iterdir()):
        if path.is_file():
            path.rename(folder / path.name)
            moved.append(path.name)
    return tuple(moved)
