"""The processes of a probe: all descendants, also those that left its group or session."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Sequence, Set

from labcarbon_collect.processes.procfs import Stat, read_stat

PROC = "/proc"
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Member(NamedTuple):
    """A process, identified by its pid and start."""

    pid: int
    start_ticks: int


def adopt_orphans(adopts: bool) -> None:
    """Let descendants whose parent ends become children of this process, so that none of them
    disappears from its tree.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, int(adopts), 0, 0, 0)


def own_children() -> FrozenSet[int]:
    """Return the pids of the children of this process."""
    return frozenset(stat.pid for stat in _all_stats() if stat.ppid == os.getpid())


class ProcessGroup:
    """The descendants of a process.

    ``roots``: pids with all of whose descendants the group begins. ``group``: its process group.
    """

    def __init__(self, roots: Iterable[int], group: int, *, known: Iterable[Member] = ()) -> None:
        self._roots, self._group = frozenset(roots), group
        self._known: Set[Member] = set(known)
        self.excluded: FrozenSet[int] = frozenset()
        self.adopts = False  # this process is the new parent of orphans
        self.stats: List[Stat] = []  # of the running processes, as of the last scan

    def scan(self) -> List[Stat]:
        """Return the running processes of the group. Ended children of this process are waited for,
        except the roots.
        """
        children: Dict[int, List[Stat]] = {}
        members: Dict[int, Stat] = {}
        pending: List[Stat] = []
        own_pid = os.getpid()
        for stat in _all_stats():
            children.setdefault(stat.ppid, []).append(stat)
            is_adopted = self.adopts and stat.ppid == own_pid and stat.pid not in self.excluded
            is_member = stat.pid in self._roots or stat.group == self._group
            if is_adopted or is_member or Member(stat.pid, stat.start_ticks) in self._known:
                pending.append(stat)
        while pending:
            stat = pending.pop()
            if stat.pid not in members and stat.pid != own_pid and stat.pid not in self.excluded:
                members[stat.pid] = stat
                pending.extend(children.get(stat.pid, ()))
        for stat in members.values():
            if stat.has_ended and stat.ppid == own_pid and stat.pid not in self._roots:
                with suppress(ChildProcessError):
                    os.waitpid(stat.pid, os.WNOHANG)
        self.stats = [stat for stat in members.values() if not stat.has_ended]
        self._known.update(Member(stat.pid, stat.start_ticks) for stat in self.stats)
        return self.stats

    def members(self) -> List[Member]:
        """Return the running processes as of the last scan."""
        return sorted(Member(stat.pid, stat.start_ticks) for stat in self.stats)

    def send(self, number: int) -> None:
        """Send a signal to all running processes, in one call to those in the process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)
        for stat in self.scan():
            if stat.group != self._group or number == signal.SIGKILL:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(stat.pid, number)


def read_stats(pids: Sequence[int]) -> List[Stat]:
    """Return the current stat lines of processes that still run."""
    stats = (read_stat(PROC, pid) for pid in pids)
    return [stat for stat in stats if stat is not None]


def memory_bytes(stats: Sequence[Stat]) -> int:
    """Return the resident memory of processes. Pages that several processes share count once,
    where the kernel tells the proportional share.
    """
    if len(stats) == 1:
        return stats[0].resident_pages * _PAGE
    return sum(_proportional_bytes(stat) for stat in stats)


def _proportional_bytes(stat: Stat) -> int:
    try:
        with open(f"{PROC}/{stat.pid}/smaps_rollup", "rb") as lines:
            for line in lines:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return stat.resident_pages * _PAGE


def _all_stats() -> List[Stat]:
    return read_stats([int(name) for name in os.listdir(PROC) if name.isdigit()])
