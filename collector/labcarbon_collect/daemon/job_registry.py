"""Slurm jobs of one node: their energy, and the job of a registered run."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.clock import Clock
from labcarbon_collect.daemon.run_registry import energy_figures
from labcarbon_collect.errors import RequestError
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.slurm.jobs import SCHEDULER
from labcarbon_collect.slurm.watcher import JobWatcher

_DELETE_INTERVAL_US = 3600 * 1_000_000


class JobRegistry:
    """The jobs with processes on this node."""

    def __init__(
        self,
        monitor: NodeMonitor,
        *,
        now: Callable[[], Clock],
        config: Callable[[], Optional[Mapping[str, Any]]],
        watch: Optional[JobWatcher] = None,
    ) -> None:
        """``watch`` reports jobs to the server; None if this machine is no cluster node or does not
        upload.
        """
        self._monitor, self._now, self._config, self._watch = monitor, now, config, watch
        self._uids: Dict[str, int] = {}
        self._idle_base_mj: Dict[str, Dict[str, int]] = {}
        self._deleted_us = -_DELETE_INTERVAL_US

    def update(self) -> bool:
        """Record the jobs that have processes now. Returns whether a message to the server is
        pending.
        """
        alive = self._monitor.consumers.jobs()
        for key, uid in alive.items():
            self._uids[key] = uid or self._uids.get(key, 0)
            if key not in self._idle_base_mj:
                self._idle_base_mj[key] = self._monitor.total_idle_mj()
        clock = self._now()
        if clock.monotonic_us - self._deleted_us >= _DELETE_INTERVAL_US:
            self._deleted_us = clock.monotonic_us
            self._monitor.spool.jobs.delete_old(clock.wall_us)
            retained = {
                key for key in self._uids if key in alive or self._monitor.spool.jobs.energy(key)
            }
            self._uids = {key: uid for key, uid in self._uids.items() if key in retained}
            self._idle_base_mj = {
                key: base for key, base in self._idle_base_mj.items() if key in retained
            }
        return self._watch is not None and self._watch.update(alive, clock.wall_us)

    def status(self) -> Optional[Dict[str, Any]]:
        """Return the watch's part of ``status``, None without a watch."""
        return (
            None
            if self._watch is None
            else {"watched": len(self._watch.jobs), "error": self._watch.error}
        )

    def add_run(self, run_uuid: str, pid: int) -> str:
        """Record the job of a newly registered run. Returns its key, or ""."""
        key = self._monitor.consumers.job_of(pid)
        if key:
            self._monitor.spool.jobs.add_run(key, run_uuid, self._now().wall_us)
        return key

    def with_job(self, facts: Mapping[str, Any], key: str) -> Dict[str, Any]:
        """Return a run's facts with the job that the kernel reports, whatever the client claims."""
        without_job = {name: value for name, value in facts.items() if name != "job"}
        if not key:
            return without_job
        cluster, _, job_id = key.partition(":")[2].rpartition("/")
        client_job = facts.get("job")
        is_same = isinstance(client_job, Mapping) and (
            client_job.get("cluster"),
            client_job.get("id"),
        ) == (cluster, job_id)
        base = dict(client_job) if is_same and isinstance(client_job, Mapping) else {}
        return {
            **without_job,
            "job": {**base, "scheduler": SCHEDULER, "cluster": cluster, "id": job_id},
        }

    def job_figures(self, *, uid: int, job: object) -> Dict[str, Any]:
        """Return the energy of a job on this node, with its registered runs, for its user and root
        only. Raises RequestError.
        """
        key = f"job:{job}"
        self._monitor.poll(with_processes=True)
        self.update()
        runs = self._monitor.spool.jobs.runs(key)
        by_device = self._monitor.spool.jobs.energy(key)
        for energy in (
            self._monitor.energy_of(key),
            *(self._monitor.spool.runs.energy(run) for run in runs),
            *(self._monitor.energy_of(f"run:{run}") for run in runs),
        ):
            for device, energy_mj in energy.items():
                by_device[device] = by_device.get(device, 0) + energy_mj
        if (not by_device and key not in self._uids) or (uid != 0 and uid != self._uids.get(key)):
            raise RequestError("unknown_job", f"no job {str(job)[:80]} of yours ran on this node")
        base = self._idle_base_mj.get(key)
        return energy_figures(self._monitor, by_device, base, self._config())
