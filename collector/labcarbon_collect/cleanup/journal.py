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
from labcarbon_collect.cleanup.safe_paths import FOLDER, Stays, lies, open_file
from labcarbon_collect.cleanup.trash import write_into
from labcarbon_collect.locks import AlreadyRunning

# Where a line stands. What is about to be done ends in -ing: a kill may have come before or behind it.
NOT_MOVED = ""  # as if nothing was begun: what was about to move was seen not to lie in the trash
MOVING, TRASHED = "moving", "trashed"  # at_us of TRASHED: since when it lies there
RESTORING, RESTORED = "restoring", "restored"
DELETING, DELETED = "deleting", "deleted"
REFUSED = "refused"  # left where it was
HELD = "held"  # not what was approved, and cannot go back: something else has its name. Nobody deletes it but a person


class NotNoted(OSError):
    """The journal cannot be written: nothing more may be done. Any other error of a disk is one line's."""


class Journal:
    """The journal of a plan. ``last``: the last entry of each line; ``places``: where it went when it moved, in numbers of
    the file system (``trash.place_of``). Journals of older versions lack them."""

    def __init__(self, folder: Path, plan: str) -> None:
        """Hold it and read it, if it is there. Raises OSError, AlreadyRunning."""
        self.path = folder / f"{plan}.jsonl"
        self.last: Dict[int, Dict[str, Any]] = {}
        self.places: Dict[int, List[int]] = {}
        self._open, self._is_torn = -1, False
        with suppress(FileNotFoundError):
            self._hold(0)

    def begin(self) -> None:
        """Make it, if it is not there: from now on nobody else carries this plan out. Raises OSError, AlreadyRunning."""
        if self._open < 0:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._hold(os.O_CREAT)
            _on_disk(self.path.parent)

    def state(self, line: int) -> str:
        """Where a line stands; empty where nothing was begun."""
        return str(self.last.get(line, {}).get("state", ""))

    def at_us(self, line: int) -> int:
        """When it came there, µs UTC."""
        return int(self.last.get(line, {}).get("at_us", 0))

    def word(self, line: int) -> str:
        """Why, where there is a reason."""
        return str(self.last.get(line, {}).get("word", ""))

    def note(self, line: int, state: str, *, at_us: int, **facts: Any) -> None:
        """Add an entry; it is on disk when we return. Raises NotNoted, AlreadyRunning."""
        entry = {"line": line, "state": state, "at_us": at_us, **facts}
        try:
            self._add(json.dumps(entry).encode("ascii") + b"\n")
        except OSError as error:
            self._is_torn = True
            raise NotNoted(error.errno, error.strerror, str(self.path)) from error
        self._keep(line, entry)

    def close(self) -> None:
        """Let go of the file."""
        if self._open >= 0:
            os.close(self._open)
            self._open = -1

    def _add(self, content: bytes) -> None:
        self.begin()
        if self._is_torn:
            content, self._is_torn = b"\n" + content, False
        _write(self._open, content)
        os.fsync(self._open)

    def _hold(self, make: int) -> None:
        self._open = _held(self.path, make)
        with open(self._open, "rb", closefd=False) as file:
            content = file.read()
        self._is_torn = bool(content) and not content.endswith(b"\n")
        for row in content.split(b"\n"):
            self._take(row)

    def _take(self, row: bytes) -> None:
        """A line that a kill cut off was never acted on: it is left out."""
        try:
            entry = json.loads(row)
            line, _, _ = int(entry["line"]), str(entry["state"]), int(entry["at_us"])
        except (ValueError, TypeError, KeyError):
            return
        self._keep(line, entry)

    def _keep(self, line: int, entry: Dict[str, Any]) -> None:
        self.last[line] = entry
        place = entry.get("place")
        if isinstance(place, list) and len(place) == 3:
            self.places[line] = place


def _held(path: Path, make: int) -> int:
    """Open a journal and lock it until it is closed: a socket's lock ends at a container's network, a file's does not."""
    opened = os.open(path, os.O_RDWR | make | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(opened)
        raise AlreadyRunning(
            f"another labcarbon-collect apply-plan is at work on this plan, maybe in a container or on another machine that "
            f"has this data folder: wait for its end (it holds {path})"
        ) from error
    except OSError:  # a file system without locks: the lock of the machine is all there is
        pass
    return opened


def _write(opened: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(opened, left) :]


def _on_disk(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


_MOST_BYTES = 1 << 30


def keep_list(journal: Journal, line: int, listing: Listing) -> None:
    """Keep what is to be deleted, on disk when we return. Raises Stays."""
    files = [[os.fsdecode(f.name), f.inode, f.size, f.mtime_ns, f.ctime_ns] for f in listing.files]
    folders = [[os.fsdecode(path), inode] for path, inode in listing.folders]
    path = _path(journal, line)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = os.open(path.parent, FOLDER)
        try:
            write_into(beside, path.name, [listing.form, files, folders])
        finally:
            os.close(beside)
    except OSError as error:
        raise Stays(f"the list of what it holds cannot be kept in {path.parent}: {error.strerror}") from error


def kept_list(journal: Journal, trash: int, line: int) -> Listing:
    """What was to be deleted. Raises Stays where it cannot be told."""
    path, old = _path(journal, line), f"{line}.list"
    try:
        is_old = not path.exists() and lies(trash, old)
        with os.fdopen(open_file(trash, old), encoding="ascii") if is_old else path.open(encoding="ascii") as file:
            form, files, folders = json.loads(file.read(_MOST_BYTES))
        return Listing(
            str(form), 0, [File(os.fsencode(f[0]), *map(int, f[1:])) for f in files],
            [(os.fsencode(path), int(inode)) for path, inode in folders],
        )  # fmt: skip
    except (OSError, ValueError, TypeError, IndexError) as error:
        why = f"its deletion was begun, and the list of what it held ({path}) is damaged: delete by hand what is left of it"
        raise Stays(why) from error


def forget_list(journal: Journal, line: int) -> None:
    """It is deleted, or back. Raises OSError."""
    with suppress(FileNotFoundError):
        _path(journal, line).unlink()


def _path(journal: Journal, line: int) -> Path:
    return journal.path.with_suffix(f".{line}.list")
