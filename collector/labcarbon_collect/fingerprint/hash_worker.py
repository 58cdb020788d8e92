"""Hashes data in a process of its own, at the lowest priority, so that the work beside it is not disturbed.

``python -m labcarbon_collect.fingerprint.hash_worker``: one JSON object on standard input says what; standard output tells
``{"done": bytes, "total": bytes}`` now and then, and last ``{"data": {…}, "start": {…}}`` or ``{"why": …}``. It ends when
standard input does.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, List, Mapping

from labcarbon_collect.files.budget import Budget, BudgetExceeded
from labcarbon_collect.files.manifests import Manifest, manifest
from labcarbon_collect.fingerprint.digests import Changed, known_digests, verified
from labcarbon_collect.fingerprint.payload import data_part, start_part

_LIST_S = 3600.0
_SAY_EVERY_S = 0.2
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "s390x": 282, "riscv64": 30}
_IDLE_CLASS = 3 << 13


class Pace:
    """Waits so that no more than ``bytes_per_s`` are read, and tells how far it is."""

    def __init__(self, total: int, bytes_per_s: int) -> None:
        self._total, self._bytes_per_s = total, bytes_per_s
        self._done, self._begun_s, self._said_s = 0, time.monotonic(), 0.0

    def __call__(self, count: int) -> None:
        """``count`` more bytes were read."""
        self._done += count
        now_s = time.monotonic()
        ahead_s = self._done / self._bytes_per_s - (now_s - self._begun_s)
        if ahead_s > 0:
            time.sleep(ahead_s)
        if now_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = now_s
            say({"done": self._done, "total": self._total})


def lowest_priority() -> None:
    """Nice 19 and, where the kernel has it, the idle class of input and output."""
    with suppress(OSError):
        os.nice(19)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0, _IDLE_CLASS)


def say(told: Mapping[str, Any]) -> None:
    """One line to who started us; nobody there any more ends us."""
    try:
        print(json.dumps(told), flush=True)
    except OSError:
        os._exit(0)


def main() -> None:
    """Read what is asked, hash it, tell it."""
    lowest_priority()
    asked: Dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        say(_hashed(asked))
    except (BudgetExceeded, Changed) as why:
        say({"why": str(why)})
    except OSError as error:
        say({"why": error.strerror or type(error).__name__})


def _hashed(asked: Mapping[str, Any]) -> Dict[str, Any]:
    listing = Budget(_LIST_S)
    data, start = _listed(asked["data"], listing), _listed(asked["start"], listing)
    cache = known_digests(Path(asked["home"]) if asked["home"] else None)
    total = sum(file.size for each in data + start for file in each.files if cache.lookup(file) is None)
    if total > asked["most_bytes"]:
        raise BudgetExceeded(f"the data are more than {asked['most_bytes']} bytes that were not hashed before")
    pace = Pace(total, asked["bytes_per_s"])
    told: Dict[str, Any] = {}
    if data:
        told["data"] = data_part(data, verified(data, cache, hashed=pace))
    if start:
        told["start"] = start_part(start, verified(start, cache, hashed=pace))
    cache.close()
    return told


def _listed(asked: List[List[str]], listing: Budget) -> List[Manifest]:
    return [manifest(role, path, listing) for role, path in asked]


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
