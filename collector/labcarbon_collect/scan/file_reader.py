"""Reads files: recognises and hashes each in one pass."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from typing import Deque, List, NamedTuple, Optional

from labcarbon_collect.scan.description import (
    Description,
    InvalidFormat,
    describe_unrecognised,
    path_problem,
)
from labcarbon_collect.scan.formats import HEAD_BYTES, recognise_file
from labcarbon_collect.scan.local_files import FileStat, Reader, Stamp, Tree
from labcarbon_collect.scan.rate_limit import RateLimiter
from labcarbon_collect.scan.safetensors import ReadAt

_BLOCK_BYTES, _PROBE_BYTES = 1 << 20, 16 << 10
# Files with these names are most likely hashed completely, so their first read may be long.
_LIKELY_ARTIFACT = re.compile(
    (
        rb"\.(?:pt|pth|ckpt|bin|safetensors|keras|h5|hdf5|onnx|gguf|parquet|npy|npz|arrow|tar|"
        rb"index|data-\d{5}-of-\d{5}|tfrecords?(?:-\d{5}-of-\d{5})?(?:\.gz)?)$"
    ),
    re.IGNORECASE,
)
_SETTLED_NS = 2_000_000_000


class FileTask(NamedTuple):
    """A file to read, as listed. ``is_new``: the database has no row for it. ``link``: key of its
    content if several names can share it. ``is_numbered``: it belongs to a numbered series.
    """

    stamp: Stamp
    is_new: bool = False
    link: Optional[str] = None
    is_numbered: bool = False


class ReadResult(NamedTuple):
    """The result of one file. ``reason``: why it is not registered. ``fault``: gone, changed,
    unreadable, broken or empty. ``owner``: uid.
    """

    task: FileTask
    digest: Optional[bytes] = None
    description: Optional[Description] = None
    payload: Optional[str] = None
    reason: str = ""
    fault: str = ""
    settled: bool = True
    owner: Optional[int] = None


@dataclass
class Batch:
    """Files of one folder. ``is_member``: the folder is one artifact, so its files are not
    recognised. ``size``: total bytes. ``read``: bytes read so far, updated by the reading thread.
    """

    folder: int
    path: bytes
    medium: str
    is_member: bool
    tasks: List[FileTask] = field(default_factory=list)
    size: int = 0
    read: int = 0


class _OpenFile:
    """An open file, or the error of opening it. ``first_bytes``: size of the first read."""

    def __init__(self, task: FileTask, path: bytes, first: int) -> None:
        self.task, self.path, self.first_bytes = task, path, first
        self.file: Optional[Reader] = None
        self.fault: Optional[OSError] = None

    def open_reader(self) -> Reader:
        """Return the open file. Raises the OSError of opening it."""
        if self.file is None:
            raise self.fault or OSError(0, "it was not opened")
        return self.file

    def close(self) -> None:
        """Close it."""
        if self.file is not None:
            self.file.close()


class FileReader:
    """Reads batches of files. Several threads share it."""

    def __init__(
        self, tree: Tree, rate_limiter: RateLimiter, *, include_unknown: bool, dry_run: bool
    ) -> None:
        self._tree, self._rate_limiter, self._include_unknown, self._dry_run = (
            tree,
            rate_limiter,
            include_unknown,
            dry_run,
        )
        self._thread_local = threading.local()

    def read(self, batch: Batch) -> List[ReadResult]:
        """Read all files of a batch. Prefetches the start of the next files during each read."""
        open_files: Deque[_OpenFile] = deque()
        results: List[ReadResult] = []
        try:
            for task in batch.tasks:
                open_files.append(self._open(batch, task))
                if len(open_files) > self._tree.open_ahead:
                    results.append(self._read(batch, open_files.popleft()))
            while open_files:
                results.append(self._read(batch, open_files.popleft()))
        finally:
            for remaining in open_files:
                remaining.close()
        return results

    def _open(self, batch: Batch, task: FileTask) -> _OpenFile:
        """Open a file and prefetch its start."""
        opened = _OpenFile(
            task, batch.path + b"/" + task.stamp[0], self._first_read_bytes(batch, task)
        )
        try:
            opened.file = self._tree.open_file(opened.path, follow=batch.is_member)
            if self._tree.open_ahead:
                opened.file.prefetch(opened.first_bytes)
        except OSError as error:
            opened.fault = error
        return opened

    def _read(self, batch: Batch, opened: _OpenFile) -> ReadResult:
        task = opened.task
        try:
            with closing(opened):
                file = opened.open_reader()
                if file.stat() != FileStat(task.stamp[1], task.stamp[2]):
                    return _changed_result(task)
                return self._inspect(file, opened, batch)
        except FileNotFoundError:
            return ReadResult(task, reason="it was deleted while it was read", fault="gone")
        except InvalidFormat as broken:
            return ReadResult(task, reason=str(broken), fault="broken")
        except OSError as error:
            return ReadResult(
                task, reason=f"it cannot be read: {error.strerror or error}", fault="unreadable"
            )

    def _first_read_bytes(self, batch: Batch, task: FileTask) -> int:
        """Return the size of the first read."""
        is_likely = (
            batch.is_member
            or self._include_unknown
            or _LIKELY_ARTIFACT.search(task.stamp[0]) is not None
        )
        return min(task.stamp[1], _BLOCK_BYTES if is_likely else _PROBE_BYTES)

    def _inspect(self, file: Reader, opened: _OpenFile, batch: Batch) -> ReadResult:
        view, task, first = self._buffer(), opened.task, opened.first_bytes
        size = task.stamp[1]
        self._rate_limiter.acquire(first)
        count = file.read_into(view[:first]) if size else 0
        description: Optional[Description] = None
        if not batch.is_member:
            name = task.stamp[0].decode("utf-8", "replace")
            head, read_at = bytes(view[: min(count, HEAD_BYTES)]), _read_at(view, count, file)
            description = recognise_file(name, size, head, read_at, is_numbered=task.is_numbered)
            if description is None and not self._include_unknown:
                return ReadResult(task, settled=_is_settled(task.stamp))
            description = description or describe_unrecognised(name)
            problem = path_problem(opened.path)
            if problem:
                return ReadResult(task, reason=problem, fault="broken")
        if self._dry_run:
            return ReadResult(task, description=description)
        batch.read += count
        return self._hash_rest(file, task, description, batch, view[:count])

    def _hash_rest(
        self,
        file: Reader,
        task: FileTask,
        description: Optional[Description],
        batch: Batch,
        first: memoryview,
    ) -> ReadResult:
        """Hash the file. ``first``: the bytes read so far, at the start of this thread's buffer."""
        size, view, count = task.stamp[1], self._buffer(), len(first)
        digest = hashlib.sha256(first)
        payload = (
            _PayloadHash(description.payload_offset)
            if description is not None and description.payload_offset is not None
            else None
        )
        if payload is not None:
            payload.update(first, 0)
        done = count
        while count and done < size:
            self._rate_limiter.acquire(min(size - done, _BLOCK_BYTES))
            count = file.read_into(view[: min(size - done, _BLOCK_BYTES)])
            digest.update(view[:count])
            if payload is not None:
                payload.update(view[:count], done)
            done += count
            batch.read += count
        if done != size or file.stat() != FileStat(size, task.stamp[2]):
            return _changed_result(task)
        payload_digest = payload.digest() if payload is not None else None
        return ReadResult(
            task,
            digest.digest(),
            description,
            payload_digest,
            settled=_is_settled(task.stamp),
            owner=file.owner,
        )

    def _buffer(self) -> memoryview:
        view: Optional[memoryview] = getattr(self._thread_local, "view", None)
        if view is None:
            view = self._thread_local.view = memoryview(bytearray(_BLOCK_BYTES))
        return view


class _PayloadHash:
    """SHA-256 of the bytes from ``start`` on, behind a header."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._digest = hashlib.sha256()

    def update(self, block: memoryview, offset: int) -> None:
        """Add a block of the file that starts at ``offset``."""
        if offset + len(block) > self._start:
            self._digest.update(block[max(0, self._start - offset) :])

    def digest(self) -> str:
        """Return 64 hex digits."""
        return self._digest.hexdigest()


def _read_at(view: memoryview, count: int, file: Reader) -> ReadAt:
    """Return a function that reads bytes of a file. It uses the buffer where possible."""

    def read_at(offset: int, length: int) -> bytes:
        is_buffered = offset >= 0 and length >= 0 and offset + length <= count
        return bytes(view[offset : offset + length]) if is_buffered else file.at(offset, length)

    return read_at


def _changed_result(task: FileTask) -> ReadResult:
    return ReadResult(task, reason="it changed while it was read: scan again", fault="changed")


def _is_settled(stamp: Stamp) -> bool:
    """Return whether a file's mtime is old enough. A file changed within the last two seconds may
    change again without a new timestamp.
    """
    return max(stamp[2], stamp[3]) < time.time_ns() - _SETTLED_NS
