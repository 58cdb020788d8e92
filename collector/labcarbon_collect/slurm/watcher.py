"""Tells the server of every Slurm job that works on this node: who it is when first seen, how it ended when it is gone.

Slurm is asked by a thread of its own, in rounds: a slow or absent slurmctld delays what is told and no reading.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Callable, Dict, Iterable, List, Mapping, Optional

from labcarbon_collect.processes.cgroups import local_cluster
from labcarbon_collect.pseudonyms import KEEP_NAMES, UserNames
from labcarbon_collect.slurm.commands import Slurm, SlurmAway
from labcarbon_collect.slurm.jobs import RUNNING, JobFacts, patch_body, put_body
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

ROUND_US = 20_000_000  # at most three rounds a minute, each of at most five calls
MAX_ASKED = 50
MAX_DETAILS = 2  # jobs a round whose GPUs scontrol is asked for
FIRST_WAIT_US, LONGEST_WAIT_US = 20_000_000, 600_000_000
FORGET_US = 7 * 24 * 3600 * 1_000_000  # a job whose end nobody could tell for so long
_KEPT = "slurm_jobs"


@dataclass
class Watched:
    """A job of this node whose end the server does not know yet."""

    job_id: str
    seen_us: int  # first seen with a process here
    public_name: bool = False
    details: bool = False  # its GPUs are told, or it has none
    gone_us: Optional[int] = None  # since when it has no process here
    tries: int = 0
    due_us: int = 0


@dataclass(frozen=True)
class Answer:
    """What a round learnt. ``missing`` were asked for and are known to nobody."""

    jobs: Mapping[str, JobFacts]
    missing: List[str]
    why: str = ""  # what did not answer


class JobWatch:
    """Watches the jobs of one node. All but the asking is done by the caller's thread."""

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
        """``gpu_uuids``: index of a GPU on this node as Slurm counts → its NVML UUID."""
        self._spool, self._slurm, self._node, self._node_name = spool, slurm, node, node_name
        self._gpu_uuids, self._names, self._round_us = gpu_uuids, names, round_us
        self.jobs: Dict[str, Watched] = self._recall()
        self.complaint = ""
        self._asked_us: Optional[int] = None
        self._asking: Optional[threading.Thread] = None
        self._answer: Optional[Answer] = None

    def look(self, keys: Iterable[str], now_us: int) -> bool:
        """Take note of the jobs (``job:<cluster>/<id>``) that work here now; returns whether one is to be forwarded."""
        mine = f"job:{self._slurm.cluster}/"
        alive = {key[len(mine) :] for key in keys if key.startswith(mine)}
        changed = self._note(alive, now_us)
        posted = self._take(now_us)
        if changed or posted:
            self._keep()
        self._ask(now_us)
        return posted

    def settle(self, wait_s: float) -> None:
        """Wait for a round under way (stopping, tests)."""
        if self._asking is not None:
            self._asking.join(wait_s)

    def _note(self, alive: Iterable[str], now_us: int) -> bool:
        changed = False
        for job_id in alive:
            job = self.jobs.get(job_id)
            if job is None:
                self.jobs[job_id] = Watched(job_id, now_us)
                changed = True
            elif job.gone_us is not None:
                job.gone_us, job.tries, job.due_us = None, 0, 0
                changed = True
        for job in list(self.jobs.values()):
            if job.job_id in alive:
                continue
            if job.gone_us is None:
                job.gone_us, job.tries, job.due_us = now_us, 0, 0
                changed = True
            elif now_us - job.gone_us > FORGET_US:
                del self.jobs[job.job_id]
                changed = True
        return changed

    def _due(self, now_us: int) -> List[Watched]:
        waiting = [
            job
            for job in self.jobs.values()
            if (not job.public_name or not job.details or job.gone_us is not None) and job.due_us <= now_us
        ]
        return sorted(waiting, key=lambda job: (job.due_us, job.seen_us))[:MAX_ASKED]

    def _ask(self, now_us: int) -> None:
        if self._asking is not None or (self._asked_us is not None and now_us - self._asked_us < self._round_us):
            return
        due = [replace(job) for job in self._due(now_us)]
        if not due:
            return
        self._asked_us = now_us
        self._asking = threading.Thread(target=self._round, args=(due,), name="slurm", daemon=True)
        self._asking.start()

    def _round(self, due: List[Watched]) -> None:
        """In the thread: one round of questions."""
        why, jobs = "", {}
        try:
            jobs = dict(self._slurm.current(job.job_id for job in due))
        except SlurmAway as away:
            why = str(away)
        forgotten = [job.job_id for job in due if job.job_id not in jobs and (job.gone_us is not None or job.public_name)]
        if forgotten:
            try:
                jobs.update(self._slurm.past(forgotten))
            except SlurmAway as away:
                why = why or str(away)
        wanting = [job.job_id for job in due if not job.details and job.job_id in jobs and jobs[job.job_id].reserved_gpus]
        for job_id in wanting[:MAX_DETAILS]:
            try:
                indices = self._slurm.gpus(jobs[job_id])
                jobs[job_id] = replace(jobs[job_id], gpus=self._named(indices))
            except SlurmAway as away:
                why = why or str(away)
        self._answer = Answer(jobs, [job.job_id for job in due if job.job_id not in jobs], why)

    def _named(self, indices: Mapping[str, List[int]]) -> Dict[str, List[str]]:
        """This node's GPUs by UUID; those of other nodes are for their own collectors to name."""
        known = self._gpu_uuids()
        mine = indices.get(self._node_name, [])
        return {self._node_name: [known[index] for index in mine]} if mine and all(i in known for i in mine) else {}

    def _take(self, now_us: int) -> bool:
        if self._asking is None or self._asking.is_alive():
            return False
        self._asking = None
        answer, self._answer = self._answer, None
        if answer is None:
            self.complaint = "the thread that asks Slurm ended early"
            return False
        self.complaint = answer.why
        for job_id, facts in answer.jobs.items():
            job = self.jobs.get(job_id)
            if job is not None:
                self._tell(job, facts, now_us)
        for job_id in answer.missing:
            if job_id in self.jobs:
                self._later(self.jobs[job_id], now_us)
        return bool(answer.jobs)

    def _tell(self, job: Watched, facts: JobFacts, now_us: int) -> None:
        """Put into the outbox what the server does not know of a job yet."""
        if not facts.state:
            self._later(job, now_us)  # queued again: it has not begun
            return
        known = job.public_name
        if not known or facts.gpus:
            self._spool.runs.add_message(
                facts.uuid, "PUT", self._names.mask_job(put_body(facts, node=self._node, seen_us=job.seen_us), facts.user)
            )
            job.public_name = True
        job.details = job.details or bool(facts.gpus) or not facts.reserved_gpus or not self._gpu_uuids() or job.tries > 2
        if facts.state == RUNNING:
            if not known:  # it may have been ended before and queued again
                self._spool.runs.add_message(facts.uuid, "PATCH", patch_body(facts))
            self._later(job, now_us)  # gone here, it may still work on other nodes
            return
        self._spool.runs.add_message(facts.uuid, "PATCH", patch_body(facts))
        if job.gone_us is not None:
            del self.jobs[job.job_id]
        else:
            self._later(job, now_us)

    @staticmethod
    def _later(job: Watched, now_us: int) -> None:
        job.due_us = now_us + min(LONGEST_WAIT_US, FIRST_WAIT_US << min(job.tries, 10))
        job.tries += 1

    def _recall(self) -> Dict[str, Watched]:
        try:
            kept = json.loads(self._spool.get_value(_KEPT) or "[]")
            return {job.job_id: job for job in (Watched(**each) for each in kept)}
        except (ValueError, TypeError, sqlite3.Error):
            return {}

    def _keep(self) -> None:
        with suppress(SpoolFull):  # what is watched now is found again by its processes
            self._spool.set_value(_KEPT, json.dumps([asdict(job) for job in self.jobs.values()]))


def open_watch(
    spool: Spool, environ: Mapping[str, str], *, node: str, meters: SourcePoller, names: UserNames
) -> Optional[JobWatch]:
    """A watch where this machine is configured as a node of a Slurm cluster, else None."""
    cluster = local_cluster(environ)
    if not cluster:
        return None

    def gpu_uuids() -> Dict[int, str]:
        # Slurm counts device files (/dev/nvidia<n>); we name cards.
        return {
            int(info.facts["minor"]): key.partition(":")[2]
            for key, info in meters.devices.items()
            if key.startswith("gpu:") and info.facts.get("minor", "").isdigit()
        }

    name = environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    return JobWatch(spool, Slurm(cluster), node=node, node_name=name, gpu_uuids=gpu_uuids, names=names)
