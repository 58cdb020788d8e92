"""A process that ends a probe's processes if the probe itself is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from contextlib import suppress
from typing import List, Sequence

from labcarbon_collect.plan.probe.process_group import Member, ProcessGroup

_DONE = b"done\n"
_POLL_S = 0.1


class Guardian:
    """Watches the process that creates it. Create it before starting threads.

    ``ladder``: signals and the seconds to wait after each. ``folder``: removed with the probe.
    """

    def __init__(self, ladder: Sequence[tuple[int, float]], folder: str) -> None:
        watched, self._pipe = os.pipe()
        self._last = b""
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self._pipe)
                _watch(watched, ladder, folder)
                code = 0
            finally:
                os._exit(code)
        os.close(watched)

    def update(self, group: int, members: Sequence[Member]) -> None:
        """Tell it which processes belong to the probe."""
        line = json.dumps([group, members]).encode() + b"\n"
        if line != self._last:
            self._last = line
            with suppress(OSError):
                os.write(self._pipe, line)

    def dismiss(self) -> None:
        """End it, because all processes have ended."""
        with suppress(OSError):
            os.write(self._pipe, _DONE)
        os.close(self._pipe)
        os.waitpid(self.pid, 0)


def _watch(pipe: int, ladder: Sequence[tuple[int, float]], folder: str) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    empty = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(empty, descriptor)
    received = b""
    while True:
        part = os.read(pipe, 65536)
        if not part:
            break
        received = b"\n".join((received + part).split(b"\n")[-3:])
        if received.endswith(_DONE):
            return
    lines = [line for line in received.split(b"\n")[:-1] if line]
    if lines:
        group, rows = json.loads(lines[-1])
        members: List[Member] = [Member(*row) for row in rows]
        _end(ProcessGroup((), group, known=members), ladder)
    shutil.rmtree(folder, ignore_errors=True)


def _end(processes: ProcessGroup, ladder: Sequence[tuple[int, float]]) -> None:
    for number, wait_s in ladder:
        if not processes.scan():
            return
        processes.send(number)
        deadline_s = time.monotonic() + wait_s
        while time.monotonic() < deadline_s and processes.scan():
            time.sleep(_POLL_S)
