"""Limits of time and size for reading files and for bounded background calls."""

from __future__ import annotations

import os
import stat
import threading
import time
from typing import Any, Callable, Generic, Optional, TypeVar

from labcarbon_collect.startup_timeout import SHORT_TIMEOUT_S, STARTUP_TIMEOUT_S, VARIABLE

Result = TypeVar("Result")
_POLL_INTERVAL_S = 0.1


class BudgetExceeded(Exception):
    """The limit of time, files or bytes is exceeded. The text states which."""


class Budget:
    """A deadline on the monotonic clock, shared by several calls."""

    def __init__(self, seconds: float, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self.seconds = now, seconds
        self.is_expired = False  # ended by a call of :meth:`expire`
        self._deadline_s = now() + seconds

    @property
    def remaining_s(self) -> float:
        """Remaining seconds, never negative."""
        return max(0.0, self._deadline_s - self._now())

    def expire(self) -> None:
        """End the budget now. All waiting calls return."""
        self.is_expired = True
        self.seconds -= self.remaining_s
        self._deadline_s = self._now()

    def check(self) -> None:
        """Raise BudgetExceeded after the deadline."""
        if self._now() >= self._deadline_s:
            raise BudgetExceeded(f"it exceeded {self.seconds:g} s")


class Deadline(Generic[Result]):
    """A call in its own thread, because a file system may hang. Its result is None if it is not
    ready in time.
    """

    def __init__(self, what: str, call: Callable[[], Result]) -> None:
        self.name, self._call = what, call
        self.result: Optional[Result] = None
        self.error = ""
        self._started_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"look-{what}", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the call ended, with or without success."""
        return not self._thread.is_alive()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the call started."""
        return time.monotonic() - self._started_s

    def wait(self, budget: Budget) -> Optional[Result]:
        """Return the result, None after a failure or timeout. ``error`` then states the cause."""
        while self._thread.is_alive() and budget.remaining_s:
            self._thread.join(
                min(budget.remaining_s, _POLL_INTERVAL_S)
            )  # a signal may expire the budget meanwhile
        if self._thread.is_alive():
            self.error = f"it exceeded {budget.seconds:g} s"
            return None
        return self.result

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BudgetExceeded as error:
            self.error = str(error)
        except OSError as error:
            self.error = error.strerror or type(error).__name__
        except Exception as error:  # noqa: BLE001 - an unexpected error must not delay the run
            self.error = type(error).__name__


def no_response_text(what: str, waited_s: float, budget: Budget) -> str:
    """Return why there is no response of ``what`` after ``waited_s`` seconds: it is slow, other
    steps used the timeout up, or a signal ended the wait.
    """
    if budget.is_expired:
        return f"a signal ended the wait for {what}"
    if waited_s >= SHORT_TIMEOUT_S:
        return f"{what} did not respond within {round(waited_s, 1):g} s"
    return (
        f"the startup timeout of {STARTUP_TIMEOUT_S:g} s was used up before {what} could respond. "
        f"Set {VARIABLE} to a longer time"
    )


def open_regular_file(path: Any) -> int:
    """Open a regular file for reading without waiting for the other end of a pipe. Raises OSError
    for anything else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no regular file")
    return descriptor


def read_regular_file(path: Any, max_bytes: int) -> bytes:
    """Return the content of a regular file. Raises OSError, and BudgetExceeded above
    ``max_bytes``.
    """
    with os.fdopen(open_regular_file(path), "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise BudgetExceeded(f"a file is larger than {max_bytes} bytes")
    return content
