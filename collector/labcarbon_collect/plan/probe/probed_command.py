"""A command that is started, observed and ended by a probe."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.plan.probe.command_output import CommandOutput
from labcarbon_collect.plan.probe.guardian import Guardian
from labcarbon_collect.plan.probe.power_samples import now_us
from labcarbon_collect.plan.probe.process_group import (
    Member,
    ProcessGroup,
    adopt_orphans,
    memory_bytes,
    own_children,
    read_stats,
)
from labcarbon_collect.plan.probe.statistics import MILLION
from labcarbon_collect.processes.process_table import process_clock
from labcarbon_collect.runs.child_process import ExitStatus, GatedProcess

CPU_TIME, PAGE_FAULTS = "CPU time", "page faults"
ITSELF, INTERRUPTED, TERMINATED, KILLED = "itself", "interrupt", "terminate", "kill"
_HOW = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGKILL: KILLED}
_SCAN_US = 500_000
_MEMORY_US = 1_000_000


@dataclass(frozen=True)
class ProbeTiming:
    """Times of a probe in µs. Tests use shorter ones."""

    warm_up_us: int = 30 * MILLION
    needed_us: int = 60 * MILLION
    interrupt_us: int = 30 * MILLION  # from SIGINT to SIGTERM
    terminate_us: int = 10 * MILLION  # from SIGTERM to SIGKILL
    kill_us: int = 5 * MILLION
    sample_us: int = 50_000
    poll_us: int = MILLION

    @property
    def ladder(self) -> tuple[tuple[signal.Signals, int], ...]:
        """Signals that end the command, each with the time to wait."""
        return (
            (signal.SIGINT, self.interrupt_us),
            (signal.SIGTERM, self.terminate_us),
            (signal.SIGKILL, self.kill_us),
        )


@dataclass
class Observations:
    """What was observed of a command. Moments are µs of the monotonic clock."""

    started_us: int = 0
    ended_us: int = 0  # when the probe began to end it, or it ended itself
    totals: Dict[str, List[Tuple[int, int]]] = field(
        default_factory=lambda: {CPU_TIME: [], PAGE_FAULTS: []}
    )
    memory_peak_bytes: int = 0
    how_ended: str = ITSELF
    left_behind: List[Member] = field(default_factory=list)


class ProbedCommand:
    """A command in a session of its own. Create it before starting threads.

    ``environ``: variables that it gets besides the current ones. ``guarded_folder``: removed if
    this process is killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: str,
        environ: Dict[str, str],
        timing: ProbeTiming,
        guarded_folder: str,
        passed_to: int,
    ) -> None:
        self.observations = Observations()
        self.exit_status: Optional[ExitStatus] = None
        self.interruptions = 0  # how often a signal asked this process to end
        self._timing = timing
        ladder = [(int(number), wait_us / MILLION) for number, wait_us in timing.ladder]
        self._guardian = Guardian(ladder, guarded_folder)
        self.output = CommandOutput(passed_to)

        def prepare() -> None:
            os.setsid()
            self.output.attach()
            os.chdir(folder)
            os.environ.update(environ)

        self.process = GatedProcess(command, prepare=prepare)
        self.output.release_terminal()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._on_signal)
        self._group = ProcessGroup((self.process.pid,), self.process.pid)
        self._scanned_us = self._sampled_us = self._memory_us = 0

    def start(self) -> None:
        """Let the command start."""
        adopt_orphans(True)
        self._group.excluded = own_children() - {self.process.pid}
        self._group.adopts = True
        self._guardian.update(self.process.pid, [])
        self.process.release()
        self.observations.started_us = self.observations.ended_us = now_us()

    def observe(self, until_us: int, is_enough: Callable[[], bool]) -> None:
        """Observe it until a moment, a signal, ``is_enough``, or its end."""
        while (
            now_us() < until_us
            and self.exit_status is None
            and not self.interruptions
            and not is_enough()
        ):
            self._wait()
        self.observations.ended_us = now_us()

    def end(self, on_signal: Callable[[signal.Signals], None]) -> ExitStatus:
        """End all its processes and return how it ended. A further Ctrl-C sends the next signal at
        once.
        """
        adopted_handled = self.interruptions
        for number, wait_us in self._timing.ladder:
            if self._is_over():
                break
            on_signal(number)
            if self.exit_status is None:
                self.observations.how_ended = _HOW[number]
            self._group.send(number)
            deadline_us = now_us() + wait_us
            while now_us() < deadline_us and not self._is_over():
                self._wait()
                if self.interruptions > adopted_handled:
                    adopted_handled = self.interruptions
                    break
        self.observations.left_behind = self._group.members()
        if self.exit_status is None:  # the kernel does not end it, as during a hung disk access
            self.exit_status = ExitStatus(128 + signal.SIGKILL, signal.SIGKILL, 0)
        while self.output.is_open and self.output.read(now_us()):
            pass
        self.output.close()
        self._guardian.dismiss()
        adopt_orphans(False)
        return self.exit_status

    def _is_over(self) -> bool:
        """Whether the command and all its descendants have ended."""
        self._poll()
        return self.exit_status is not None and not self._group.scan()

    def _poll(self) -> None:
        if self.exit_status is None:
            self.exit_status = self.process.poll()

    def _wait(self) -> None:
        """Pass on output and read the processes for one interval."""
        deadline_us = self._sampled_us + self._timing.sample_us
        while True:
            wait_s = max(0, deadline_us - now_us()) / MILLION
            if not self.output.is_open:
                time.sleep(wait_s)
                break
            readable, _, _ = select.select([self.output.descriptor], [], [], wait_s)
            if not readable:
                break
            while self.output.read(now_us()):
                pass
            if now_us() >= deadline_us:
                break
        self._poll()
        self._sample(now_us())

    def _sample(self, at_us: int) -> None:
        self._sampled_us = at_us
        if at_us - self._scanned_us >= _SCAN_US:
            self._scanned_us = at_us
            self._group.scan()
            self._guardian.update(self.process.pid, self._group.members())
        pids = [member.pid for member in self._group.members()]
        stats = read_stats(pids)
        run_us = sum(_run_us(pid) for pid in pids)
        self.observations.totals[CPU_TIME].append((at_us, run_us))
        faults = sum(stat.minor_faults for stat in stats)
        self.observations.totals[PAGE_FAULTS].append((at_us, faults))
        if stats and (len(stats) == 1 or at_us - self._memory_us >= _MEMORY_US):
            self._memory_us = at_us
            peak_bytes = max(self.observations.memory_peak_bytes, memory_bytes(stats))
            self.observations.memory_peak_bytes = peak_bytes

    def _on_signal(self, number: int, frame: object) -> None:
        self.interruptions += 1


def _run_us(pid: int) -> int:
    try:
        return time.clock_gettime_ns(process_clock(pid)) // 1000
    except OSError:
        return 0
