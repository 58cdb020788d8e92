"""Runs registered with the daemon: permission, energy, and messages to the server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional

from labcarbon_collect.clock import Clock
from labcarbon_collect.config import is_uuid
from labcarbon_collect.errors import RequestError
from labcarbon_collect.figure_text import by_quality, emission_ug, factor_text, zone_of
from labcarbon_collect.lineage.messages import forwardable_rows
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.processes.consumers import RegistrationRefused
from labcarbon_collect.spool.runs import LINEAGE

MAX_RUNS_PER_USER, MAX_PENDING = 1000, 200
_HIDEPID_HINT = (
    "register a running process on its own machine; if /proc is mounted with hidepid: "
    "mount -o remount,hidepid=2,gid=labcarbon /proc"
)
# A run whose first process has ended without an end request (its wrapper was killed) is ended after
# this time.
ORPHAN_US = 60_000_000


@dataclass
class RegisteredRun:
    """A registered run that has not ended."""

    uuid: str
    pid: int
    uid: int
    start_ticks: int
    idle_base_mj: Dict[str, int] = field(default_factory=dict)
    exited_us: Optional[int] = None


def process_start_ticks(pid: int, proc: Path = Path("/proc")) -> Optional[int]:
    """Return the start of a process in clock ticks since boot, None if it does not exist or is a
    zombie.
    """
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def process_owner(pid: int, proc: Path = Path("/proc")) -> Optional[int]:
    """Return the uid of a process."""
    try:
        return os.stat(proc / str(pid)).st_uid
    except OSError:
        return None


def energy_figures(
    monitor: NodeMonitor,
    by_device: Mapping[str, int],
    idle_base_mj: Optional[Mapping[str, int]],
    config: Optional[Mapping[str, Any]],
) -> Dict[str, Any]:
    """Return the response for a run or job that used ``by_device`` (mJ). ``idle_base_mj``: idle
    energy at its start.
    """
    energy_mj = sum(by_device.values())
    idle_mj = (
        None
        if idle_base_mj is None
        else sum(
            max(0, total_mj - idle_base_mj.get(device, 0))
            for device, total_mj in monitor.total_idle_mj().items()
            if device in by_device
        )
    )
    ug = emission_ug(energy_mj, config)
    measurement = {key: info.measurement for key, info in monitor.sources.devices.items()}
    return {
        "ok": True,
        "energy_mj": energy_mj,
        "provisional": True,
        "by_device": dict(by_device),
        "by_quality": by_quality(by_device, measurement),
        "idle_mj": idle_mj,
        "grams": None if ug is None else ug / 1_000_000,
        "factor": factor_text(config),
        "zone": zone_of(config),
    }


class RunRegistry:
    """The registered runs of one node."""

    def __init__(
        self,
        monitor: NodeMonitor,
        *,
        now: Callable[[], Clock],
        config: Callable[[], Optional[Mapping[str, Any]]],
        proc: Path = Path("/proc"),
    ) -> None:
        self._monitor, self._now, self._config, self._proc = monitor, now, config, proc
        self._store = monitor.spool.runs
        self.active: Dict[str, RegisteredRun] = {}
        self._resume()

    def register(self, *, uid: int, run: object, pid: object, facts: object = None) -> None:
        """Count ``pid`` and its descendants as ``run``. ``facts`` are sent to the server if the
        client cannot send them.

        ``uid`` is the caller's uid as reported by the kernel. Callers may register only their own
        processes, root any. Raises RequestError.
        """
        if not is_uuid(run) or not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
            raise RequestError(
                "bad_request", "register needs run (a UUID) and pid (a positive integer)"
            )
        uuid = str(run)
        start_ticks, owner_uid = (
            process_start_ticks(pid, self._proc),
            process_owner(pid, self._proc),
        )
        if start_ticks is None or owner_uid is None:
            raise RequestError("no_process", f"the collector finds no process {pid}", _HIDEPID_HINT)
        if uid not in (owner_uid, 0):
            raise RequestError(
                "not_yours", f"process {pid} belongs to uid {owner_uid}, your uid is {uid}"
            )
        existing = self.active.get(uuid)
        if existing is not None and existing.uid != uid:
            raise RequestError("not_yours", f"run {uuid} was registered by uid {existing.uid}")
        if sum(1 for other in self.active.values() if other.uid == uid) >= MAX_RUNS_PER_USER:
            raise RequestError(
                "too_many",
                f"you have {MAX_RUNS_PER_USER} registered runs on this node",
                "end some of them",
            )
        self._monitor.poll(with_processes=True)  # earlier energy does not belong to this run
        try:
            self._monitor.consumers.register(uuid, pid, owner_uid)
        except RegistrationRefused as error:
            raise RequestError("refused", str(error)) from error
        self._store.register(
            uuid=uuid, pid=pid, uid=uid, started_ticks=start_ticks, now_us=self._now().wall_us
        )
        self.active[uuid] = RegisteredRun(
            uuid, pid, uid, start_ticks, self._monitor.total_idle_mj()
        )
        self._queue_message(uuid, "PUT", facts)

    def end(
        self,
        *,
        uid: int,
        run: object,
        children_cpu_us: object = 0,
        facts: object = None,
        closing: object = None,
        process_continues: bool = False,
    ) -> Dict[str, Any]:
        """End a run and return its energy, provisional until its last windows are processed. Raises
        RequestError.

        The daemon sends ``facts`` and ``closing`` to the server if the client cannot.
        ``continues``: the processes continue, and their later energy does not belong to the run.
        """
        registered = self._owned_run(uid, run)
        if (
            isinstance(children_cpu_us, bool)
            or not isinstance(children_cpu_us, int)
            or children_cpu_us < 0
        ):
            raise RequestError(
                "bad_request", "children_cpu_us must be an integer of microseconds, 0 or more"
            )
        self._monitor.consumers.end(registered.uuid, children_cpu_us)
        self._monitor.poll(with_processes=True)
        figures = self._figures(registered)
        figures["warning"] = self._warning(registered.uuid)
        if process_continues:
            self._monitor.consumers.release(registered.uuid)
        self._finish(registered.uuid)
        self._queue_message(registered.uuid, "PUT", facts)
        if isinstance(closing, Mapping):
            self._queue_message(
                registered.uuid,
                "PATCH",
                {**closing, "energy_mj": figures["energy_mj"], "provisional": True},
            )
        return figures

    def current_figures(self, *, uid: int, run: object) -> Dict[str, Any]:
        """Return the energy of the caller's own run up to the last poll, without ending it. Raises
        RequestError.
        """
        registered = self._owned_run(uid, run)
        return {**self._figures(registered), "warning": self._warning(registered.uuid)}

    def _owned_run(self, uid: int, run: object) -> RegisteredRun:
        registered = self.active.get(str(run))
        if registered is None or uid not in (registered.uid, 0):
            raise RequestError(
                "unknown_run",
                f"no run {run} of yours is registered on this node",
                "labcarbon-collect status",
            )
        return registered

    def owner_of(self, run: str) -> Optional[int]:
        """Return the uid that registered a run, active or ended within the last week."""
        registered = self.active.get(run)
        return registered.uid if registered else self._store.uid_of(run)

    def server_response(self, *, uid: int, run: object, reachable: bool) -> Dict[str, Any]:
        """Return the server's response about the caller's own run. ``wait``: a message is still
        pending. Raises RequestError.
        """
        if uid not in (self._store.uid_of(str(run)), 0):
            raise RequestError("unknown_run", f"no run {run} of yours was registered here")
        return {
            "ok": True,
            "wait": reachable and self._store.has_pending(str(run)),
            "warning": self._warning(str(run)),
        }

    def forward(
        self, *, uid: int, run: object, facts: object, closing: object, artifacts: object = None
    ) -> int:
        """Queue messages about the caller's own run, active or ended. Returns the number of
        artifacts. Raises RequestError.
        """
        if uid not in (self._store.uid_of(str(run)), 0):
            raise RequestError("unknown_run", f"no run {run} of yours was registered here")
        self._queue_message(str(run), "PUT", facts)
        self._queue_message(str(run), "PATCH", closing)
        return 0 if artifacts is None else self._queue_artifacts(str(run), artifacts)

    def _warning(self, uuid: str) -> str:
        return self._monitor.spool.get_value(f"warning:{uuid}") or ""

    def end_orphans(self) -> List[str]:
        """End runs whose process has ended without a request by its wrapper. Returns their
        UUIDs.
        """
        now_us = self._now().monotonic_us
        ended = []
        for registered in list(self.active.values()):
            if process_start_ticks(registered.pid, self._proc) == registered.start_ticks:
                registered.exited_us = None
                continue
            registered.exited_us = now_us if registered.exited_us is None else registered.exited_us
            if now_us - registered.exited_us >= ORPHAN_US:
                self._monitor.consumers.end(registered.uuid, 0)
                self._finish(registered.uuid)
                ended.append(registered.uuid)
        return ended

    def _figures(self, registered: RegisteredRun) -> Dict[str, Any]:
        by_device = self._store.energy(registered.uuid)
        for device, energy_mj in self._monitor.energy_of(f"run:{registered.uuid}").items():
            by_device[device] = by_device.get(device, 0) + energy_mj
        return energy_figures(self._monitor, by_device, registered.idle_base_mj, self._config())

    def _resume(self) -> None:
        """Resume the stored runs whose process still exists. End the others."""
        for row in self._store.active():
            run = RegisteredRun(row["uuid"], row["pid"], row["uid"], row["started_ticks"])
            if process_start_ticks(run.pid, self._proc) == run.start_ticks and self._reregister(
                run
            ):
                self.active[run.uuid] = run
            else:
                self._store.end(run.uuid, now_us=self._now().wall_us)

    def _reregister(self, run: RegisteredRun) -> bool:
        owner_uid = process_owner(run.pid, self._proc)
        try:
            self._monitor.consumers.register(
                run.uuid, run.pid, run.uid if owner_uid is None else owner_uid
            )
        except RegistrationRefused:
            return False
        return True

    def _finish(self, uuid: str) -> None:
        self.active.pop(uuid, None)
        self._store.end(uuid, now_us=self._now().wall_us)

    def _queue_artifacts(self, uuid: str, artifacts: object) -> int:
        if self._store.count_pending(uuid) >= MAX_PENDING:
            raise RequestError(
                "too_many",
                f"{MAX_PENDING} messages of run {uuid} are already waiting for the server",
            )
        try:
            rows = forwardable_rows(artifacts, uuid)
        except ValueError as error:
            raise RequestError("bad_request", str(error)) from error
        self._store.add_message(uuid, LINEAGE, {"artifacts": rows})
        return len(rows)

    def _queue_message(self, uuid: str, verb: str, facts: object) -> None:
        if isinstance(facts, Mapping):
            self._store.add_message(uuid, verb, facts)
