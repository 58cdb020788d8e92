"""CPU time per consumer that only ever grows, from processes that come and go between two looks. Pure.

A process that lived and died between two looks was never seen; but whoever waited for it now carries its time among
its children's. So a parent's growth of children's time counts too, less what was counted while those children were seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import AbstractSet, Dict, List, Mapping, Set

# A child's end and its parent's growth may fall into different looks: what was seen of the child is remembered so long.
_MAX_SNAPSHOTS = 2


@dataclass
class _Ended:
    """A process that was seen and is gone: its time will turn up among its reaper's children's."""

    ppid: int
    key: str
    ticks: int
    had_no_ticks: bool  # all of its time is still to be heard of
    snapshots: int = 0


class CpuAccount:
    """Ticks per consumer, cumulative."""

    def __init__(self) -> None:
        self.ticks: Dict[str, int] = {}
        self._ended: List[_Ended] = []
        self._prepaid: Dict[str, int] = {}
        self._active: Set[str] = set()

    def add(self, key: str, ticks: int) -> None:
        """Count own time of a process, less what was counted for its consumer in advance."""
        self._active.add(key)
        prepaid = min(self._prepaid.get(key, 0), ticks)
        if prepaid:
            self._prepaid[key] -= prepaid
        self.ticks[key] = self.ticks.get(key, 0) + ticks - prepaid

    def raise_to(self, key: str, ticks: int) -> None:
        """Raise a consumer to ``ticks``, as told by who waited for its processes; what is still to be seen of it is paid."""
        missing = ticks - self.ticks.get(key, 0)
        if missing > 0:
            self._active.add(key)
            self.ticks[key] = ticks
            self._prepaid[key] = self._prepaid.get(key, 0) + missing

    def add_ended(self, ppid: int, key: str, ticks: int) -> None:
        """A process is gone that had ``ticks`` of its own and of its children when it was last seen."""
        self._ended.append(_Ended(ppid, key, ticks, had_no_ticks=not ticks))

    def add_children_growth(self, growth: Mapping[int, int], keys: Mapping[int, str]) -> None:
        """Count the unseen: ``growth`` of children's ticks by pid since the last look, ``keys`` their consumers."""
        unseen = {}
        by_parent: Dict[int, List[_Ended]] = {}
        for ended in self._ended:
            by_parent.setdefault(ended.ppid, []).append(ended)
        for pid, ticks in growth.items():
            own = by_parent.get(pid, [])
            heir = own[0].key if len({ended.key for ended in own}) == 1 else keys[pid]
            unseen[pid] = heir, self._settle(own, ticks)
        for heir, ticks in unseen.values():
            # Orphans are reaped by somebody else than their last parent: better count too little than twice.
            remaining = self._settle(self._ended, ticks) if ticks else 0
            if remaining:
                self.add(heir, remaining)
        for ended in self._ended:
            ended.snapshots += 1
        self._ended = [
            ended for ended in self._ended
            if ended.snapshots < _MAX_SNAPSHOTS and (ended.ticks or (ended.had_no_ticks and ended.ppid not in growth))
        ]  # fmt: skip

    def forget_absent(self, present: AbstractSet[str]) -> None:
        """Forget consumers neither ``present`` nor active since the last call: a cluster node sees a new one every job."""
        retained = present | self._active
        self.ticks = {key: ticks for key, ticks in self.ticks.items() if key in retained}
        self._prepaid = {key: ticks for key, ticks in self._prepaid.items() if key in retained and ticks}
        self._active = set()

    @staticmethod
    def _settle(ended: List[_Ended], ticks: int) -> int:
        """Take what was already counted out of ``ticks``; return the rest."""
        for process in ended:
            counted = min(process.ticks, ticks)
            process.ticks -= counted
            ticks -= counted
        return ticks
