"""Reads files: recognised by their first bytes, then hashed in the same read."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from typing import Deque, List, NamedTuple, Optional

from labcarbon_collect.scan.description import About, Broken, unrecognised, unregistrable
from labcarbon_collect.scan.formats import HEAD_BYTES, recognised
from labcarbon_collect.scan.local_files import Reader, Stamp, Stood, Tree
from labcarbon_collect.scan.rate_limit import Pace
from labcarbon_collect.scan.safetensors import At

_BLOCK, _GLANCE = 1 << 20, 16 << 10
# Files of these names are most likely read to their end, so that their first read may be a long one.
_LIKELY = re.compile(
    rb"\.(?:pt|pth|ckpt|bin|safetensors|keras|h5|hdf5|onnx|gguf|parquet|npy|npz|arrow|tar|index|data-\d{5}-of-\d{5})$",
    re.IGNORECASE,
)
_SETTLED_NS = 2_000_000_000


class Task(NamedTuple):
    """A file to read, as it was listed. ``is_new``: nothing is known of it; ``link``: its inode where it has several
    names; ``of_run``: numbered alike."""

    stamp: Stamp
    is_new: bool = False
    link: Optional[str] = None
    of_run: bool = False


class Read(NamedTuple):
    """What came of one. ``why``: why there is nothing to tell; ``fault``: gone, changed, unreadable, broken or empty;
    ``owner``: the number of its user."""

    task: Task
    digest: Optional[bytes] = None
    about: Optional[About] = None
    payload: Optional[str] = None
    why: str = ""
    fault: str = ""
    settled: bool = True
    owner: Optional[int] = None


@dataclass
class Batch:
    """Files of one folder. ``is_member``: of a folder that is one artifact, so that they are not recognised; ``size``: their
    bytes, of which ``read`` are read: the thread that reads them writes it."""

    folder: int
    path: bytes
    medium: str
    is_member: bool
    tasks: List[Task] = field(default_factory=list)
    size: int = 0
    read: int = 0


class _Opened:
    """A file that is to be read: open, or why it is not. ``first``: how many bytes the first read takes."""

    def __init__(self, task: Task, path: bytes, first: int) -> None:
        self.task, self.path, self.first = task, path, first
        self.file: Optional[Reader] = None
        self.fault: Optional[OSError] = None

    def reader(self) -> Reader:
        """The open file. Raises the OSError that came of opening it."""
        if self.file is None:
            raise self.fault or OSError(0, "it was not opened")
        return self.file

    def close(self) -> None:
        """Let go of it."""
        if self.file is not None:
            self.file.close()


class FileReader:
    """Reads batches of files; used by several threads at once."""

    def __init__(self, tree: Tree, pace: Pace, *, take_all: bool, is_dry: bool) -> None:
        self._tree, self._pace, self._take_all, self._is_dry = tree, pace, take_all, is_dry
        self._own = threading.local()

    def read(self, batch: Batch) -> List[Read]:
        """What each file of a batch is. While one is read the disk is asked for the beginnings of the next."""
        waiting: Deque[_Opened] = deque()
        found: List[Read] = []
        try:
            for task in batch.tasks:
                waiting.append(self._open(batch, task))
                if len(waiting) > self._tree.open_ahead:
                    found.append(self._read(batch, waiting.popleft()))
            while waiting:
                found.append(self._read(batch, waiting.popleft()))
        finally:
            for left in waiting:
                left.close()
        return found

    def _open(self, batch: Batch, task: Task) -> _Opened:
        """Open a file, and ask for its beginning."""
        opened = _Opened(task, batch.path + b"/" + task.stamp[0], self._first(batch, task))
        try:
            opened.file = self._tree.opened(opened.path, follow=batch.is_member)
            if self._tree.open_ahead:
                opened.file.expect(opened.first)
        except OSError as error:
            opened.fault = error
        return opened

    def _read(self, batch: Batch, opened: _Opened) -> Read:
        task = opened.task
        try:
            with closing(opened):
                file = opened.reader()
                if file.stood() != Stood(task.stamp[1], task.stamp[2]):
                    return _changed(task)
                return self._looked_at(file, opened, batch)
        except FileNotFoundError:
            return Read(task, why="it went while it was read", fault="gone")
        except Broken as broken:
            return Read(task, why=str(broken), fault="broken")
        except OSError as error:
            return Read(task, why=f"it cannot be read: {error.strerror or error}", fault="unreadable")

    def _first(self, batch: Batch, task: Task) -> int:
        """How many bytes the first read takes."""
        whole = batch.is_member or self._take_all or _LIKELY.search(task.stamp[0]) is not None
        return min(task.stamp[1], _BLOCK if whole else _GLANCE)

    def _looked_at(self, file: Reader, opened: _Opened, batch: Batch) -> Read:
        view, task, first = self._buffer(), opened.task, opened.first
        size = task.stamp[1]
        self._pace.take(first)
        count = file.read_into(view[:first]) if size else 0
        about: Optional[About] = None
        if not batch.is_member:
            name = task.stamp[0].decode("utf-8", "replace")
            head, at = bytes(view[: min(count, HEAD_BYTES)]), _read_or_ask(view, count, file)
            about = recognised(name, size, head, at, of_run=task.of_run)
            if about is None and not self._take_all:
                return Read(task, settled=_is_settled(task.stamp))
            about = about or unrecognised(name)
            why = unregistrable(opened.path)
            if why:
                return Read(task, why=why, fault="broken")
        if self._is_dry:
            return Read(task, about=about)
        batch.read += count
        return self._hashed(file, task, about, batch, view[:count])

    def _hashed(self, file: Reader, task: Task, about: Optional[About], batch: Batch, first: memoryview) -> Read:
        """Go on after the ``first`` bytes, which stand at the beginning of this thread's buffer."""
        size, view, count = task.stamp[1], self._buffer(), len(first)
        whole = hashlib.sha256(first)
        payload = _Payload(about.payload_at) if about is not None and about.payload_at is not None else None
        if payload is not None:
            payload.update(first, 0)
        done = count
        while count and done < size:
            self._pace.take(min(size - done, _BLOCK))
            count = file.read_into(view[: min(size - done, _BLOCK)])
            whole.update(view[:count])
            if payload is not None:
                payload.update(view[:count], done)
            done += count
            batch.read += count
        if done != size or file.stood() != Stood(size, task.stamp[2]):
            return _changed(task)
        told = payload.digest() if payload is not None else None
        return Read(task, whole.digest(), about, told, settled=_is_settled(task.stamp), owner=file.owner)

    def _buffer(self) -> memoryview:
        view: Optional[memoryview] = getattr(self._own, "view", None)
        if view is None:
            view = self._own.view = memoryview(bytearray(_BLOCK))
        return view


class _Payload:
    """SHA-256 of what stands behind a header, from byte ``at`` on."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._digest = hashlib.sha256()

    def update(self, block: memoryview, offset: int) -> None:
        """Take a block of the file that begins at ``offset``."""
        if offset + len(block) > self._at:
            self._digest.update(block[max(0, self._at - offset) :])

    def digest(self) -> str:
        """64 hex digits."""
        return self._digest.hexdigest()


def _read_or_ask(view: memoryview, count: int, file: Reader) -> At:
    """Bytes of a file: from what was read of it already, if they are in that."""

    def at(offset: int, length: int) -> bytes:
        inside = offset >= 0 and length >= 0 and offset + length <= count
        return bytes(view[offset : offset + length]) if inside else file.at(offset, length)

    return at


def _changed(task: Task) -> Read:
    return Read(task, why="it changed while it was read: scan again", fault="changed")


def _is_settled(stamp: Stamp) -> bool:
    """A file changed within the last two seconds may change again within a tick of its clock, unseen."""
    return max(stamp[2], stamp[3]) < time.time_ns() - _SETTLED_NS
