"""Restarts processes as systemd does, kills them, and measures how long each recovery takes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.faults.installation import ROOT

BACK_S = 10.0
_END_S = 120.0
_LOOK_S, _LATE_S = 0.05, 0.5


def _stat_fields(path: Path) -> list[str]:
    """Return what follows the name in ``/proc/<pid>/stat``: state, parent, ... Empty if no
    process has this id.
    """
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def children_of(pid: int) -> list[int]:
    """Return the process ids whose parent is ``pid``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat_fields(path)
        if fields and int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def is_alive(pid: int) -> bool:
    """Return whether the process exists and has not ended. SIGKILL takes a while on a busy
    machine: 0.1 to 0.2 s with 8 busy processes on 2 cores.
    """
    fields = _stat_fields(Path(f"/proc/{pid}/stat"))
    return bool(fields) and fields[0] != "Z"


@dataclass
class SupervisedProcess:
    """A process. ``ready(pid)`` returns whether it works again after a restart, and is asked only
    after the killed process ended: until then that one could answer.
    """

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    log_path: Path
    ready: Callable[[int], bool]
    process: subprocess.Popen[bytes] | None = None
    since: float | None = None  # killed then and not back yet (monotonic seconds)
    victim: int = 0  # the process killed last
    back_s: list[float] = field(default_factory=list)
    starts: int = 0
    stalled_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        self.starts += 1

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def restart_if_ended(self) -> None:
        """Restart the process if it ended. Records when it works again."""
        if self.process is not None and self.process.poll() is not None:
            self.since = self.since or time.monotonic()
            self.start()
        elif self.since is not None and not is_alive(self.victim) and self.ready(self.pid):
            self.back_s.append(time.monotonic() - self.since)
            self.since = None

    def add_stall(self, late_s: float) -> None:
        """Exclude time during which the whole machine was stalled."""
        if self.since is not None:
            self.since = min(self.since + late_s, time.monotonic())
            self.stalled_s += late_s

    def kill(self, pid: int) -> None:
        """Send SIGKILL to ``pid``, which is this process or a child of it."""
        # Killed again before its recovery: the measurement restarts.
        self.since, self.victim = time.monotonic(), pid
        os.kill(pid, signal.SIGKILL)

    def log_tail(self) -> str:
        return f"{self.name}: " + self.log_path.read_text(errors="replace")[-3000:]


class Supervisor:
    """Supervises processes, each in a thread of its own, so that a slow check delays no other
    process.
    """

    def __init__(self, processes: Sequence[SupervisedProcess]) -> None:
        self.processes = list(processes)
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(supervised,),
                name=f"supervisor of the {supervised.name}",
                daemon=True,
            )
            for supervised in self.processes
        ]

    def __enter__(self) -> Self:
        for supervised in self.processes:
            supervised.since = time.monotonic()
            supervised.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for supervised in self.processes:
            self.end(supervised)

    def kill(self, supervised: SupervisedProcess, pid: int) -> bool:
        """Kill a process. Returns False if it had ended already."""
        if self._failed is not None:
            raise self._failed
        with supervised.lock:
            if supervised.process is None or supervised.process.poll() is not None:
                return False
            try:
                supervised.kill(pid)
            except ProcessLookupError:
                return False
        return True

    def wait_until_back(self, seconds: float) -> None:
        """Return when all processes work. Fails with their logs after a timeout."""
        until = time.monotonic() + seconds
        while any(supervised.since is not None for supervised in self.processes):
            if self._failed is not None:
                raise self._failed
            if time.monotonic() > until:
                late = [
                    supervised.log_tail()
                    for supervised in self.processes
                    if supervised.since is not None
                ]
                raise AssertionError(f"not back after {seconds:.0f} s:\n" + "\n".join(late))
            time.sleep(0.02)

    def end(self, supervised: SupervisedProcess) -> None:
        """End a process for good by SIGTERM."""
        with supervised.lock:
            process, supervised.process = supervised.process, None
        if process is None:
            return
        inner = children_of(process.pid)
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            for pid in inner:
                if Path(f"/proc/{pid}").exists():
                    os.kill(pid, signal.SIGKILL)
            raise AssertionError(
                f"did not end on SIGTERM within {_END_S:.0f} s: {supervised.log_tail()}"
            ) from None

    def _run(self, supervised: SupervisedProcess) -> None:
        late_s = 0.0
        while not self._stop.is_set():
            try:
                with supervised.lock:
                    if late_s > _LATE_S:
                        supervised.add_stall(late_s)
                    supervised.restart_if_ended()
            except BaseException as error:  # noqa: BLE001 - a thread's failure must fail the test
                self._failed = error
                return
            started_s = time.monotonic()
            self._stop.wait(_LOOK_S)
            late_s = time.monotonic() - started_s - _LOOK_S
