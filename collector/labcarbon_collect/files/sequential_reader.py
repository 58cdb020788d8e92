"""Files that are read once, from their beginning to their end: nobody else loses anything by it.

What was not in memory before does not stay there: reading terabytes would else drive out what jobs read again and again.
And where a file has a hole, as maps of databases and preallocated arrays have, its zeros are told without a read.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Optional

_DROPPED_AT_ONCE = 32 << 20
_CAN_DROP = hasattr(os, "posix_fadvise") and hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
_BLOCK_BYTES = 512  # of st_blocks: stat(2)
SETTLED_S = 60.0
LEAST_BYTES = 1 << 20  # a smaller file is one read, with its holes
_ZEROS = memoryview(bytes(1 << 20))


class SequentialReader:
    """Reads an open file once; ``about``: how it stood when it was opened. The descriptor stays the caller's to close."""

    def __init__(self, descriptor: int, about: os.stat_result) -> None:
        self._descriptor = descriptor
        self._holes = _Holes(descriptor, about) if _has_holes(about) else None
        self._at = self._dropped = 0
        self._leaves: Optional[bool] = None  # whether it leaves memory again; not known before the first read

    def expect(self, size: int) -> None:
        """The first ``size`` bytes are read soon: the disk may fetch them until then."""
        if self._leaves is None:
            self._leaves = _CAN_DROP and not _is_in_memory(self._descriptor)
        if self._leaves and size:
            os.posix_fadvise(self._descriptor, 0, size, os.POSIX_FADV_WILLNEED)

    def read_into(self, buffer: memoryview) -> int:
        """Read on; the number of bytes, 0 at the end. Raises OSError."""
        hole = self._holes.at(self._at) if self._holes is not None else 0
        count = _zeros_into(buffer, hole) if hole else self._read_into(buffer)
        self._at += count
        return count

    def done(self) -> None:
        """Nothing more is read: what is left of it in memory goes."""
        if self._leaves:
            self._drop()

    def _read_into(self, buffer: memoryview) -> int:
        if self._leaves is None:
            self._leaves = _CAN_DROP and not _is_in_memory(self._descriptor)
        if self._leaves and self._at - self._dropped >= _DROPPED_AT_ONCE:
            self._drop()
        return os.readv(self._descriptor, [buffer])

    def _drop(self) -> None:
        os.posix_fadvise(self._descriptor, self._dropped, 0, os.POSIX_FADV_DONTNEED)
        self._dropped = self._at


class _Holes:
    """Where a file holds nothing: lseek(2) of SEEK_DATA and SEEK_HOLE. A file system that knows no holes says that all of it
    is data; one that cannot be asked is taken to have none."""

    def __init__(self, descriptor: int, about: os.stat_result) -> None:
        self._descriptor, self._size = descriptor, about.st_size
        self._from = self._until = 0  # the next hole

    def at(self, at: int) -> int:
        """How many bytes of hole there are from ``at`` on, which is where the next read would begin; 0 in data, and at the
        end. In a hole, that next read then begins behind it."""
        if at >= self._until:
            self._from = self._edge(at, os.SEEK_HOLE)
            self._until = self._edge(self._from, os.SEEK_DATA) if self._from < self._size else self._size
            os.lseek(self._descriptor, at, os.SEEK_SET)
        if not self._from <= at < self._until:
            return 0
        os.lseek(self._descriptor, self._until, os.SEEK_SET)
        return self._until - at

    def _edge(self, at: int, whence: int) -> int:
        try:
            return min(os.lseek(self._descriptor, at, whence), self._size)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.EINVAL):  # nothing more of that kind; it cannot be asked
                return self._size
            raise


def _has_holes(about: os.stat_result) -> bool:
    """Whether less is kept of a file than it is long: it has holes, or its file system packs it. What was just written is
    read: a file system may call a hole what is still on its way to the disk (OpenZFS issue 15526)."""
    is_settled = max(about.st_mtime, about.st_ctime) < time.time() - SETTLED_S
    return is_settled and hasattr(os, "SEEK_HOLE") and about.st_size > max(LEAST_BYTES, about.st_blocks * _BLOCK_BYTES)


def _zeros_into(buffer: memoryview, count: int) -> int:
    count = min(len(buffer), len(_ZEROS), count)
    buffer[:count] = _ZEROS[:count]
    return count


def _is_in_memory(descriptor: int) -> bool:
    """Whether the first byte of a file is in memory; where that cannot be told, it is taken to be."""
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
