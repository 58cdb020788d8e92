"""Cumulative CPU time per consumer, with processes that start and end between two snapshots. Pure.

A process that starts and ends between two snapshots is never observed. Its parent's children time
includes it after the wait. Growth of children time is therefore counted too, less the time that was
counted while the children were observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import AbstractSet, Dict, List, Mapping, Set

# The end of a child and the growth of its parent may be in different snapshots. Ended processes are
# stored this long.
_MAX_SNAPSHOTS = 2


@dataclass
class _Ended:
    """An observed process that has ended. Its time will appear in the children time of its
    reaper.
    """

    ppid: int
    key: str
    ticks: int
    had_no_ticks: bool  # none of its time was counted yet
    snapshots: int = 0


class CpuAccount:
    """Cumulative ticks per consumer."""

    def __init__(self) -> None:
        self.ticks: Dict[str, int] = {}
        self._ended: List[_Ended] = []
        self._prepaid: Dict[str, int] = {}
        self._active: Set[str] = set()

    def add(self, key: str, ticks: int) -> None:
        """Count own time of a process, less the time counted for its consumer in advance."""
        self._active.add(key)
        prepaid = min(self._prepaid.get(key, 0), ticks)
        if prepaid:
            self._prepaid[key] -= prepaid
        self.ticks[key] = self.ticks.get(key, 0) + ticks - prepaid

    def raise_to(self, key: str, ticks: int) -> None:
        """Raise a consumer to ``ticks``, the total by wait4. The difference is prepaid: later
        observed time is deducted from it.
        """
        missing = ticks - self.ticks.get(key, 0)
        if missing > 0:
            self._active.add(key)
            self.ticks[key] = ticks
            self._prepaid[key] = self._prepaid.get(key, 0) + missing

    def add_ended(self, ppid: int, key: str, ticks: int) -> None:
        """Record an ended process with its own and its children's ``ticks`` of the last
        snapshot.
        """
        self._ended.append(_Ended(ppid, key, ticks, had_no_ticks=not ticks))

    def add_children_growth(self, growth: Mapping[int, int], keys: Mapping[int, str]) -> None:
        """Count unobserved time. ``growth``: growth of children ticks by pid since the last
        snapshot, ``keys``: their consumers.
        """
        unseen = {}
        by_parent: Dict[int, List[_Ended]] = {}
        for ended in self._ended:
            by_parent.setdefault(ended.ppid, []).append(ended)
        for pid, ticks in growth.items():
            own = by_parent.get(pid, [])
            heir = own[0].key if len({ended.key for ended in own}) == 1 else keys[pid]
            unseen[pid] = heir, self._settle(own, ticks)
        for heir, ticks in unseen.values():
            # Orphans are reaped by another process than their last parent. Counting too little is
            # better than counting twice.
            remaining = self._settle(self._ended, ticks) if ticks else 0
            if remaining:
                self.add(heir, remaining)
        for ended in self._ended:
            ended.snapshots += 1
        self._ended = [
            ended
            for ended in self._ended
            if ended.snapshots < _MAX_SNAPSHOTS
            and (ended.ticks or (ended.had_no_ticks and ended.ppid not in growth))
        ]

    def forget_absent(self, present: AbstractSet[str]) -> None:
        """Remove consumers neither ``present`` nor active since the last call. A cluster node has a
        new one with every job.
        """
        retained = present | self._active
        self.ticks = {key: ticks for key, ticks in self.ticks.items() if key in retained}
        self._prepaid = {
            key: ticks for key, ticks in self._prepaid.items() if key in retained and ticks
        }
        self._active = set()

    @staticmethod
    def _settle(ended: List[_Ended], ticks: int) -> int:
        """Deduct the time already counted from ``ticks`` and return the rest."""
        for process in ended:
            counted = min(process.ticks, ticks)
            process.ticks -= counted
            ticks -= counted
        return ticks
