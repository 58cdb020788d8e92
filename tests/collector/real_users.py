"""Real users in tests: processes of other uids, and forks of the test that switch to them
permanently.
"""

from __future__ import annotations

import os
import signal
import subprocess
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

# A daemon without privileges and the users of two jobs: uids without an account on an ordinary
# machine.
DAEMON, ALICE, BOB = 64_101, 64_102, 64_103
# Shell arithmetic, because other users may not be able to read the test interpreter.
SHELL_SPIN = "read go; i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo done; read stop"


@contextmanager
def running(*command: str, uid: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start a process and kill it at the end by its handle."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=uid
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


@dataclass(frozen=True)
class Fork:
    """A fork that runs as another user."""

    pid: int
    reports: TextIO
    proceed: Callable[[], int]


@contextmanager
def unprivileged(
    uid: int,
    program: Callable[..., None],
    *arguments: Any,
    first: Callable[[], None] = lambda: None,
) -> Iterator[Fork]:
    """Fork this process, switch to ``uid`` permanently, and run ``program(report, wait,
    *arguments)``.

    ``first`` runs in the fork while it is still root. The fork must exit with 0; if the test fails,
    it is killed.
    """
    reports_in, reports_out = os.pipe()
    signal_in, signal_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        first()
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        status = 1
        try:
            with os.fdopen(reports_out, "w", buffering=1) as reports:
                program(
                    lambda *words: print(*words, file=reports),
                    lambda: os.read(signal_in, 1),
                    *arguments,
                )
            status = 0
        except BaseException:  # noqa: BLE001 - the fork must end here
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(reports_out)
    status = None
    try:
        with os.fdopen(reports_in) as reports:
            yield Fork(pid, reports, lambda: os.write(signal_out, b"\n"))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(signal_in)
        os.close(signal_out)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert status == 0
