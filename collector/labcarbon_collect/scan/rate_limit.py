"""Limits the read rate of all threads together."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional

_MAX_CREDIT_S = 0.2  # Unused rate older than this is lost.


class RateLimiter:
    """A shared limit in bytes per second. ``limit`` None: no limit."""

    def __init__(
        self,
        limit: Optional[float],
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit, self._now, self._sleep = limit, now, sleep
        self._lock = threading.Lock()
        self._free_s = 0.0

    def acquire(self, size: int) -> None:
        """Wait until ``size`` more bytes may be read."""
        if self._limit is None:
            return
        with self._lock:
            now_s = self._now()
            start_s = max(self._free_s, now_s - _MAX_CREDIT_S)
            self._free_s = start_s + size / self._limit
        if start_s > now_s:
            self._sleep(start_s - now_s)
