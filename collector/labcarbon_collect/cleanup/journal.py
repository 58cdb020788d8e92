"""What is about to be done and what was done, line by line, on disk before the next step.

A file of JSON lines in the collector's private folder, one file per plan. The last entry of a line says where it stands.
Whoever carries the plan out holds it alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, List

from labcarbon_collect.cleanup.content import File, Listing
from labcarbon_collect.cleanup.safe_paths import FOLDER_FLAGS, ItemBlocked, exists, open_file
from labcarbon_collect.cleanup.trash import write_json
from labcarbon_collect.locks import AlreadyRunning

# Where a line stands. What is about to be done ends in -ing: a kill may have come before or behind it.
NOT_MOVED = ""  # as if nothing was begun: what was about to move was seen not to lie in the trash
MOVING, TRASHED = "moving", "trashed"  # at_us of TRASHED: since when it lies there
RESTORING, RESTORED = "restoring", "restored"
DELETING, DELETED = "deleting", "deleted"
REFUSED = "refused"  # left where it was
STRANDED = "held"  # not what was approved, and cannot go back: something else has its name. Nobody deletes it but a person


class JournalError(OSError):
    """The journal cannot be written: nothing more may be done. Any other error of a disk is one line's."""


class Journal:
    """The journal of a plan. ``last``: the last entry of each line; ``places``: where it went when it moved, in numbers of
    the file system (``trash.place_of``). Journals of older versions lack them."""

    def __init__(self, folder: Path, plan: str) -> None:
        """Hold it and read it, if it is there. Raises OSError, AlreadyRunning."""
        self.path = folder / f"{plan}.jsonl"
        self.entries: Dict[int, Dict[str, Any]] = {}
        self.locations: Dict[int, List[int]] = {}
        self._descriptor, self._is_torn = -1, False
        with suppress(FileNotFoundError):
            self._lock_and_read(0)

    def acquire(self) -> None:
        """Make it, if it is not there: from now on nobody else carries this plan out. Raises OSError, AlreadyRunning."""
        if self._descriptor < 0:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_and_read(os.O_CREAT)
            _sync_folder(self.path.parent)

    def state(self, number: int) -> str:
        """Where a line stands; empty where nothing was begun."""
        return str(self.entries.get(number, {}).get("state", ""))

    def at_us(self, number: int) -> int:
        """When it came there, µs UTC."""
        return int(self.entries.get(number, {}).get("at_us", 0))

    def message(self, number: int) -> str:
        """Why, where there is a reason."""
        return str(self.entries.get(number, {}).get("word", ""))

    def append(self, number: int, state: str, *, at_us: int, **facts: Any) -> None:
        """Add an entry; it is on disk when we return. Raises NotNoted, AlreadyRunning."""
        entry = {"line": number, "state": state, "at_us": at_us, **facts}
        try:
            self._write(json.dumps(entry).encode("ascii") + b"\n")
        except OSError as error:
            self._is_torn = True
            raise JournalError(error.errno, error.strerror, str(self.path)) from error
        self._store(number, entry)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, content: bytes) -> None:
        self.acquire()
        if self._is_torn:
            content, self._is_torn = b"\n" + content, False
        _write_all(self._descriptor, content)
        os.fsync(self._descriptor)

    def _lock_and_read(self, create_flag: int) -> None:
        self._descriptor = _open_locked(self.path, create_flag)
        with open(self._descriptor, "rb", closefd=False) as file:
            content = file.read()
        self._is_torn = bool(content) and not content.endswith(b"\n")
        for row in content.split(b"\n"):
            self._parse_row(row)

    def _parse_row(self, row: bytes) -> None:
        """A line that a kill cut off was never acted on: it is left out."""
        try:
            entry = json.loads(row)
            number, _, _ = int(entry["line"]), str(entry["state"]), int(entry["at_us"])
        except (ValueError, TypeError, KeyError):
            return
        self._store(number, entry)

    def _store(self, number: int, entry: Dict[str, Any]) -> None:
        self.entries[number] = entry
        place = entry.get("place")
        if isinstance(place, list) and len(place) == 3:
            self.locations[number] = place


def _open_locked(path: Path, create_flag: int) -> int:
    """Open a journal and lock it until it is closed: a socket's lock ends at a container's network, a file's does not."""
    descriptor = os.open(path, os.O_RDWR | create_flag | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise AlreadyRunning(
            f"another labcarbon-collect apply-plan is at work on this plan, maybe in a container or on another machine that "
            f"has this data folder: wait for its end (it holds {path})"
        ) from error
    except OSError:  # a file system without locks: the lock of the machine is all there is
        pass
    return descriptor


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MAX_LISTING_BYTES = 1 << 30


def save_listing(journal: Journal, number: int, listing: Listing) -> None:
    """Keep what is to be deleted, on disk when we return. Raises Stays."""
    files = [[os.fsdecode(file.name), file.inode, file.size, file.mtime_ns, file.ctime_ns] for file in listing.files]
    folders = [[os.fsdecode(path), inode] for path, inode in listing.folders]
    path = _listing_path(journal, number)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder_descriptor = os.open(path.parent, FOLDER_FLAGS)
        try:
            write_json(folder_descriptor, path.name, [listing.form, files, folders])
        finally:
            os.close(folder_descriptor)
    except OSError as error:
        raise ItemBlocked(f"the list of what it holds cannot be kept in {path.parent}: {error.strerror}") from error


def load_listing(journal: Journal, trash: int, number: int) -> Listing:
    """What was to be deleted. Raises Stays where it cannot be told."""
    path, old_name = _listing_path(journal, number), f"{number}.list"
    try:
        is_old = not path.exists() and exists(trash, old_name)
        with os.fdopen(open_file(trash, old_name), encoding="ascii") if is_old else path.open(encoding="ascii") as file:
            form, files, folders = json.loads(file.read(_MAX_LISTING_BYTES))
        return Listing(
            str(form), 0, [File(os.fsencode(file[0]), *map(int, file[1:])) for file in files],
            [(os.fsencode(path), int(inode)) for path, inode in folders],
        )  # fmt: skip
    except (OSError, ValueError, TypeError, IndexError) as error:
        message = (
            f"its deletion was begun, and the list of what it held ({path}) is damaged: delete by hand what is left of it"
        )
        raise ItemBlocked(message) from error


def remove_listing(journal: Journal, number: int) -> None:
    """It is deleted, or back. Raises OSError."""
    with suppress(FileNotFoundError):
        _listing_path(journal, number).unlink()


def _listing_path(journal: Journal, number: int) -> Path:
    return journal.path.with_suffix(f".{number}.list")
