"""The Slurm jobs of one station: what they used, and what the daemon tells of a run registered inside one."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.clock import Clock
from labcarbon_collect.daemon.run_registry import energy_figures
from labcarbon_collect.errors import RequestError
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.slurm.jobs import SCHEDULER
from labcarbon_collect.slurm.watcher import JobWatch

_FORGET_EVERY_US = 3600 * 1_000_000


class JobRegistry:
    """Knows which jobs work here, by the process lists of the station."""

    def __init__(
        self,
        station: NodeMonitor,
        *,
        now: Callable[[], Clock],
        config: Callable[[], Optional[Mapping[str, Any]]],
        watch: Optional[JobWatch] = None,
    ) -> None:
        """``watch`` tells the server of them; None where this machine is no node of a cluster, or does not push."""
        self._station, self._now, self._config, self._watch = station, now, config, watch
        self._uids: Dict[str, int] = {}
        self._idle_base_mj: Dict[str, Dict[str, int]] = {}
        self._forgotten_us = -_FORGET_EVERY_US

    def look(self) -> bool:
        """Note the jobs that have processes now; returns whether the server is to be told of one."""
        alive = self._station.who.jobs()
        for key, uid in alive.items():
            self._uids[key] = uid or self._uids.get(key, 0)
            if key not in self._idle_base_mj:
                self._idle_base_mj[key] = self._station.total_idle_mj()
        clock = self._now()
        if clock.monotonic_us - self._forgotten_us >= _FORGET_EVERY_US:
            self._forgotten_us = clock.monotonic_us
            self._station.spool.jobs.forget(clock.wall_us)
            kept = {key for key in self._uids if key in alive or self._station.spool.jobs.energy(key)}
            self._uids = {key: uid for key, uid in self._uids.items() if key in kept}
            self._idle_base_mj = {key: base for key, base in self._idle_base_mj.items() if key in kept}
        return self._watch is not None and self._watch.look(alive, clock.wall_us)

    def status(self) -> Optional[Dict[str, Any]]:
        """What ``status`` shows of the watch, or None without one."""
        return None if self._watch is None else {"watched": len(self._watch.jobs), "error": self._watch.complaint}

    def joined(self, run_uuid: str, pid: int) -> str:
        """Note the job that a newly registered run works in; returns its key, or ""."""
        key = self._station.who.job_of(pid)
        if key:
            self._station.spool.jobs.has(key, run_uuid, self._now().wall_us)
        return key

    def of_run(self, facts: Mapping[str, Any], key: str) -> Dict[str, Any]:
        """A run's facts with the job that the kernel says it is in, whatever its client believes."""
        told = {name: value for name, value in facts.items() if name != "job"}
        if not key:
            return told
        cluster, _, job_id = key.partition(":")[2].rpartition("/")
        given = facts.get("job")
        same = isinstance(given, Mapping) and (given.get("cluster"), given.get("id")) == (cluster, job_id)
        base = dict(given) if same and isinstance(given, Mapping) else {}
        return {**told, "job": {**base, "scheduler": SCHEDULER, "cluster": cluster, "id": job_id}}

    def figures(self, *, uid: int, job: object) -> Dict[str, Any]:
        """What a job used here so far, with the runs registered inside it. Its own user and root may ask. Raises Denied."""
        key = f"job:{job}"
        self._station.poll(with_processes=True)
        self.look()
        runs = self._station.spool.jobs.runs(key)
        by_device = self._station.spool.jobs.energy(key)
        for part in (
            self._station.energy_of(key),
            *(self._station.spool.runs.energy(run) for run in runs),
            *(self._station.energy_of(f"run:{run}") for run in runs),
        ):
            for device, energy_mj in part.items():
                by_device[device] = by_device.get(device, 0) + energy_mj
        if (not by_device and key not in self._uids) or (uid != 0 and uid != self._uids.get(key)):
            raise RequestError("unknown_job", f"no job {str(job)[:80]} of yours has worked here")
        base = self._idle_base_mj.get(key)
        return energy_figures(self._station, by_device, base, self._config())
