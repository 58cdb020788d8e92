"""Sequential reading of files without lasting effect on the page cache.

Pages that were not cached before are dropped after the read. Reading terabytes would otherwise
evict the pages that jobs read repeatedly. Holes of sparse files (database maps, preallocated
arrays) are returned as zeros without a read.
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
MIN_BYTES = 1 << 20  # a smaller file takes a single read
_ZEROS = memoryview(bytes(1 << 20))


class SequentialReader:
    """Reads an open file one time. ``status``: its stat when it was opened. The caller closes the
    descriptor.
    """

    def __init__(self, descriptor: int, status: os.stat_result) -> None:
        self._descriptor = descriptor
        self._holes = _Holes(descriptor, status) if _has_holes(status) else None
        self._position = self._dropped_until = 0
        self._drops_cache: Optional[bool] = (
            None  # whether its pages are dropped; None before the first read
        )

    def prefetch(self, size: int) -> None:
        """Announce a read of the first ``size`` bytes, so that the disk can fetch them in
        advance.
        """
        if self._drops_cache is None:
            self._drops_cache = _CAN_DROP and not _is_cached(self._descriptor)
        if self._drops_cache and size:
            os.posix_fadvise(self._descriptor, 0, size, os.POSIX_FADV_WILLNEED)

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes. Returns their number, 0 at the end. Raises OSError."""
        hole = self._holes.length_at(self._position) if self._holes is not None else 0
        count = _fill_zeros(buffer, hole) if hole else self._read_data(buffer)
        self._position += count
        return count

    def finish(self) -> None:
        """Drop the remaining pages after the last read."""
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
    """Holes of a file by lseek(2) with SEEK_DATA and SEEK_HOLE.

    A file system without holes reports data everywhere. A file system without these calls is
    treated the same way.
    """

    def __init__(self, descriptor: int, status: os.stat_result) -> None:
        self._descriptor, self._size = descriptor, status.st_size
        self._start = self._end = 0  # the next hole

    def length_at(self, position: int) -> int:
        """Return the bytes of hole from ``position``, the next read position, on; 0 in data and at
        the end.

        In a hole the file position is moved to its end.
        """
        if position >= self._end:
            self._start = self._seek(position, os.SEEK_HOLE)
            self._end = (
                self._seek(self._start, os.SEEK_DATA) if self._start < self._size else self._size
            )
            os.lseek(self._descriptor, position, os.SEEK_SET)
        if not self._start <= position < self._end:
            return 0
        os.lseek(self._descriptor, self._end, os.SEEK_SET)
        return self._end - position

    def _seek(self, position: int, whence: int) -> int:
        try:
            return min(os.lseek(self._descriptor, position, whence), self._size)
        except OSError as error:
            if error.errno in (
                errno.ENXIO,
                errno.EINVAL,
            ):  # no further hole or data; the call is not supported
                return self._size
            raise


def _has_holes(status: os.stat_result) -> bool:
    """Whether a file occupies less space than its size: it is sparse, or the file system compresses
    it.

    Recently written files are read completely: a file system may report a hole for data that is not
    yet on disk (OpenZFS issue 15526).
    """
    is_settled = max(status.st_mtime, status.st_ctime) < time.time() - SETTLED_S
    return (
        is_settled
        and hasattr(os, "SEEK_HOLE")
        and status.st_size > max(MIN_BYTES, status.st_blocks * _BLOCK_BYTES)
    )


def _fill_zeros(buffer: memoryview, count: int) -> int:
    count = min(len(buffer), len(_ZEROS), count)
    buffer[:count] = _ZEROS[:count]
    return count


def _is_cached(descriptor: int) -> bool:
    """Whether the first byte of a file is in the page cache. True if that cannot be determined."""
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
