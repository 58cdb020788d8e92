"""Who works on this machine: a consumer for every process, and the CPU time of every consumer.

A registered run beats a job, a job a pod, a pod a container, a container the pair of user and command. Only what every
user may read is read; what is hidden from us (hidepid) is ``unknown``. Nobody's environment is looked at.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Callable, Dict, FrozenSet, Mapping, Optional, Set, Tuple

from labcarbon_collect.processes.cgroups import cgroup_consumer, local_cluster
from labcarbon_collect.processes.cpu_accounting import CpuAccount
from labcarbon_collect.processes.cpu_time import tick_us
from labcarbon_collect.processes.procfs import Stat, cgroup_paths, read_stat, real_uid, scan
from labcarbon_collect.pseudonyms import KEEP_NAMES, UserNames, name_of

UNKNOWN = "unknown"
# A process is looked at again until it has settled: it may yet change its user, its cgroup and its program.
_LOOKS = 3
# So often, consumers without a process since the last time are forgotten; at a look each 5 s, once an hour.
_FORGET_EVERY = 720


class RegistrationRefused(Exception):
    """A run may not be bound to this process; the text says why and what to do."""


@dataclass
class _Process:
    """A process as last seen."""

    stat: Stat
    uid: Optional[int] = None
    cgroup: str = ""
    base: str = UNKNOWN  # its consumer if it belongs to no run
    run: str = ""  # "" or a run's UUID; kept for life, also when its parent dies
    looks: int = 0

    @property
    def key(self) -> str:
        return f"run:{self.run}" if self.run else self.base


@dataclass(frozen=True)
class _Root:
    """A process that was registered."""

    run: str
    uid: int


def boot_ticks() -> int:
    """Now, in ticks since boot: the scale of a process's start."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1000 // tick_us()


class ConsumerResolver:
    """Knows the processes of this machine. Not thread-safe: one thread calls it."""

    def __init__(
        self,
        proc_root: str = "/proc",
        *,
        cluster: str = "",
        pod_logs: str = "/var/log/pods",
        users: UserNames = KEEP_NAMES,
        now_ticks: Callable[[], int] = boot_ticks,
    ) -> None:
        self._proc, self._pod_logs, self._now_ticks = proc_root, pod_logs, now_ticks
        self._cluster = cluster or local_cluster(os.environ) or "local"
        self._known: Dict[int, _Process] = {}
        self._roots: Dict[Tuple[int, int], _Root] = {}
        self._tally = CpuAccount()
        self.users = users
        self._names: Dict[int, str] = {}
        self._uids: Dict[str, Set[int]] = {}
        self._looked_at_ticks: Optional[int] = None
        self._snapshots = 0

    def snapshot(self) -> None:
        """Look at every process once."""
        now_ticks = self._now_ticks()
        seen = scan(self._proc)
        self._forget_ended(seen)
        growth, keys = {}, {}
        adopting = self._exclusive()
        for stat in sorted(seen.values(), key=lambda stat: (stat.start_ticks, stat.pid)):
            before = self._known.get(stat.pid)
            process = self._see(stat, before, adopting)
            old = before.stat if before else self._when_new(stat)
            process.stat = stat
            self._tally.add(process.key, max(0, stat.cpu_ticks - old.cpu_ticks))
            grown = stat.children_ticks - old.children_ticks
            if grown > 0:
                growth[stat.pid], keys[stat.pid] = grown, process.key
        self._tally.children_grew(growth, keys)
        self._looked_at_ticks = now_ticks
        self._uids = {}
        self._snapshots += 1
        if self._snapshots % _FORGET_EVERY == 0:
            self._tally.forget({process.key for process in self._known.values()})

    def register(self, run_uuid: str, pid: int, uid: int) -> None:
        """Count ``pid`` and what descends from it as the run. Raises RegistrationRefused unless ``uid`` started it."""
        stat = read_stat(self._proc, pid)
        if stat is None:
            raise RegistrationRefused(
                f"process {pid} is gone or hidden from the collector; if /proc is mounted with hidepid, let its group "
                "see it: mount -o remount,hidepid=2,gid=labcarbon /proc"
            )
        owner = real_uid(self._proc, pid)
        if owner != uid:
            raise RegistrationRefused(f"process {pid} belongs to another user: a run registers its own processes only")
        self._roots[(pid, stat.start_ticks)] = _Root(run_uuid, uid)
        known = self._known.get(pid)
        if known is None or known.stat.start_ticks != stat.start_ticks:
            self._see(stat, None, {})
        self._known[pid].run = run_uuid
        self._pass_on()

    def end(self, run_uuid: str, children_cpu_us: int) -> None:
        """The run is over. Its processes took ``children_cpu_us`` together by wait4: time too short to be seen counts too.

        What it leaves running stays its own until it ends.
        """
        self._roots = {identity: root for identity, root in self._roots.items() if root.run != run_uuid}
        self._tally.at_least(f"run:{run_uuid}", max(0, children_cpu_us) // tick_us())

    def consumer_of(self, pid: int) -> str:
        """The consumer key of a process; ``unknown`` if it is hidden or gone."""
        known = self._known.get(pid)
        if known is not None:
            return known.key
        stat = read_stat(self._proc, pid)
        if stat is None:
            return UNKNOWN
        process = self._see(stat, None, {})
        del self._known[pid]  # the next snapshot counts its time from the beginning
        return process.key

    def jobs(self) -> Mapping[str, int]:
        """Consumer key of each job that works here → the uid of its user (0 where only root works in it).

        Slurm's own slurmstepd sits in the job's cgroup before and after the work; it alone is no work.
        """
        found: Dict[str, int] = {}
        for process in self._known.values():
            if process.base.startswith("job:") and process.stat.comm != "slurmstepd":
                found[process.base] = max(found.get(process.base, 0), process.uid or 0)
        return found

    def job_of(self, pid: int) -> str:
        """The consumer key of the job a process belongs to, also when it works for a registered run; "" outside one."""
        known = self._known.get(pid)
        return known.base if known is not None and known.base.startswith("job:") else ""

    def cpu_time_us_by_consumer(self) -> Mapping[str, int]:
        """Cumulative CPU time by consumer since the first snapshot, µs. Never falls; a consumer long gone is left out."""
        one_tick_us = tick_us()
        return {key: ticks * one_tick_us for key, ticks in self._tally.ticks.items()}

    def uids_of(self, consumer: str) -> FrozenSet[int]:
        """Whose processes the consumer has now; empty if it has none, or if they are hidden."""
        if not self._uids:
            for process in self._known.values():
                self._uids.setdefault(process.key, set()).add(-1 if process.uid is None else process.uid)
        return frozenset(self._uids.get(consumer, ()))

    def release(self, run_uuid: str) -> None:
        """The run is over but its processes go on as what they were before: a notebook's kernel."""
        self._uids = {}
        for process in self._known.values():
            if process.run == run_uuid:
                process.run = ""

    def _when_new(self, stat: Stat) -> Stat:
        """What a process had when we began to count it: all it has, if it began before our last look; else nothing."""
        if self._looked_at_ticks is None or stat.start_ticks < self._looked_at_ticks - 1:
            return stat
        return stat._replace(cpu_ticks=0, children_ticks=0)

    def _forget_ended(self, seen: Mapping[int, Stat]) -> None:
        for pid, process in list(self._known.items()):
            now = seen.get(pid)
            if now is None or now.start_ticks != process.stat.start_ticks:
                last = process.stat
                self._tally.ended(last.ppid, process.key, last.cpu_ticks + last.children_ticks)
                del self._known[pid]
        alive = {(pid, process.stat.start_ticks) for pid, process in self._known.items()}
        self._roots = {identity: root for identity, root in self._roots.items() if identity in alive}

    def _see(self, stat: Stat, process: Optional[_Process], adopting: Mapping[Tuple[str, object], str]) -> _Process:
        """Look closer at a process that is new, still settling, or runs another program now."""
        fresh = process is None
        if process is None:
            process = self._known[stat.pid] = _Process(stat)
        if process.looks < _LOOKS or process.stat.comm != stat.comm:
            process.looks += 1
            process.uid = 0 if stat.kernel else real_uid(self._proc, stat.pid)
            process.cgroup = "" if stat.kernel else cgroup_paths(self._proc, stat.pid)
            process.base = self._base(stat, process)
        if fresh:
            process.run = self._run_of(stat, process, adopting)
        return process

    def _base(self, stat: Stat, process: _Process) -> str:
        if process.uid is None:
            return UNKNOWN
        by_cgroup = cgroup_consumer(
            process.cgroup, self._cluster, self._pod_logs, users=self.users, user_of=self._name
        )  # fmt: skip
        comm = "kernel" if stat.kernel else "".join(letter if letter.isprintable() else "?" for letter in stat.comm)
        name = self._name(process.uid)
        return by_cgroup or f"proc:{self.users.public_name(name)}/{self.users.mask(comm, name)}"

    def _run_of(self, stat: Stat, process: _Process, adopting: Mapping[Tuple[str, object], str]) -> str:
        """The run of a new process: its own registration, its parent's run, or that of a group which is all one run's."""
        root = self._roots.get((stat.pid, stat.start_ticks))
        if root:
            return root.run
        parent = self._known.get(stat.ppid)
        if parent and parent.run and parent.stat.start_ticks <= stat.start_ticks:
            return parent.run
        for sign in self._signs(stat, process):
            if sign in adopting:
                return adopting[sign]
        return ""

    @staticmethod
    def _signs(stat: Stat, process: _Process) -> Tuple[Tuple[str, object], ...]:
        """By what an orphan whose parent we never saw is known again: process group, session, cgroup, each with its user."""
        signs = [("group", (stat.group, process.uid)), ("session", (stat.session, process.uid))]
        inside = any(line.split(":", 2)[-1] not in ("", "/") for line in process.cgroup.splitlines())
        return (*signs, ("cgroup", (process.cgroup, process.uid))) if inside else tuple(signs)

    def _exclusive(self) -> Dict[Tuple[str, object], str]:
        """Groups, sessions and cgroups in which every process seen last time was of one and the same run."""
        if not any(process.run for process in self._known.values()):
            return {}
        runs: Dict[Tuple[str, object], str] = {}
        for process in self._known.values():
            for sign in self._signs(process.stat, process):
                runs[sign] = process.run if runs.get(sign, process.run) == process.run else ""
        return {sign: run for sign, run in runs.items() if run}

    def _pass_on(self) -> None:
        """Give a new registration to the descendants we know already, unless they were registered themselves."""
        self._uids = {}
        for process in sorted(self._known.values(), key=lambda process: process.stat.start_ticks):
            parent = self._known.get(process.stat.ppid)
            own = (process.stat.pid, process.stat.start_ticks) in self._roots
            if parent and parent.run and not own:
                process.run = parent.run

    def _name(self, uid: int) -> str:
        if uid not in self._names:
            self._names[uid] = name_of(uid)
        return self._names[uid]
