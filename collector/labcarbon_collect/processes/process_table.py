"""All visible processes, with a full read only of those that ran since the last scan.

The kernel counts the run time of each process in nanoseconds, over all its threads, and reports it
as the process's CPU clock. While this clock stands still, the process cannot have used CPU time,
waited for a child, started a thread, or changed its name. Its last stat line still holds. A later
process with the same pid has another clock.

Only the parent changes without a run of the process, when the old parent ends. Such a process is
read again.

The stat lines of the processes that ran last are read through descriptors that remain open. The
descriptor of an ended process gives an error, even if its pid is in use again.

The kernel also counts the processes and threads that it started. While this count stands still
there is no new process, and /proc is not listed.
"""

from __future__ import annotations

import os
import resource
import time
from itertools import compress
from operator import ne
from typing import Dict, List, NamedTuple, Optional, Set

from labcarbon_collect.processes.procfs import KernelFile, Stat, parse_stat, read_stat

# Even without a new process, /proc is listed in each n-th scan: with hidepid, a process becomes
# visible by a change of its user.
_LIST_INTERVAL = 12
MAX_DESCRIPTORS = 256
_LINE_BYTES = 2048
# In place of a run time. A process with it is read in each scan.
_NOT_COUNTED = -1


class Changes(NamedTuple):
    """The difference between two scans."""

    read: List[Stat]  # new processes, and those that ran or may have another parent
    ended: List[Stat]  # ended or hidden processes, as they were last


class ProcessTable:
    """Reads the processes of one /proc repeatedly. ``stats``: all visible ones by pid."""

    def __init__(self, proc_root: str) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        is_unlimited = limit == resource.RLIM_INFINITY
        self._max_descriptors = (
            MAX_DESCRIPTORS if is_unlimited else min(MAX_DESCRIPTORS, limit // 4)
        )
        self._descriptors: Dict[int, int] = {}  # of stat lines by pid, that of the last run last
        self.stats: Dict[int, Stat] = {}
        self._proc = proc_root
        self._has_clocks = _is_own_proc(proc_root)
        self._pids: Dict[str, int] = {}  # by name in /proc
        # Of the processes with a clock, by pid in the same order: id of the clock, last run time.
        self._clocks: Dict[int, int] = {}
        self._run_ns: Dict[int, int] = {}
        self._without_clock: Set[int] = set()
        self._without_parent: Set[int] = set()  # the parent is hidden or ended
        self._kernel = KernelFile(f"{proc_root}/stat")
        self._started: Optional[int] = None  # count of the kernel before the last scan
        self._scans = 0
        self._read: Dict[int, Stat] = {}
        self._ended: List[Stat] = []

    def __del__(self) -> None:
        for descriptor in getattr(self, "_descriptors", {}).values():
            os.close(descriptor)

    def scan(self) -> Changes:
        """Read the processes and return what changed."""
        self._read, self._ended = {}, []
        is_list_due = self._is_list_due()
        self._read_running()
        for pid in [*self._without_clock, *self._without_parent]:
            if pid in self.stats and pid not in self._read:
                self._read_again(pid)
        if is_list_due:
            self._list()
        if self._ended:
            self._read_orphans()
        for stat in self._read.values():
            parent = self.stats.get(stat.ppid)
            has_parent = parent is not None and parent.start_ticks <= stat.start_ticks
            is_orphan = stat.ppid != 0 and not has_parent
            (self._without_parent.add if is_orphan else self._without_parent.discard)(stat.pid)
        return Changes(list(self._read.values()), self._ended)

    def _is_list_due(self) -> bool:
        """Whether there may be a new process."""
        started = _started_processes(self._kernel.read())
        is_due = started is None or started != self._started or self._scans % _LIST_INTERVAL == 0
        self._started = started
        self._scans += 1
        return is_due

    def _read_running(self) -> None:
        """Read the processes that ran or ended since the last scan."""
        run_ns: List[int] = []
        clocks = map(time.clock_gettime_ns, self._clocks.values())
        while len(run_ns) < len(self._clocks):
            try:
                run_ns.extend(clocks)  # after an error it continues with the next clock
            except OSError:  # this process ended
                run_ns.append(0)
        changed = list(compress(self._run_ns, map(ne, run_ns, self._run_ns.values())))
        if changed:
            run_ns_of = dict(zip(self._run_ns, run_ns))
            for pid in changed:
                self._run_ns[pid] = run_ns_of[pid] or _NOT_COUNTED
                self._read_again(pid)

    def _list(self) -> None:
        """Add new processes, and end those that are no longer visible."""
        names = os.listdir(self._proc)
        for name in self._pids.keys() - set(names):
            self._end(self._pids[name])
        for name in names:
            if name not in self._pids and name.isdigit():
                self._add(name)

    def _read_orphans(self) -> None:
        """Read the children of ended processes. They have another parent."""
        parents = {stat.pid for stat in self._ended}
        for pid in [pid for pid, stat in self.stats.items() if stat.ppid in parents]:
            if pid not in self._read:
                self._read_again(pid)

    def _read_again(self, pid: int) -> None:
        stat = self._read_line(pid)
        if stat is not None and stat.start_ticks == self.stats[pid].start_ticks:
            self.stats[pid] = self._read[pid] = stat
        else:  # it ended or is hidden, and another process may have its pid
            self._end(pid)
            self._add(str(pid))

    def _read_line(self, pid: int) -> Optional[Stat]:
        """Return the stat line of a known process, None if it ended or is hidden."""
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is None:
            if pid not in self._clocks or not self._max_descriptors:
                return read_stat(self._proc, pid)
            if len(self._descriptors) >= self._max_descriptors:
                self._close(next(iter(self._descriptors)))
            try:
                descriptor = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return None
        self._descriptors[pid] = descriptor
        try:
            return parse_stat(os.pread(descriptor, _LINE_BYTES, 0))
        except OSError:
            return None

    def _close(self, pid: int) -> None:
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)

    def _add(self, name: str) -> None:
        pid = int(name)
        # The clock is read first: the next scan notices a run between the two reads.
        clock = process_clock(pid)
        run_ns = _run_ns(clock) if self._has_clocks else None
        stat = read_stat(self._proc, pid)
        if stat is None:
            return
        self._pids[name] = pid
        self.stats[pid] = self._read[pid] = stat
        if run_ns is None:
            self._without_clock.add(pid)
        else:
            self._clocks[pid], self._run_ns[pid] = clock, run_ns or _NOT_COUNTED

    def _end(self, pid: int) -> None:
        """Record that a process ended or is hidden."""
        if self._clocks.pop(pid, None) is not None:
            del self._run_ns[pid]
        self._close(pid)
        self._without_clock.discard(pid)
        self._without_parent.discard(pid)
        del self._pids[str(pid)]
        self._ended.append(self.stats.pop(pid))
        self._read.pop(pid, None)


def process_clock(pid: int) -> int:
    """Return the id of a process's CPU clock, as clock_getcpuclockid(3). Every user may read it."""
    return (~pid << 3) | 2


def _run_ns(clock: int) -> Optional[int]:
    try:
        return time.clock_gettime_ns(clock)
    except OSError:
        return None


def _is_own_proc(proc_root: str) -> bool:
    """Whether the pids of this /proc are those of this process's PID namespace."""
    try:
        return os.readlink(f"{proc_root}/self") == str(os.getpid())
    except OSError:
        return False


def _started_processes(kernel_stat: bytes) -> Optional[int]:
    """Return the number of processes and threads started since boot, None if it is not reported."""
    _, _, rest = kernel_stat.rpartition(b"\nprocesses ")
    count = rest.partition(b"\n")[0]
    return int(count) or None if count.isdigit() else None
