"""The journal of a plan: intended and completed steps, written to disk before the next step.

A file of JSON lines in the collector's private folder, one file per plan. The last entry of an item
is its state. One process at a time holds the journal.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, List, Sequence

from labcarbon_collect.cleanup.listings import File, LinkedFile, Listing
from labcarbon_collect.cleanup.safe_paths import FOLDER_FLAGS, ItemBlocked, exists, open_file
from labcarbon_collect.cleanup.trash import write_json
from labcarbon_collect.locks import AlreadyRunning

# States of an item. States that end in -ing are intentions: a kill may have happened before or
# after the step.
NOT_MOVED = ""  # as if nothing had started: the move did not happen
MOVING, TRASHED = "moving", "trashed"  # at_us of TRASHED: the time of the move
RESTORING, RESTORED = "restoring", "restored"
DELETING, DELETED = "deleting", "deleted"
REFUSED = "refused"  # left in place
# Not the approved content, and its original path is occupied. Only a person may delete it.
STRANDED = "held"


class JournalError(OSError):
    """The journal cannot be written, so nothing more may be done. Other disk errors affect one item
    only.
    """


class Journal:
    """The journal of a plan.

    ``entries``: the last entry of each item. ``locations``: trash of each moved item as file system
    numbers (``trash.trash_location``); older journals lack them.
    """

    def __init__(self, folder: Path, plan: str) -> None:
        """Lock and read the journal if it exists. Raises OSError, AlreadyRunning."""
        self.path = folder / f"{plan}.jsonl"
        self.entries: Dict[int, Dict[str, Any]] = {}
        self.locations: Dict[int, List[int]] = {}
        self._descriptor, self._is_torn = -1, False
        with suppress(FileNotFoundError):
            self._lock_and_read(0)

    def acquire(self) -> None:
        """Create the journal if needed, and lock it. Raises OSError, AlreadyRunning."""
        if self._descriptor < 0:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_and_read(os.O_CREAT)
            _sync_folder(self.path.parent)

    def state(self, number: int) -> str:
        """Return the state of an item, "" if nothing was started."""
        return str(self.entries.get(number, {}).get("state", ""))

    def at_us(self, number: int) -> int:
        """Return the time of the last entry, µs UTC."""
        return int(self.entries.get(number, {}).get("at_us", 0))

    def message(self, number: int) -> str:
        """Return the reason of the last entry, or ""."""
        return str(self.entries.get(number, {}).get("word", ""))

    def append(self, number: int, state: str, *, at_us: int, **facts: Any) -> None:
        """Append an entry and flush it to disk. Raises JournalError, AlreadyRunning."""
        entry = {"line": number, "state": state, "at_us": at_us, **facts}
        try:
            self._write(json.dumps(entry).encode("ascii") + b"\n")
        except OSError as error:
            self._is_torn = True
            raise JournalError(error.errno, error.strerror, str(self.path)) from error
        self._store(number, entry)

    def close(self) -> None:
        """Close the file."""
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
        """Read a line. An incomplete line of a killed process was never acted on and is ignored."""
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
    """Open a journal and lock it until it is closed. A file lock also works between containers,
    unlike a socket.
    """
    descriptor = os.open(
        path, os.O_RDWR | create_flag | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise AlreadyRunning(
            "another labcarbon-collect apply-plan is running on this plan, "
            "possibly in a container or on another machine that "
            f"uses this data folder: wait for its end (it locks {path})"
        ) from error
    except OSError:  # A file system without locks: only the lock of the machine applies.
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
    """Write the listing of content to delete, flushed to disk. Raises ItemBlocked."""
    files, hidden_links = _file_rows(listing.files), _file_rows(listing.hidden_links)
    folders = [[os.fsdecode(path), inode] for path, inode in listing.folders]
    path = _listing_path(journal, number)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder_descriptor = os.open(path.parent, FOLDER_FLAGS)
        try:
            hub = [listing.blobs, hidden_links] if listing.blobs else []
            write_json(folder_descriptor, path.name, [listing.form, files, folders, *hub])
        finally:
            os.close(folder_descriptor)
    except OSError as error:
        raise ItemBlocked(
            f"its file list cannot be written to {path.parent}: {error.strerror}"
        ) from error


def load_listing(journal: Journal, trash: int, number: int) -> Listing:
    """Read the listing of content to delete. Raises ItemBlocked if it is unreadable."""
    path, old_name = _listing_path(journal, number), f"{number}.list"
    try:
        is_old = not path.exists() and exists(trash, old_name)
        with (
            os.fdopen(open_file(trash, old_name), encoding="ascii")
            if is_old
            else path.open(encoding="ascii") as file
        ):
            form, files, folders, *hub = json.loads(file.read(_MAX_LISTING_BYTES))
        blobs, hidden_links = hub or ("", [])
        return Listing(
            str(form),
            0,
            [_parse_file(row) for row in files],
            [(os.fsencode(path), int(inode)) for path, inode in folders],
            str(blobs),
            [_parse_link(row) for row in hidden_links],
        )
    except (OSError, ValueError, TypeError, IndexError) as error:
        message = (
            f"its deletion was started, but its file list ({path}) is damaged: delete the rest "
            "manually"
        )
        raise ItemBlocked(message) from error


def _file_rows(files: Sequence[File]) -> List[List[Any]]:
    return [
        [
            os.fsdecode(file.name),
            file.inode,
            file.size,
            file.mtime_ns,
            file.ctime_ns,
            *([os.fsdecode(file.blob)] if isinstance(file, LinkedFile) else []),
        ]
        for file in files
    ]


def _parse_file(row: List[Any]) -> File:
    return _parse_link(row) if len(row) > 5 else File(os.fsencode(row[0]), *map(int, row[1:]))


def _parse_link(row: List[Any]) -> LinkedFile:
    inode, size, mtime_ns, ctime_ns = map(int, row[1:5])
    return LinkedFile(os.fsencode(row[0]), inode, size, mtime_ns, ctime_ns, os.fsencode(row[5]))


def remove_listing(journal: Journal, number: int) -> None:
    """Remove the listing of an item that is deleted or restored. Raises OSError."""
    with suppress(FileNotFoundError):
        _listing_path(journal, number).unlink()


def _listing_path(journal: Journal, number: int) -> Path:
    return journal.path.with_suffix(f".{number}.list")
