"""Failure classes of commands and tracked runs. "" means unknown."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import traceback
from pathlib import Path
from typing import Dict, Optional

HOST_MEMORY = "host_memory"
_USER_ERRORS = (
    TypeError, ValueError, LookupError, AttributeError, NameError, ImportError, SyntaxError,
    AssertionError, ZeroDivisionError,
)  # fmt: skip
_OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CUDNN_STATUS_ALLOC_FAILED|HIP out of memory"
)
_SHARED_MEMORY = re.compile(
    r"[Bb]us error|insufficient shared memory|unable to \w+ .*shared memory|/dev/shm"
)


class OomKillCounter:
    """Counts the kernel's out-of-memory kills in this process's cgroup, which the command
    shares.
    """

    def __init__(
        self, cgroup: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._events = _events_file(cgroup, root)
        self._before = self._count()

    def has_increased(self) -> bool:
        """Return whether the count has increased since the start."""
        now = self._count()
        return now is not None and self._before is not None and now > self._before

    def _count(self) -> Optional[int]:
        if self._events is None:
            return None
        try:
            rows = dict(
                line.split()
                for line in self._events.read_text().splitlines()
                if line.count(" ") == 1
            )
            return int(rows["oom_kill"])
        except (OSError, KeyError, ValueError):
            return None


def classify_exit(killed_by: int, exit_code: int, oom_kills: OomKillCounter) -> str:
    """Return ``host_memory`` if the kernel killed for memory and the command or a part of it died
    of SIGKILL.
    """
    is_sigkill = killed_by == signal.SIGKILL or exit_code == 128 + signal.SIGKILL
    return HOST_MEMORY if is_sigkill and oom_kills.has_increased() else ""


def _events_file(cgroup: Path, root: Path) -> Optional[Path]:
    try:
        lines = cgroup.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("0::"):
            path = root / line[3:].lstrip("/") / "memory.events"
            return path if path.is_file() else None
    return None


def classify_error(error: BaseException, *, has_nan_loss: bool = False) -> str:
    """Return the failure class of an exception that ended a run, or "". ``has_nan_loss``: the last
    loss was not a number.
    """
    text, name = str(error)[:4000], type(error).__name__
    if isinstance(error, MemoryError) or "killed by signal: Killed" in text:
        return HOST_MEMORY
    if name == "OutOfMemoryError" or _OUT_OF_MEMORY.search(text):
        return "cuda_memory"
    if (
        name in ("ResourceExhaustedError", "XlaRuntimeError", "JaxRuntimeError")
        and "out of memory" in text.lower()
    ):
        return "cuda_memory"
    if _SHARED_MEMORY.search(text):
        return "shared_memory"
    if has_nan_loss or isinstance(error, FloatingPointError):
        return "nan"
    return "user_error" if isinstance(error, _USER_ERRORS) else ""


def hash_error_location(error: BaseException, root: str) -> str:
    """Return SHA-256 of the exception's type and the functions below ``root`` in its traceback,
    without texts and line numbers.
    """
    digest = hashlib.sha256(
        f"{type(error).__module__}.{type(error).__qualname__}\0".encode("utf-8", "replace")
    )
    prefix = os.path.realpath(root).rstrip(os.sep) + os.sep
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = os.path.realpath(frame.f_code.co_filename)
        if path.startswith(prefix) and "site-packages" not in path:
            digest.update(
                f"{path[len(prefix) :]}:{frame.f_code.co_name}\0".encode("utf-8", "replace")
            )
    return digest.hexdigest()


def failure_facts(
    error: Optional[BaseException], root: str, *, has_nan_loss: bool = False
) -> Dict[str, str]:
    """Return the ``failure`` object of the error that ended a run. It is empty without an error and
    for a requested end.
    """
    if error is None or isinstance(error, (SystemExit, KeyboardInterrupt, GeneratorExit)):
        return {}
    error_class, location = (
        classify_error(error, has_nan_loss=has_nan_loss),
        hash_error_location(error, root),
    )
    return {"class": error_class, "point": location} if error_class else {"point": location}
