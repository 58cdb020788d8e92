"""All visible processes, with a full read only of those that ran since the last scan.

The kernel's scheduler counts the run time of each thread in nanoseconds. While this count of a
process with one thread stands still, the process cannot have used CPU time, waited for a child,
started a thread, or changed its name. Its last stat line still holds. The count is a short line
behind a descriptor that stays open, and a descriptor never refers to a later process with the
same pid.

Only the parent changes without a run of the process, when the old parent ends. Such a process is
read again.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from labcarbon_collect.processes.procfs import Stat, read_stat

# The kernel keeps a page of memory behind each descriptor. Further processes are read in full.
MAX_DESCRIPTORS = 4096
_LINE_BYTES = 128


@dataclass
class _Watched:
    """A process with one thread, its scheduler line and the stat line read after it."""

    __slots__ = ("activity", "descriptor", "stat")

    stat: Stat
    descriptor: int
    activity: bytes


class ProcessTable:
    """Reads the processes of one /proc repeatedly."""

    def __init__(self, proc_root: str, *, max_descriptors: int = MAX_DESCRIPTORS) -> None:
        """``max_descriptors``: at most this many and half of the limit of this process are held."""
        self._proc = proc_root
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        is_unlimited = limit == resource.RLIM_INFINITY
        self._max_descriptors = (
            max_descriptors if is_unlimited else min(max_descriptors, limit // 2)
        )
        self._watched: Dict[str, _Watched] = {}

    def __del__(self) -> None:
        for watched in getattr(self, "_watched", {}).values():
            os.close(watched.descriptor)

    def scan(self) -> Dict[int, Stat]:
        """Return all visible processes by pid. A process that did not run keeps its Stat object."""
        stats: Dict[int, Stat] = {}
        before, self._watched = self._watched, {}
        kept: List[str] = []
        for name in os.listdir(self._proc):
            watched = before.pop(name, None)
            if watched is None:
                if name.isdigit():
                    self._read(name, stats)
                continue
            self._watched[name] = watched
            try:
                activity = os.pread(watched.descriptor, _LINE_BYTES, 0)
            except OSError:  # it ended, and another process may have its pid
                self._forget(name)
                self._read(name, stats)
                continue
            if activity == watched.activity:
                stats[watched.stat.pid] = watched.stat
                kept.append(name)
            else:
                self._read_again(name, activity, stats)
        for watched in before.values():
            os.close(watched.descriptor)
        for name in kept:
            watched = self._watched[name]
            parent = stats.get(watched.stat.ppid)
            if watched.stat.ppid and (
                parent is None or parent.start_ticks > watched.stat.start_ticks
            ):
                self._read_again(name, watched.activity, stats)
        return stats

    def _read(self, name: str, stats: Dict[int, Stat]) -> None:
        """Read a process in full, and watch it if it has one thread."""
        # The scheduler's line is read first: the next scan notices a run between the two reads.
        descriptor, activity = self._open_activity(name)
        stat = read_stat(self._proc, int(name))
        if stat is not None:
            stats[stat.pid] = stat
        if descriptor is None:
            return
        # A kernel that does not count run times reports 0.
        if stat is not None and stat.threads == 1 and not activity.startswith(b"0 "):
            self._watched[name] = _Watched(stat, descriptor, activity)
        else:
            os.close(descriptor)

    def _read_again(self, name: str, activity: bytes, stats: Dict[int, Stat]) -> None:
        """Read a watched process in full. ``activity`` was read before."""
        watched = self._watched[name]
        stat = read_stat(self._proc, watched.stat.pid)
        if stat is None:
            stats.pop(watched.stat.pid, None)
        else:
            stats[stat.pid] = stat
        is_same = stat is not None and stat.start_ticks == watched.stat.start_ticks
        if stat is not None and is_same and stat.threads == 1:
            watched.stat, watched.activity = stat, activity
        else:
            self._forget(name)

    def _open_activity(self, name: str) -> Tuple[Optional[int], bytes]:
        if len(self._watched) >= self._max_descriptors:
            return None, b""
        try:
            descriptor = os.open(f"{self._proc}/{name}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None, b""
        try:
            return descriptor, os.pread(descriptor, _LINE_BYTES, 0)
        except OSError:
            os.close(descriptor)
            return None, b""

    def _forget(self, name: str) -> None:
        os.close(self._watched.pop(name).descriptor)
