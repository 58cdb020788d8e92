"""Reading ahead: while one line of a plan is moved, the next ones are read in threads.

What was read may have changed since, and may not go any more: whoever moves it looks again whether it is what was read, by
inode, size and times, and asks the server then.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, Sequence

from labcarbon_collect.cleanup.client import Line, Plan
from labcarbon_collect.cleanup.content import Hashed
from labcarbon_collect.cleanup.safe_paths import folder_of, parts
from labcarbon_collect.cleanup.session import verified
from labcarbon_collect.plan.listing import Listing


class _Stopped(Exception):
    """Nobody waits for what is read any more."""


class Ahead:
    """Reads lines. ``threads``: how many at once; ``hashed``: told of each block that is read, by one thread at a time."""

    def __init__(self, plan: Plan, hashed: Hashed, threads: int) -> None:
        self._plan, self._hashed, self._threads = plan, hashed, threads
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._begun: Dict[int, Future[Listing]] = {}

    def begin(self, lines: Sequence[Line]) -> None:
        """Begin with the next of these, unless they are begun, or lie in a folder of the plan and most likely go with that.
        One waits, so that no thread stands idle."""
        for line in lines[: self._threads + 1]:
            if line.number not in self._begun and not any(self._plan.around(line.path)):
                self._begun[line.number] = self._pool.submit(self._read, line)

    def take(self, line: Line) -> Listing:
        """What lies at a line's place, if it is what the line says to the last byte. Raises Stays."""
        begun = self._begun.pop(line.number, None)
        return begun.result() if begun is not None else self._read(line)

    def forget(self, line: Line) -> None:
        """It was not asked for."""
        begun = self._begun.pop(line.number, None)
        if begun is not None:
            begun.cancel()

    def close(self) -> None:
        """Have the threads end with the block that they read now."""
        self._is_over.set()
        self._pool.shutdown(cancel_futures=True)

    def _read(self, line: Line) -> Listing:
        with folder_of(line.path) as folder:
            return verified(self._count, folder, parts(line.path)[-1], line)

    def _count(self, size: int) -> None:
        if self._is_over.is_set():
            raise _Stopped
        with self._lock:
            self._hashed(size)
