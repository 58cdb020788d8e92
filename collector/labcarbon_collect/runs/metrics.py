"""Upload of a run's metrics in the background. It never blocks the caller and stores a bounded
number of points.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import Any, Callable, Deque, List, Mapping, Optional, Tuple

from labcarbon_collect.api.transport import InvalidUrlError, Response, ServerUnavailable, Transport
from labcarbon_collect.clock import iso
from labcarbon_collect.config import Login

MAX_POINTS, BATCH_SIZE = 100_000, 5_000
_INTERVAL_S, _MAX_WAIT_S, _DEADLINE_S = 2.0, 60.0, 10.0
_MAX_NAME_LENGTH = 200
Point = Tuple[str, int, float, int]  # name, step, value, µs UTC


class MetricSender:
    """A thread that posts points in batches. Failed batches are retried. Above the limit the oldest
    points are dropped.
    """

    def __init__(
        self,
        login: Optional[Login],
        run: str,
        *,
        is_registered: threading.Event,
        notify: Callable[[str], None],
    ) -> None:
        """Start the thread. ``is_registered`` is set once the server may know the run. Without
        ``login``, points are dropped with one warning.
        """
        self._login, self._run, self._notify = login, run, notify
        self._is_registered, self._wake, self._is_closing = is_registered, threading.Event(), False
        self._points: Deque[Point] = deque()
        self._lock = threading.Lock()
        self._has_warned = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._run_loop, name="metrics", daemon=True)
        if login is not None:
            self._thread.start()

    def add(self, points: List[Point]) -> None:
        """Queue points."""
        if self._login is None:
            self.dropped += len(points)
            self.warn_first("Metrics require your own login: labcarbon-collect login URL")
            return
        with self._lock:
            self._points.extend(points)
            while len(self._points) > MAX_POINTS:
                self._points.popleft()
                self.dropped += 1
        if len(self._points) >= BATCH_SIZE:
            self._wake.set()

    def close(self, wait_s: float) -> int:
        """Send the remaining points within ``wait_s`` seconds. Returns how many points were not
        sent.
        """
        self._is_closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)
        return len(self._points) + self.dropped

    def warn_first(self, text: str) -> None:
        """Print a warning, but only the first one of a run."""
        if not self._has_warned:
            self._has_warned = True
            self._notify(text)

    def _run_loop(self) -> None:
        failures = 0
        assert self._login is not None
        while True:
            self._wake.wait(min(_MAX_WAIT_S, _INTERVAL_S * 2**failures))
            self._wake.clear()
            is_closing = self._is_closing
            self._is_registered.wait(_DEADLINE_S)
            failures = 0 if self._send_all() else min(failures + 1, 6)
            if is_closing:
                return

    def _send_all(self) -> bool:
        while self._points:
            with self._lock:
                batch = [self._points[index] for index in range(min(BATCH_SIZE, len(self._points)))]
            if not self._post(batch):
                return False
            with self._lock:
                # Points may have been dropped meanwhile. Only sent ones are removed.
                sent = set(map(id, batch))
                while self._points and id(self._points[0]) in sent:
                    self._points.popleft()
        return True

    def _post(self, batch: List[Point]) -> bool:
        """Return whether a batch is done: the server has it or will never accept it."""
        assert self._login is not None
        body = {
            "points": [
                [name, step, json_value(value), iso(at_us)] for name, step, value, at_us in batch
            ]
        }
        try:
            transport = Transport(self._login.url, self._login.token, deadline_s=_DEADLINE_S)
            reply = transport.call("POST", f"runs/{self._run}/metrics/", body)
            transport.close()
        except (InvalidUrlError, ServerUnavailable) as error:
            self.warn_first(f"Metrics are stored and sent later: {error}")
            return False
        if 200 <= reply.status < 300:
            return True
        self.warn_first(f"The server rejected metrics: {reply.message}")
        if _is_permanent_error(reply):
            self.dropped += len(batch)
            return True
        return False


def non_finite_text(value: float) -> str:
    """Return the text of a non-finite value."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_value(value: float) -> Any:
    """Return a value as it is sent. JSON has no number for non-finite values."""
    return value if math.isfinite(value) else non_finite_text(value)


def parse_points(
    step: int, metrics: Mapping[str, Any], at_us: int
) -> Tuple[List[Point], List[str]]:
    """Return the points of logged metrics, and the names of those that are not numbers. Text is not
    a number.
    """
    points: List[Point] = []
    invalid_names: List[str] = []
    for name, value in metrics.items():
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            points.append((str(name)[:_MAX_NAME_LENGTH], int(step), float(value), at_us))
        except Exception:  # noqa: BLE001 - converting an object may raise anything, and the script continues
            invalid_names.append(str(name)[:_MAX_NAME_LENGTH])
    return points, invalid_names


def _is_permanent_error(reply: Response) -> bool:
    return 400 <= reply.status < 500 and reply.status not in (401, 403, 404, 408, 426, 429)
