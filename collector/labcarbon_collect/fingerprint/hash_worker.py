"""Hashes data in a separate process at the lowest priority, so that it does not disturb the run.

``python -m labcarbon_collect.fingerprint.hash_worker`` reads one JSON object from standard input.
It writes ``{"done": bytes, "total": bytes}`` from time to time, and last ``{"data": {…}, "start":
{…}}`` or ``{"why": …}``. It ends when standard input closes.
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

from labcarbon_collect.files.manifests import Manifest, manifest
from labcarbon_collect.files.read_limits import Budget, BudgetExceeded
from labcarbon_collect.fingerprint.digests import FileChanged, content_hashes, open_digest_cache
from labcarbon_collect.fingerprint.payload import data_part, start_part

_LISTING_S = 3600.0
_MESSAGE_INTERVAL_S = 0.2
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "s390x": 282, "riscv64": 30}
_IDLE_CLASS = 3 << 13


class ReadRate:
    """Limits reading to ``bytes_per_s`` and reports the progress."""

    def __init__(self, total: int, bytes_per_s: int) -> None:
        self._total, self._bytes_per_s = total, bytes_per_s
        self._done, self._started_s, self._reported_s = 0, time.monotonic(), 0.0

    def __call__(self, count: int) -> None:
        """Account for ``count`` bytes read."""
        self._done += count
        now_s = time.monotonic()
        ahead_s = self._done / self._bytes_per_s - (now_s - self._started_s)
        if ahead_s > 0:
            time.sleep(ahead_s)
        if now_s - self._reported_s >= _MESSAGE_INTERVAL_S:
            self._reported_s = now_s
            write_message({"done": self._done, "total": self._total})


def lowest_priority() -> None:
    """Set nice 19 and, if the kernel supports it, the idle I/O class."""
    with suppress(OSError):
        os.nice(19)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0, _IDLE_CLASS)


def write_message(message: Mapping[str, Any]) -> None:
    """Write one line to the parent process. Exits if the parent is gone."""
    try:
        print(json.dumps(message), flush=True)
    except OSError:
        os._exit(0)


def main() -> None:
    """Read the request, hash its files, write the result."""
    lowest_priority()
    request: Dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        write_message(_hash_request(request))
    except (BudgetExceeded, FileChanged) as error:
        write_message({"why": str(error)})
    except OSError as error:
        write_message({"why": error.strerror or type(error).__name__})


def _hash_request(request: Mapping[str, Any]) -> Dict[str, Any]:
    budget = Budget(_LISTING_S)
    data, start = _list_files(request["data"], budget), _list_files(request["start"], budget)
    cache = open_digest_cache(Path(request["home"]) if request["home"] else None)
    total = sum(
        file.size for item in data + start for file in item.files if cache.lookup(file) is None
    )
    if total > request["most_bytes"]:
        raise BudgetExceeded(
            f"more than {request['most_bytes']} bytes of data have no stored digest"
        )
    read_rate = ReadRate(total, request["bytes_per_s"])
    response: Dict[str, Any] = {}
    if data:
        response["data"] = data_part(data, content_hashes(data, cache, on_hashed=read_rate))
    if start:
        response["start"] = start_part(start, content_hashes(start, cache, on_hashed=read_rate))
    cache.close()
    return response


def _list_files(role_paths: List[List[str]], budget: Budget) -> List[Manifest]:
    return [manifest(role, path, budget) for role, path in role_paths]


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
