"""Reports every Slurm job with processes on this node to the server: its facts at the start, and
its end.

A separate thread queries Slurm in rounds. A slow or absent slurmctld delays these reports, never a
reading.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from labcarbon_collect.processes.cgroups import local_cluster
from labcarbon_collect.pseudonyms import KEEP_NAMES, UserNames
from labcarbon_collect.slurm.commands import Slurm, SlurmUnavailable
from labcarbon_collect.slurm.jobs import RUNNING, JobFacts, patch_body, put_body
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

ROUND_US = 20_000_000  # at most three rounds a minute, each of at most five calls
MAX_JOBS_PER_ROUND = 50
MAX_DETAILS = 2  # jobs per round whose GPUs are queried from scontrol
MIN_RETRY_US, MAX_RETRY_US = 20_000_000, 600_000_000
FORGET_US = 7 * 24 * 3600 * 1_000_000  # after this time a job with an unknown end is dropped
_STATE_KEY = "slurm_jobs"


@dataclass
class WatchedJob:
    """A job of this node whose end the server does not know yet."""

    job_id: str
    first_observed_us: int  # first observation of a process on this node
    is_posted: bool = False
    has_gpu_details: bool = False  # its GPUs are posted, or it has none
    vanished_us: Optional[int] = None  # since then it has no process on this node
    attempts: int = 0
    due_us: int = 0

    def to_row(self) -> Dict[str, Any]:
        """Return the job as the spool stores it."""
        return {key: getattr(self, name) for name, key in _STORED_KEYS.items()}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> WatchedJob:
        """Return a job from a stored row. Raises TypeError for unknown keys."""
        names = {key: name for name, key in _STORED_KEYS.items()}
        return cls(**{names.get(key, key): value for key, value in row.items()})


# Field → key in the spool.
_STORED_KEYS = {
    "job_id": "job_id",
    "first_observed_us": "seen_us",
    "is_posted": "told",
    "has_gpu_details": "details",
    "vanished_us": "gone_us",
    "attempts": "tries",
    "due_us": "due_us",
}


@dataclass(frozen=True)
class RoundResult:
    """Results of a round. ``missing_ids`` were queried and are unknown to Slurm."""

    jobs: Mapping[str, JobFacts]
    missing_ids: List[str]
    error: str = ""  # the failure of a query


class JobWatcher:
    """Watches the jobs of one node. Everything but the queries runs in the caller's thread."""

    def __init__(
        self,
        spool: Spool,
        slurm: Slurm,
        *,
        node: str,
        node_name: str,
        gpu_uuids: Callable[[], Mapping[int, str]],
        names: UserNames = KEEP_NAMES,
        round_us: int = ROUND_US,
    ) -> None:
        """``gpu_uuids``: GPU index in Slurm on this node → its NVML UUID."""
        self._spool, self._slurm, self._node, self._node_name = spool, slurm, node, node_name
        self._gpu_uuids, self._names, self._round_us = gpu_uuids, names, round_us
        self.jobs: Dict[str, WatchedJob] = self._load()
        self.error = ""
        self._round_started_us: Optional[int] = None
        self._thread: Optional[threading.Thread] = None
        self._result: Optional[RoundResult] = None

    def update(self, keys: Iterable[str], now_us: int) -> bool:
        """Update the jobs (``job:<cluster>/<id>``) with processes on this node. Returns whether a
        message was queued.
        """
        prefix = f"job:{self._slurm.cluster}/"
        active_ids = {key[len(prefix) :] for key in keys if key.startswith(prefix)}
        changed = self._track(active_ids, now_us)
        posted = self._collect_round(now_us)
        if changed or posted:
            self._save()
        self._start_round(now_us)
        return posted

    def wait(self, wait_s: float) -> None:
        """Wait for a round in progress (shutdown, tests)."""
        if self._thread is not None:
            self._thread.join(wait_s)

    def _track(self, active_ids: Iterable[str], now_us: int) -> bool:
        changed = False
        for job_id in active_ids:
            job = self.jobs.get(job_id)
            if job is None:
                self.jobs[job_id] = WatchedJob(job_id, now_us)
                changed = True
            elif job.vanished_us is not None:
                job.vanished_us, job.attempts, job.due_us = None, 0, 0
                changed = True
        for job in list(self.jobs.values()):
            if job.job_id in active_ids:
                continue
            if job.vanished_us is None:
                job.vanished_us, job.attempts, job.due_us = now_us, 0, 0
                changed = True
            elif now_us - job.vanished_us > FORGET_US:
                del self.jobs[job.job_id]
                changed = True
        return changed

    def _due_jobs(self, now_us: int) -> List[WatchedJob]:
        waiting = [
            job
            for job in self.jobs.values()
            if (not job.is_posted or not job.has_gpu_details or job.vanished_us is not None)
            and job.due_us <= now_us
        ]
        return sorted(waiting, key=lambda job: (job.due_us, job.first_observed_us))[
            :MAX_JOBS_PER_ROUND
        ]

    def _start_round(self, now_us: int) -> None:
        if self._thread is not None or (
            self._round_started_us is not None and now_us - self._round_started_us < self._round_us
        ):
            return
        due = [replace(job) for job in self._due_jobs(now_us)]
        if not due:
            return
        self._round_started_us = now_us
        self._thread = threading.Thread(
            target=self._run_round, args=(due,), name="slurm", daemon=True
        )
        self._thread.start()

    def _run_round(self, due: List[WatchedJob]) -> None:
        """Run one round of queries, in the thread."""
        problem, jobs = "", {}
        try:
            jobs = dict(self._slurm.query_queue(job.job_id for job in due))
        except SlurmUnavailable as error:
            problem = str(error)
        accounting_ids = [
            job.job_id
            for job in due
            if job.job_id not in jobs and (job.vanished_us is not None or job.is_posted)
        ]
        if accounting_ids:
            try:
                jobs.update(self._slurm.query_sacct(accounting_ids))
            except SlurmUnavailable as error:
                problem = problem or str(error)
        gpu_job_ids = [
            job.job_id
            for job in due
            if not job.has_gpu_details and job.job_id in jobs and jobs[job.job_id].reserved_gpus
        ]
        for job_id in gpu_job_ids[:MAX_DETAILS]:
            try:
                indices = self._slurm.gpus(jobs[job_id])
                jobs[job_id] = replace(jobs[job_id], gpus=self._gpu_names(indices))
            except SlurmUnavailable as error:
                problem = problem or str(error)
        self._result = RoundResult(
            jobs, [job.job_id for job in due if job.job_id not in jobs], problem
        )

    def _gpu_names(self, indices: Mapping[str, List[int]]) -> Dict[str, List[str]]:
        """Return this node's GPUs by UUID. Other nodes report their own."""
        uuids = self._gpu_uuids()
        node_indices = indices.get(self._node_name, [])
        return (
            {self._node_name: [uuids[index] for index in node_indices]}
            if node_indices and all(i in uuids for i in node_indices)
            else {}
        )

    def _collect_round(self, now_us: int) -> bool:
        if self._thread is None or self._thread.is_alive():
            return False
        self._thread = None
        result, self._result = self._result, None
        if result is None:
            self.error = "the thread that queries Slurm ended early"
            return False
        self.error = result.error
        for job_id, facts in result.jobs.items():
            job = self.jobs.get(job_id)
            if job is not None:
                self._post_job(job, facts, now_us)
        for job_id in result.missing_ids:
            if job_id in self.jobs:
                self._reschedule(self.jobs[job_id], now_us)
        return bool(result.jobs)

    def _post_job(self, job: WatchedJob, facts: JobFacts, now_us: int) -> None:
        """Queue what the server does not know about a job yet."""
        if not facts.state:
            self._reschedule(job, now_us)  # requeued: it has not started
            return
        was_posted = job.is_posted
        if not was_posted or facts.gpus:
            self._spool.runs.add_message(
                facts.uuid,
                "PUT",
                self._names.mask_job(
                    put_body(facts, node=self._node, first_observed_us=job.first_observed_us),
                    facts.user,
                ),
            )
            job.is_posted = True
        job.has_gpu_details = (
            job.has_gpu_details
            or bool(facts.gpus)
            or not facts.reserved_gpus
            or not self._gpu_uuids()
            or job.attempts > 2
        )
        if facts.state == RUNNING:
            if not was_posted:  # it may have ended before and been requeued
                self._spool.runs.add_message(facts.uuid, "PATCH", patch_body(facts))
            self._reschedule(
                job, now_us
            )  # without processes on this node, it may still run on others
            return
        self._spool.runs.add_message(facts.uuid, "PATCH", patch_body(facts))
        if job.vanished_us is not None:
            del self.jobs[job.job_id]
        else:
            self._reschedule(job, now_us)

    @staticmethod
    def _reschedule(job: WatchedJob, now_us: int) -> None:
        job.due_us = now_us + min(MAX_RETRY_US, MIN_RETRY_US << min(job.attempts, 10))
        job.attempts += 1

    def _load(self) -> Dict[str, WatchedJob]:
        try:
            rows = json.loads(self._spool.get_value(_STATE_KEY) or "[]")
            return {job.job_id: job for job in map(WatchedJob.from_row, rows)}
        except (ValueError, TypeError, sqlite3.Error):
            return {}

    def _save(self) -> None:
        with suppress(SpoolFull):  # watched jobs are rediscovered by their processes
            self._spool.set_value(
                _STATE_KEY, json.dumps([job.to_row() for job in self.jobs.values()])
            )


def create_watcher(
    spool: Spool, environ: Mapping[str, str], *, node: str, sources: SourcePoller, names: UserNames
) -> Optional[JobWatcher]:
    """Return a watcher if this machine is configured as a node of a Slurm cluster, else None."""
    cluster = local_cluster(environ)
    if not cluster:
        return None

    def gpu_uuids() -> Dict[int, str]:
        # Slurm counts device files (/dev/nvidia<n>), this collector GPUs.
        return {
            int(info.facts["minor"]): key.partition(":")[2]
            for key, info in sources.devices.items()
            if key.startswith("gpu:") and info.facts.get("minor", "").isdigit()
        }

    name = environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    return JobWatcher(
        spool, Slurm(cluster), node=node, node_name=name, gpu_uuids=gpu_uuids, names=names
    )
