"""Files that are read once, from their beginning to their end: nobody else loses anything by it.

What was not in memory before does not stay there: reading terabytes would else drive out what jobs read again and again.
And where a file has a hole, as maps of databases and preallocated arrays have, its zeros are told without a read.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Optional

_DROP_CHUNK_BYTES = 32 << 20
_CAN_DROP = hasattr(os, "posix_fadvise") and hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
_BLOCK_BYTES = 512  # of st_blocks: stat(2)
SETTLED_S = 60.0
MIN_BYTES = 1 << 20  # a smaller file is one read, with its holes
_ZEROS = memoryview(bytes(1 << 20))


class SequentialReader:
    """Reads an open file once; ``about``: how it stood when it was opened. The descriptor stays the caller's to close."""

    def __init__(self, descriptor: int, status: os.stat_result) -> None:
        self._descriptor = descriptor
        self._holes = _Holes(descriptor, status) if _has_holes(status) else None
        self._position = self._dropped_until = 0
        self._drops_cache: Optional[bool] = None  # whether it leaves memory again; not known before the first read

    def prefetch(self, size: int) -> None:
        """The first ``size`` bytes are read soon: the disk may fetch them until then."""
        if self._drops_cache is None:
            self._drops_cache = _CAN_DROP and not _is_cached(self._descriptor)
        if self._drops_cache and size:
            os.posix_fadvise(self._descriptor, 0, size, os.POSIX_FADV_WILLNEED)

    def read_into(self, buffer: memoryview) -> int:
        """Read on; the number of bytes, 0 at the end. Raises OSError."""
        hole = self._holes.length_at(self._position) if self._holes is not None else 0
        count = _fill_zeros(buffer, hole) if hole else self._read_data(buffer)
        self._position += count
        return count

    def finish(self) -> None:
        """Nothing more is read: what is left of it in memory goes."""
        if self._drops_cache:
            self._drop_cache()

    def _read_data(self, buffer: memoryview) -> int:
        if self._drops_cache is None:
            self._drops_cache = _CAN_DROP and not _is_cached(self._descriptor)
        if self._drops_cache and self._position - self._dropped_until >= _DROP_CHUNK_BYTES:
            self._drop_cache()
        return os.readv(self._descriptor, [buffer])

    def _drop_cache(self) -> None:
        os.posix_fadvise(self._descriptor, self._dropped_until, 0, os.POSIX_FADV_DONTNEED)
        self._dropped_until = self._position


class _Holes:
    """Where a file holds nothing: lseek(2) of SEEK_DATA and SEEK_HOLE. A file system that knows no holes says that all of it
    is data; one that cannot be asked is taken to have none."""

    def __init__(self, descriptor: int, status: os.stat_result) -> None:
        self._descriptor, self._size = descriptor, status.st_size
        self._start = self._end = 0  # the next hole

    def length_at(self, position: int) -> int:
        """How many bytes of hole there are from ``at`` on, which is where the next read would begin; 0 in data, and at the
        end. In a hole, that next read then begins behind it."""
        if position >= self._end:
            self._start = self._seek(position, os.SEEK_HOLE)
            self._end = self._seek(self._start, os.SEEK_DATA) if self._start < self._size else self._size
            os.lseek(self._descriptor, position, os.SEEK_SET)
        if not self._start <= position < self._end:
            return 0
        os.lseek(self._descriptor, self._end, os.SEEK_SET)
        return self._end - position

    def _seek(self, position: int, whence: int) -> int:
        try:
            return min(os.lseek(self._descriptor, position, whence), self._size)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.EINVAL):  # nothing more of that kind; it cannot be asked
                return self._size
            raise


def _has_holes(status: os.stat_result) -> bool:
    """Whether less is kept of a file than it is long: it has holes, or its file system packs it. What was just written is
    read: a file system may call a hole what is still on its way to the disk (OpenZFS issue 15526)."""
    is_settled = max(status.st_mtime, status.st_ctime) < time.time() - SETTLED_S
    return is_settled and hasattr(os, "SEEK_HOLE") and status.st_size > max(MIN_BYTES, status.st_blocks * _BLOCK_BYTES)


def _fill_zeros(buffer: memoryview, count: int) -> int:
    count = min(len(buffer), len(_ZEROS), count)
    buffer[:count] = _ZEROS[:count]
    return count


def _is_cached(descriptor: int) -> bool:
    """Whether the first byte of a file is in memory; where that cannot be told, it is taken to be."""
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
