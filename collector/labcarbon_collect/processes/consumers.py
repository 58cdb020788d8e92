"""Consumers of all processes of this machine, and the CPU time of each consumer.

A registered run takes precedence over a job, a job over a pod, a pod over a container, and a
container over the pair of user and command. A command of a system account is marked, unless it is
in a session of a person. Only files that every user may read are read. Processes hidden by hidepid
are ``unknown``. No process environment is read.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Callable, Dict, FrozenSet, Iterable, Mapping, Optional, Set, Tuple

from labcarbon_collect.lc1.consumers import SYSTEM_MARK
from labcarbon_collect.processes.cgroups import (
    cgroup_consumer,
    is_system_cgroup,
    local_cluster,
)
from labcarbon_collect.processes.cpu_accounting import CpuAccount
from labcarbon_collect.processes.cpu_time import tick_us
from labcarbon_collect.processes.login_definitions import first_person_uid
from labcarbon_collect.processes.process_table import ProcessTable
from labcarbon_collect.processes.procfs import (
    Stat,
    cgroup_paths,
    read_stat,
    real_uid,
)
from labcarbon_collect.pseudonyms import KEEP_NAMES, UserNames, user_name_of

UNKNOWN = "unknown"
# A new process is inspected this often, because it may still change its user, cgroup and program.
_SETTLE_SNAPSHOTS = 3
# Snapshots between removals of consumers without processes: one hour at an interval of 5 s.
_FORGET_INTERVAL = 720


class RegistrationRefused(Exception):
    """A run cannot be bound to this process. The text states the cause and the fix."""


@dataclass
class _Process:
    """A process as of the last snapshot."""

    stat: Stat
    uid: Optional[int] = None
    cgroup: str = ""
    outside_run: str = UNKNOWN  # its consumer outside a run
    run: str = ""  # "" or the run's UUID, also after the end of its parent
    inspections: int = 0

    @property
    def key(self) -> str:
        return f"run:{self.run}" if self.run else self.outside_run


@dataclass(frozen=True)
class _Registration:
    """A registered process."""

    run: str
    uid: int


def _start_order(stat: Stat) -> Tuple[int, int]:
    return stat.start_ticks, stat.pid


def boot_ticks() -> int:
    """Return the ticks since boot, the unit of process start times."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1000 // tick_us()


class ConsumerResolver:
    """Consumers of the processes of this machine. Not thread-safe."""

    def __init__(
        self,
        proc_root: str = "/proc",
        *,
        cluster: str = "",
        pod_logs: str = "/var/log/pods",
        users: UserNames = KEEP_NAMES,
        now_ticks: Callable[[], int] = boot_ticks,
        first_uid: Optional[int] = None,
    ) -> None:
        """``first_uid``: the lowest uid of a person (None: that of this machine)."""
        self._proc, self._pod_logs, self._now_ticks = proc_root, pod_logs, now_ticks
        self._first_uid = first_person_uid() if first_uid is None else first_uid
        self._cluster = cluster or local_cluster(os.environ) or "local"
        self._table = ProcessTable(proc_root)
        self._processes: Dict[int, _Process] = {}
        self._unsettled: Set[int] = set()  # pids that are inspected again
        self._unlisted: Set[int] = set()  # pids registered since the last snapshot
        self._job_pids: Set[int] = set()
        self._registrations: Dict[Tuple[int, int], _Registration] = {}
        self._tally = CpuAccount()
        self.users = users
        self._names: Dict[int, str] = {}
        self._by_cgroup: Dict[str, str] = {}  # consumers that do not change
        self._uids: Dict[str, Set[int]] = {}
        self._snapshot_ticks: Optional[int] = None
        self._snapshots = 0

    def snapshot(self) -> None:
        """Read all processes one time."""
        now_ticks = self._now_ticks()
        changes = self._table.scan()
        self._forget_ended(changes.ended)
        growth, keys = {}, {}
        stats = {pid: self._table.stats[pid] for pid in self._unsettled}
        stats.update((stat.pid, stat) for stat in changes.read)
        changed = list(stats.values())
        has_new = any(stat.pid not in self._processes for stat in changed)
        run_groups = self._groups_of_one_run() if has_new else {}
        for stat in sorted(changed, key=_start_order):
            before = self._processes.get(stat.pid)
            process = self._inspect(stat, before, run_groups)
            baseline = before.stat if before else self._baseline(stat)
            process.stat = stat
            self._tally.add(process.key, max(0, stat.cpu_ticks - baseline.cpu_ticks))
            grown = stat.children_ticks - baseline.children_ticks
            if grown > 0:
                growth[stat.pid], keys[stat.pid] = grown, process.key
        self._tally.add_children_growth(growth, keys)
        self._snapshot_ticks = now_ticks
        self._uids = {}
        self._snapshots += 1
        if self._snapshots % _FORGET_INTERVAL == 0:
            self._by_cgroup.clear()
            self._tally.forget_absent({process.key for process in self._processes.values()})

    def register(self, run_uuid: str, pid: int, uid: int) -> None:
        """Count ``pid`` and its descendants as the run. Raises RegistrationRefused unless the
        process belongs to ``uid``.
        """
        stat = read_stat(self._proc, pid)
        if stat is None:
            raise RegistrationRefused(
                f"process {pid} has ended or is hidden from the collector; if /proc is mounted "
                "with hidepid, "
                "allow its group to read it: mount -o remount,hidepid=2,gid=labcarbon /proc"
            )
        owner = real_uid(self._proc, pid)
        if owner != uid:
            raise RegistrationRefused(
                f"process {pid} belongs to another user: a run can register its own processes only"
            )
        self._registrations[(pid, stat.start_ticks)] = _Registration(run_uuid, uid)
        process = self._processes.get(pid)
        if process is None or process.stat.start_ticks != stat.start_ticks:
            self._inspect(stat, None, {})
            self._unlisted.add(pid)
        self._processes[pid].run = run_uuid
        self._propagate_runs()

    def end(self, run_uuid: str, children_cpu_us: int) -> None:
        """End a run. ``children_cpu_us``, its total CPU time by wait4, adds the time of processes
        too short for a snapshot.

        Processes that it leaves running still count as the run.
        """
        self._registrations = {
            identity: registration
            for identity, registration in self._registrations.items()
            if registration.run != run_uuid
        }
        self._tally.raise_to(f"run:{run_uuid}", max(0, children_cpu_us) // tick_us())

    def consumer_of(self, pid: int) -> str:
        """Return the consumer key of a process, ``unknown`` if it is hidden or has ended."""
        process = self._processes.get(pid)
        if process is not None:
            return process.key
        stat = read_stat(self._proc, pid)
        if stat is None:
            return UNKNOWN
        process = self._inspect(stat, None, {})
        self._forget(pid)  # the next snapshot counts all its time
        return process.key

    def jobs(self) -> Mapping[str, int]:
        """Return the uid of each job with a process on this node, by consumer key (0 if only root
        has processes in it).

        slurmstepd runs in the job's cgroup before and after the work. It alone is no work.
        """
        uids: Dict[str, int] = {}
        for process in map(self._processes.__getitem__, self._job_pids):
            if process.stat.comm != "slurmstepd":
                uids[process.outside_run] = max(uids.get(process.outside_run, 0), process.uid or 0)
        return uids

    def job_of(self, pid: int) -> str:
        """Return the consumer key of the process's job, also if it belongs to a registered run; ""
        outside a job.
        """
        process = self._processes.get(pid)
        return (
            process.outside_run
            if process is not None and process.outside_run.startswith("job:")
            else ""
        )

    def cpu_time_us_by_consumer(self) -> Mapping[str, int]:
        """Return the cumulative CPU time by consumer since the first snapshot in µs. It never
        falls. Old consumers are left out.
        """
        one_tick_us = tick_us()
        return {key: ticks * one_tick_us for key, ticks in self._tally.ticks.items()}

    def uids_of(self, consumer: str) -> FrozenSet[int]:
        """Return the uids of the consumer's processes, empty if it has none or if they are
        hidden.
        """
        if not self._uids:
            for process in self._processes.values():
                self._uids.setdefault(process.key, set()).add(
                    -1 if process.uid is None else process.uid
                )
        return frozenset(self._uids.get(consumer, ()))

    def release(self, run_uuid: str) -> None:
        """End a run whose processes continue as what they were before, such as a notebook's
        kernel.
        """
        self._uids = {}
        for process in self._processes.values():
            if process.run == run_uuid:
                process.run = ""

    def _baseline(self, stat: Stat) -> Stat:
        """Return the time of a new process that is not counted: all of it if it started before the
        last snapshot, else none.
        """
        if self._snapshot_ticks is None or stat.start_ticks < self._snapshot_ticks - 1:
            return stat
        return stat._replace(cpu_ticks=0, children_ticks=0)

    def _forget_ended(self, ended: Iterable[Stat]) -> None:
        ended_processes = [
            process
            for process in (self._processes.get(stat.pid) for stat in ended)
            if process is not None and self._has_ended(process)
        ]
        # Registered since the last scan, which has not listed them.
        registered = (self._processes.get(pid) for pid in self._unlisted)
        ended_processes += [
            process for process in registered if process is not None and self._has_ended(process)
        ]
        self._unlisted = set()
        for process in sorted(ended_processes, key=lambda process: _start_order(process.stat)):
            last = process.stat
            if last.pid in self._processes:
                self._tally.add_ended(last.ppid, process.key, last.cpu_ticks + last.children_ticks)
                self._forget(last.pid)
        self._registrations = {
            (pid, start_ticks): registration
            for (pid, start_ticks), registration in self._registrations.items()
            if pid in self._processes and self._processes[pid].stat.start_ticks == start_ticks
        }

    def _forget(self, pid: int) -> None:
        del self._processes[pid]
        self._unsettled.discard(pid)
        self._job_pids.discard(pid)

    def _has_ended(self, process: _Process) -> bool:
        stat = self._table.stats.get(process.stat.pid)
        return stat is None or stat.start_ticks != process.stat.start_ticks

    def _inspect(
        self, stat: Stat, process: Optional[_Process], run_groups: Mapping[Tuple[str, object], str]
    ) -> _Process:
        """Read details of a process that is new, not yet settled, or runs another program."""
        is_new = process is None
        if process is None:
            process = self._processes[stat.pid] = _Process(stat)
        if process.inspections < _SETTLE_SNAPSHOTS or process.stat.comm != stat.comm:
            process.inspections += 1
            process.uid = 0 if stat.kernel else real_uid(self._proc, stat.pid)
            process.cgroup = "" if stat.kernel else cgroup_paths(self._proc, stat.pid)
            process.outside_run = self._consumer_outside_run(stat, process)
            is_settled = process.inspections >= _SETTLE_SNAPSHOTS
            (self._unsettled.discard if is_settled else self._unsettled.add)(stat.pid)
            is_job = process.outside_run.startswith("job:")
            (self._job_pids.add if is_job else self._job_pids.discard)(stat.pid)
        if is_new:
            process.run = self._find_run(stat, process, run_groups)
        return process

    def _consumer_outside_run(self, stat: Stat, process: _Process) -> str:
        if process.uid is None:
            return UNKNOWN
        by_cgroup = self._consumer_of_cgroup(process.cgroup)
        comm = (
            "kernel"
            if stat.kernel
            else "".join(letter if letter.isprintable() else "?" for letter in stat.comm)
        )
        name = self._user_name(process.uid)
        mark = SYSTEM_MARK if self._is_system(stat, process) else ""
        return (
            by_cgroup or f"proc:{self.users.public_name(name)}/{self.users.mask(comm, name)}{mark}"
        )

    def _is_system(self, stat: Stat, process: _Process) -> bool:
        """Return whether a process is one of the machine, not of a person."""
        return stat.kernel or (
            process.uid is not None
            and process.uid < self._first_uid
            and is_system_cgroup(process.cgroup, self._first_uid)
        )

    def _consumer_of_cgroup(self, text: str) -> str:
        consumer = self._by_cgroup.get(text)
        if consumer is None:
            consumer = cgroup_consumer(
                text, self._cluster, self._pod_logs, users=self.users, user_of=self._user_name
            )
            if not consumer.startswith("pod:"):  # the folder with its name may still be created
                self._by_cgroup[text] = consumer
        return consumer

    def _find_run(
        self, stat: Stat, process: _Process, run_groups: Mapping[Tuple[str, object], str]
    ) -> str:
        """Return the run of a new process: its own registration, its parent's run, or the run of
        its whole group.
        """
        registration = self._registrations.get((stat.pid, stat.start_ticks))
        if registration:
            return registration.run
        parent = self._processes.get(stat.ppid)
        if parent and parent.run and parent.stat.start_ticks <= stat.start_ticks:
            return parent.run
        for group in self._groups_of(stat, process):
            if group in run_groups:
                return run_groups[group]
        return ""

    @staticmethod
    def _groups_of(stat: Stat, process: _Process) -> Tuple[Tuple[str, object], ...]:
        """Return the groups that identify an orphan with an unknown parent: process group, session,
        cgroup, each with its user.
        """
        groups = [("group", (stat.group, process.uid)), ("session", (stat.session, process.uid))]
        is_grouped = any(
            line.split(":", 2)[-1] not in ("", "/") for line in process.cgroup.splitlines()
        )
        return (*groups, ("cgroup", (process.cgroup, process.uid))) if is_grouped else tuple(groups)

    def _groups_of_one_run(self) -> Dict[Tuple[str, object], str]:
        """Return groups, sessions and cgroups whose processes all belonged to one run in the last
        snapshot.
        """
        if not any(process.run for process in self._processes.values()):
            return {}
        runs: Dict[Tuple[str, object], str] = {}
        for process in self._processes.values():
            for group in self._groups_of(process.stat, process):
                runs[group] = process.run if runs.get(group, process.run) == process.run else ""
        return {group: run for group, run in runs.items() if run}

    def _propagate_runs(self) -> None:
        """Assign a new registration to known descendants unless they are registered themselves."""
        self._uids = {}
        for process in sorted(
            self._processes.values(), key=lambda process: process.stat.start_ticks
        ):
            parent = self._processes.get(process.stat.ppid)
            is_registered = (process.stat.pid, process.stat.start_ticks) in self._registrations
            if parent and parent.run and not is_registered:
                process.run = parent.run

    def _user_name(self, uid: int) -> str:
        if uid not in self._names:
            self._names[uid] = user_name_of(uid)
        return self._names[uid]
