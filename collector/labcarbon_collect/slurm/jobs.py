"""Facts of a Slurm job and their wire format. Pure.

A job is a run whose UUID is computed from its cluster and id. Every reporter thus uses the same
UUID: the collectors of all its nodes and an import of history.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.clock import iso
from labcarbon_collect.redaction import mask_argument

SCHEDULER = "slurm"
RUNNING = "running"
# Slurm's states, by their first word ("CANCELLED by 1000"). States that are missing mean that the
# job has not started.
_STATES = {
    "RUNNING": RUNNING, "COMPLETING": RUNNING, "SUSPENDED": RUNNING, "CONFIGURING": RUNNING,
    "STAGE_OUT": RUNNING, "STOPPED": RUNNING, "SIGNALING": RUNNING, "RESIZING": RUNNING,
    "COMPLETED": "finished", "FAILED": "failed", "OUT_OF_MEMORY": "failed", "BOOT_FAIL": "failed",
    "NODE_FAIL": "failed", "LAUNCH_FAILED": "failed", "TIMEOUT": "killed", "DEADLINE": "killed",
    "CANCELLED": "killed", "PREEMPTED": "killed", "REVOKED": "killed", "REQUEUED": "killed",
    "REQUEUE_HOLD": "killed", "REQUEUE_FED": "killed", "SPECIAL_EXIT": "failed",
}  # fmt: skip
_EMPTY_VALUES = frozenset(("", "N/A", "(null)", "None", "Unknown", "NONE"))
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True)
class JobFacts:
    """One job as reported by Slurm. Times in µs UTC. None means not reported."""

    cluster: str
    job_id: str
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    slurm_state: str = ""
    exit: str = ""  # "code:signal"
    submitted_us: Optional[int] = None
    started_us: Optional[int] = None
    ended_us: Optional[int] = None
    nodes: str = ""  # in Slurm's notation: gpu[1-3]
    array_job_id: str = ""
    array_task: str = ""
    reserved_gpus: Optional[int] = None
    gpus: Mapping[str, List[str]] = field(default_factory=dict)  # node name → NVML UUIDs
    consumed_energy_j: Optional[int] = (
        None  # Slurm's own estimate, for comparison only, never summed
    )

    @property
    def state(self) -> str:
        """running, finished, failed or killed, or "" before the start or if unknown."""
        return run_state(self.slurm_state)

    @property
    def uuid(self) -> str:
        return job_uuid(self.cluster, self.job_id)


def job_uuid(cluster: str, job_id: str) -> str:
    """Return the UUID of a job's run, from its cluster and raw id."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"labcarbon:slurm:{cluster}/{job_id}"))


def run_state(slurm_state: str) -> str:
    """Return the run state of a Slurm state, or "" for a job that has not started and for unknown
    states.
    """
    words = slurm_state.replace("+", " ").split()
    return _STATES.get(words[0], "") if words else ""


def exit_code(text: str) -> Optional[int]:
    """Return a shell's exit code for Slurm's ``code:signal``, or None if it is empty."""
    code, colon, number = text.partition(":")
    if not code.isdigit() or (colon and not number.isdigit()):
        return None
    return 128 + int(number) if number and int(number) else min(int(code), 255)


def reserved_gpus(tres: str) -> Optional[int]:
    """Return the GPUs of a TRES list (``cpu=4,gres/gpu=2,gres/gpu:a100=2``): the total, else the
    sum of the types.

    None for an empty list, because an unreported count is not zero.
    """
    if not field_text(tres):
        return None
    total, typed = None, 0
    for part in tres.split(","):
        name, _, count = part.partition("=")
        if count.isdigit() and name == "gres/gpu":
            total = int(count)
        elif count.isdigit() and name.startswith("gres/gpu:"):
            typed += int(count)
    return typed if total is None else total


def field_text(text: str) -> str:
    """Return a field's text, or "" for Slurm's placeholders."""
    return "" if text.strip() in _EMPTY_VALUES else text.strip()


def parse_count(text: str) -> Optional[int]:
    """Return a count that fits the server's range, or None."""
    return int(text) if text.isdigit() and len(text) < 20 and int(text) <= _MAX_INT64 else None


def parse_array_id(displayed_id: str) -> Tuple[str, str]:
    """Return (array job id, task) of a displayed job id: ``12_3`` → ("12", "3"), or two empty
    texts.
    """
    match = re.match(r"^(\d+)_(\d+)$", displayed_id)
    return (match.group(1), match.group(2)) if match else ("", "")


def job_object(job: JobFacts) -> Dict[str, Any]:
    """Return the ``job`` object for the server. Unknown values are left out."""
    job_facts: Dict[str, Any] = {
        "scheduler": SCHEDULER,
        "cluster": job.cluster,
        "id": job.job_id,
        "account": job.account[:100],
        "partition": job.partition[:100],
        "nodes": job.nodes[:2000],
        "array_job_id": job.array_job_id,
        "array_task": job.array_task,
        "state": job.slurm_state[:64],
        "exit": job.exit,
        "reserved_gpus": job.reserved_gpus,
        "gpus": dict(job.gpus),
        "consumed_energy_j": job.consumed_energy_j,
        "submitted_at": None if job.submitted_us is None else iso(job.submitted_us),
    }
    return {key: value for key, value in job_facts.items() if value not in (None, "", {})}


def put_body(job: JobFacts, *, node: Optional[str], first_observed_us: int) -> Dict[str, Any]:
    """Return the body of ``PUT runs/<uuid>/``. ``first_observed_us`` replaces a start that Slurm
    does not report.
    """
    started_us = first_observed_us if job.started_us is None else job.started_us
    return {
        "name": run_name(job),
        "started_at": iso(started_us),
        "user": job.user[:100],
        "node": node,
        "job": job_object(job),
    }


def patch_body(job: JobFacts) -> Dict[str, Any]:
    """Return the body of ``PATCH runs/<uuid>/``: the current state of the job."""
    job_facts = {
        key: value
        for key, value in job_object(job).items()
        if key in ("state", "exit", "consumed_energy_j")
    }
    body: Dict[str, Any] = {"state": job.state, "job": job_facts}
    if job.state != RUNNING:
        body["exit_code"] = exit_code(job.exit)
        body["ended_at"] = None if job.ended_us is None else iso(job.ended_us)
    return body


def bulk_row(job: JobFacts) -> Dict[str, Any]:
    """Return one row of ``POST runs/bulk/``. The job must have started."""
    assert job.started_us is not None
    row: Dict[str, Any] = {
        "name": run_name(job),
        "user": job.user[:100],
        "started_at": iso(job.started_us),
        "state": job.state,
        "job": job_object(job),
    }
    if job.state != RUNNING:
        row["exit_code"] = exit_code(job.exit)
        row["ended_at"] = None if job.ended_us is None else iso(job.ended_us)
    return row


def run_name(job: JobFacts) -> str:
    """Return the job's name on one line with likely secrets masked, else its id."""
    text = mask_argument(
        " ".join("".join(letter if letter.isprintable() else " " for letter in job.name).split())
    )
    return text[:200] or f"job {job.job_id}"


def current_job_key(environ: Mapping[str, str]) -> str:
    """Return ``<cluster>/<id>`` of the process's job, or '' outside a job."""
    job = current_job(environ)
    return f"{job['cluster']}/{job['id']}" if job else ""


def current_job(environ: Mapping[str, str]) -> Optional[Dict[str, Any]]:
    """Return the ``job`` object of the process's job, or None outside a job."""
    job_id = environ.get("SLURM_JOB_ID", "")
    if not job_id.isdigit():
        return None
    job = JobFacts(
        cluster=environ.get("SLURM_CLUSTER_NAME", "").lower() or "local",
        job_id=job_id,
        account=environ.get("SLURM_JOB_ACCOUNT", ""),
        partition=environ.get("SLURM_JOB_PARTITION", ""),
        array_job_id=environ.get("SLURM_ARRAY_JOB_ID", ""),
        array_task=environ.get("SLURM_ARRAY_TASK_ID", ""),
    )
    return job_object(job)
