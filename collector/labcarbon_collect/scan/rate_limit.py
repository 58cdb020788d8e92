"""How fast all threads together may read."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional

_MAX_CREDIT_S = 0.2  # what was not read in this time is not made up for


class RateLimiter:
    """Bytes a second for all who share it; ``limit`` None: as fast as it goes."""

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
        """Wait until ``size`` bytes more may be read."""
        if self._limit is None:
            return
        with self._lock:
            now_s = self._now()
            start_s = max(self._free_s, now_s - _MAX_CREDIT_S)
            self._free_s = start_s + size / self._limit
        if start_s > now_s:
            self._sleep(start_s - now_s)
