"""Runs that told the daemon about themselves: who may, what they used, and what the server is to be told of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional

from labcarbon_collect.clock import Clock
from labcarbon_collect.config import is_uuid
from labcarbon_collect.errors import RequestError
from labcarbon_collect.lineage.messages import forwarded
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.processes.consumers import RegistrationRefused
from labcarbon_collect.spool.runs import LINEAGE
from labcarbon_collect.totals import by_quality, emission_ug, factor_text

MAX_RUNS_PER_USER, MAX_WAITING = 1000, 200
_SEE = (
    "register it while it lives, on its own machine; if /proc is mounted with hidepid: "
    "mount -o remount,hidepid=2,gid=labcarbon /proc"
)
# A run whose first process is gone, and that nobody ended, is closed after this long (its wrapper was killed).
ORPHAN_US = 60_000_000


@dataclass
class RegisteredRun:
    """A registered run that goes on."""

    uuid: str
    pid: int
    uid: int
    started_ticks: int
    idle_base_mj: Dict[str, int] = field(default_factory=dict)
    gone_since_us: Optional[int] = None


def started_ticks(pid: int, proc: Path = Path("/proc")) -> Optional[int]:
    """When a process began, in clock ticks since boot; None when there is no such process (or a zombie of one)."""
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def owner(pid: int, proc: Path = Path("/proc")) -> Optional[int]:
    """The uid that a process belongs to."""
    try:
        return os.stat(proc / str(pid)).st_uid
    except OSError:
        return None


def energy_figures(
    station: NodeMonitor,
    by_device: Mapping[str, int],
    idle_base_mj: Optional[Mapping[str, int]],
    config: Optional[Mapping[str, Any]],
) -> Dict[str, Any]:
    """What is answered of a run or job that used ``by_device`` (mJ); ``idle_base_mj``: idle so far when it began."""
    energy_mj = sum(by_device.values())
    idle_mj = None if idle_base_mj is None else sum(
        max(0, total_mj - idle_base_mj.get(device, 0))
        for device, total_mj in station.total_idle_mj().items()
        if device in by_device
    )  # fmt: skip
    ug = emission_ug(energy_mj, config)
    measurement = {key: info.measurement for key, info in station.meters.devices.items()}
    return {
        "ok": True, "energy_mj": energy_mj, "provisional": True, "by_device": dict(by_device),
        "by_quality": by_quality(by_device, measurement), "idle_mj": idle_mj,
        "grams": None if ug is None else ug / 1_000_000, "factor": factor_text(config),
    }  # fmt: skip


class RunRegistry:
    """The registered runs of one station."""

    def __init__(
        self,
        station: NodeMonitor,
        *,
        now: Callable[[], Clock],
        config: Callable[[], Optional[Mapping[str, Any]]],
        proc: Path = Path("/proc"),
    ) -> None:
        self._station, self._now, self._config, self._proc = station, now, config, proc
        self._store = station.spool.runs
        self.active: Dict[str, RegisteredRun] = {}
        self._resume()

    def register(self, *, uid: int, run: object, pid: object, facts: object = None) -> None:
        """Count ``pid`` and its descendants as ``run``. ``facts``: what to tell the server, when the client cannot.

        ``uid`` is the kernel's word for who asks: one may register one's own processes only (root: anybody's).
        Raises Denied.
        """
        if not is_uuid(run) or not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
            raise RequestError("bad_request", "register needs run (a UUID) and pid (a positive integer)")
        uuid = str(run)
        begun, belongs_to = started_ticks(pid, self._proc), owner(pid, self._proc)
        if begun is None or belongs_to is None:
            raise RequestError("no_process", f"there is no process {pid} that the collector can see", _SEE)
        if uid not in (belongs_to, 0):
            raise RequestError("not_yours", f"process {pid} belongs to uid {belongs_to}, you are uid {uid}")
        known = self.active.get(uuid)
        if known is not None and known.uid != uid:
            raise RequestError("not_yours", f"run {uuid} was registered by uid {known.uid}")
        if sum(1 for each in self.active.values() if each.uid == uid) >= MAX_RUNS_PER_USER:
            raise RequestError("too_many", f"you have {MAX_RUNS_PER_USER} runs registered here", "end some of them")
        self._station.poll(with_processes=True)  # what was used before now is not this run's
        try:
            self._station.who.register(uuid, pid, belongs_to)
        except RegistrationRefused as refused:
            raise RequestError("refused", str(refused)) from refused
        self._store.register(uuid=uuid, pid=pid, uid=uid, started_ticks=begun, now_us=self._now().wall_us)
        self.active[uuid] = RegisteredRun(uuid, pid, uid, begun, self._station.total_idle_mj())
        self._tell(uuid, "PUT", facts)

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
        """Close a run and answer what it used so far; provisional until its last windows are settled. Raises Denied.

        ``facts`` and ``closing`` are told to the server by the daemon when the client cannot. ``goes_on``: its processes
        stay, and what they use from now on is not the run's.
        """
        active = self._own(uid, run)
        if isinstance(children_cpu_us, bool) or not isinstance(children_cpu_us, int) or children_cpu_us < 0:
            raise RequestError("bad_request", "children_cpu_us must be a number of microseconds, 0 or more")
        self._station.who.end(active.uuid, children_cpu_us)
        self._station.poll(with_processes=True)
        figures = self._figures(active)
        figures["warning"] = self._warning(active.uuid)
        if process_continues:
            self._station.who.release(active.uuid)
        self._finish(active.uuid)
        self._tell(active.uuid, "PUT", facts)
        if isinstance(closing, Mapping):
            self._tell(active.uuid, "PATCH", {**closing, "energy_mj": figures["energy_mj"], "provisional": True})
        return figures

    def so_far(self, *, uid: int, run: object) -> Dict[str, Any]:
        """What one's own run used up to the last poll, without ending it. Raises Denied."""
        active = self._own(uid, run)
        return {**self._figures(active), "warning": self._warning(active.uuid)}

    def _own(self, uid: int, run: object) -> RegisteredRun:
        active = self.active.get(str(run))
        if active is None or uid not in (active.uid, 0):
            raise RequestError("unknown_run", f"no run {run} of yours is registered here", "labcarbon-collect status")
        return active

    def owner_of(self, run: str) -> Optional[int]:
        """The uid that registered a run, going on or ended within the last week."""
        active = self.active.get(run)
        return active.uid if active else self._store.uid_of(run)

    def heard(self, *, uid: int, run: object, reachable: bool) -> Dict[str, Any]:
        """What the server answered about one's own run; ``wait``: it is about to be told. Raises Denied."""
        if uid not in (self._store.uid_of(str(run)), 0):
            raise RequestError("unknown_run", f"no run {run} of yours was registered here")
        return {"ok": True, "wait": reachable and self._store.has_pending(str(run)), "warning": self._warning(str(run))}

    def tell(self, *, uid: int, run: object, facts: object, closing: object, artifacts: object = None) -> int:
        """Take messages about one's own run, going on or ended, to be forwarded to the server; return of how many
        artifacts. Raises Denied."""
        if uid not in (self._store.uid_of(str(run)), 0):
            raise RequestError("unknown_run", f"no run {run} of yours was registered here")
        self._tell(str(run), "PUT", facts)
        self._tell(str(run), "PATCH", closing)
        return 0 if artifacts is None else self._tell_lineage(str(run), artifacts)

    def _warning(self, uuid: str) -> str:
        return self._station.spool.get_value(f"warning:{uuid}") or ""

    def end_orphans(self) -> List[str]:
        """End runs whose process is gone and whose wrapper never said so; returns their UUIDs."""
        now_us = self._now().monotonic_us
        closed = []
        for active in list(self.active.values()):
            if started_ticks(active.pid, self._proc) == active.started_ticks:
                active.gone_since_us = None
                continue
            active.gone_since_us = now_us if active.gone_since_us is None else active.gone_since_us
            if now_us - active.gone_since_us >= ORPHAN_US:
                self._station.who.end(active.uuid, 0)
                self._finish(active.uuid)
                closed.append(active.uuid)
        return closed

    def _figures(self, active: RegisteredRun) -> Dict[str, Any]:
        by_device = self._store.energy(active.uuid)
        for device, energy_mj in self._station.energy_of(f"run:{active.uuid}").items():
            by_device[device] = by_device.get(device, 0) + energy_mj
        return energy_figures(self._station, by_device, active.idle_base_mj, self._config())

    def _resume(self) -> None:
        """Take up the runs of before a restart whose process still lives; end the others."""
        for kept in self._store.active():
            run = RegisteredRun(kept["uuid"], kept["pid"], kept["uid"], kept["started_ticks"])
            if started_ticks(run.pid, self._proc) == run.started_ticks and self._known_again(run):
                self.active[run.uuid] = run
            else:
                self._store.end(run.uuid, now_us=self._now().wall_us)

    def _known_again(self, run: RegisteredRun) -> bool:
        belongs_to = owner(run.pid, self._proc)
        try:
            self._station.who.register(run.uuid, run.pid, run.uid if belongs_to is None else belongs_to)
        except RegistrationRefused:
            return False
        return True

    def _finish(self, uuid: str) -> None:
        self.active.pop(uuid, None)
        self._store.end(uuid, now_us=self._now().wall_us)

    def _tell_lineage(self, uuid: str, artifacts: object) -> int:
        if self._store.count_pending(uuid) >= MAX_WAITING:
            raise RequestError("too_many", f"{MAX_WAITING} messages of run {uuid} wait for the server")
        try:
            rows = forwarded(artifacts, uuid)
        except ValueError as wrong:
            raise RequestError("bad_request", str(wrong)) from wrong
        self._store.add_message(uuid, LINEAGE, {"artifacts": rows})
        return len(rows)

    def _tell(self, uuid: str, verb: str, facts: object) -> None:
        if isinstance(facts, Mapping):
            self._store.add_message(uuid, verb, facts)
