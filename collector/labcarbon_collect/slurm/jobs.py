"""What Slurm says of a job, and how it is told to the server. Pure.

A job is a run whose UUID follows from its cluster and its id, so that whoever sees it first makes the same one: the
collector of any of its nodes, or an import of history.
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
# Slurm's own states, by their first word ("CANCELLED by 1000"). What is missing here has not begun.
_STATES = {
    "RUNNING": RUNNING, "COMPLETING": RUNNING, "SUSPENDED": RUNNING, "CONFIGURING": RUNNING, "STAGE_OUT": RUNNING,
    "STOPPED": RUNNING, "SIGNALING": RUNNING, "RESIZING": RUNNING, "COMPLETED": "finished", "FAILED": "failed",
    "OUT_OF_MEMORY": "failed", "BOOT_FAIL": "failed", "NODE_FAIL": "failed", "LAUNCH_FAILED": "failed",
    "TIMEOUT": "killed", "DEADLINE": "killed", "CANCELLED": "killed", "PREEMPTED": "killed", "REVOKED": "killed",
    "REQUEUED": "killed", "REQUEUE_HOLD": "killed", "REQUEUE_FED": "killed", "SPECIAL_EXIT": "failed",
}  # fmt: skip
_EMPTY_VALUES = frozenset(("", "N/A", "(null)", "None", "Unknown", "NONE"))
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True)
class JobFacts:
    """One job as Slurm tells it. Times in µs UTC; None: Slurm does not say."""

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
    nodes: str = ""  # as Slurm writes it: gpu[1-3]
    array_job_id: str = ""
    array_task: str = ""
    reserved_gpus: Optional[int] = None
    gpus: Mapping[str, List[str]] = field(default_factory=dict)  # name of the node → NVML UUIDs
    consumed_energy_j: Optional[int] = None  # Slurm's own estimate: kept to compare with, never summed

    @property
    def state(self) -> str:
        """running, finished, failed or killed; "" while it has not begun or is not known."""
        return run_state(self.slurm_state)

    @property
    def uuid(self) -> str:
        return job_uuid(self.cluster, self.job_id)


def job_uuid(cluster: str, job_id: str) -> str:
    """The run of a job, by its cluster and raw id."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"labcarbon:slurm:{cluster}/{job_id}"))


def run_state(slurm_state: str) -> str:
    """Our state for one of Slurm's; "" for what has not begun, and for a word we do not know."""
    words = slurm_state.replace("+", " ").split()
    return _STATES.get(words[0], "") if words else ""


def exit_code(text: str) -> Optional[int]:
    """A shell's exit code for Slurm's ``code:signal``; None where it says nothing."""
    code, colon, number = text.partition(":")
    if not code.isdigit() or (colon and not number.isdigit()):
        return None
    return 128 + int(number) if number and int(number) else min(int(code), 255)


def reserved_gpus(tres: str) -> Optional[int]:
    """GPUs reserved by a TRES list (``cpu=4,gres/gpu=2,gres/gpu:a100=2``): the total, else the sum of the types.

    None where the list is empty: not told is not none.
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
    """A field's text, "" for Slurm's ways to say nothing."""
    return "" if text.strip() in _EMPTY_VALUES else text.strip()


def parse_count(text: str) -> Optional[int]:
    """A count that fits the server, or None."""
    return int(text) if text.isdigit() and len(text) < 20 and int(text) <= _MAX_INT64 else None


def parse_array_id(displayed_id: str) -> Tuple[str, str]:
    """(array job id, task) of a job id as shown: ``12_3`` → ("12", "3"); no array: two empty texts."""
    match = re.match(r"^(\d+)_(\d+)$", displayed_id)
    return (match.group(1), match.group(2)) if match else ("", "")


def job_object(job: JobFacts) -> Dict[str, Any]:
    """The ``job`` part of what the server is told; what is not known is left out."""
    job_facts: Dict[str, Any] = {
        "scheduler": SCHEDULER, "cluster": job.cluster, "id": job.job_id, "account": job.account[:100],
        "partition": job.partition[:100], "nodes": job.nodes[:2000], "array_job_id": job.array_job_id,
        "array_task": job.array_task, "state": job.slurm_state[:64], "exit": job.exit, "reserved_gpus": job.reserved_gpus,
        "gpus": dict(job.gpus), "consumed_energy_j": job.consumed_energy_j,
        "submitted_at": None if job.submitted_us is None else iso(job.submitted_us),
    }  # fmt: skip
    return {key: value for key, value in job_facts.items() if value not in (None, "", {})}


def put_body(job: JobFacts, *, node: Optional[str], first_observed_us: int) -> Dict[str, Any]:
    """The body of ``PUT runs/<uuid>/``. ``seen_us`` stands in for a start that Slurm does not tell."""
    started_us = first_observed_us if job.started_us is None else job.started_us
    return {
        "name": run_name(job), "started_at": iso(started_us), "user": job.user[:100], "node": node, "job": job_object(job),
    }  # fmt: skip


def patch_body(job: JobFacts) -> Dict[str, Any]:
    """The body of ``PATCH runs/<uuid>/``: where the job stands now."""
    job_facts = {key: value for key, value in job_object(job).items() if key in ("state", "exit", "consumed_energy_j")}
    body: Dict[str, Any] = {"state": job.state, "job": job_facts}
    if job.state != RUNNING:
        body["exit_code"] = exit_code(job.exit)
        body["ended_at"] = None if job.ended_us is None else iso(job.ended_us)
    return body


def bulk_row(job: JobFacts) -> Dict[str, Any]:
    """One row of ``POST runs/bulk/``. The job must have begun."""
    assert job.started_us is not None
    row: Dict[str, Any] = {
        "name": run_name(job), "user": job.user[:100], "started_at": iso(job.started_us), "state": job.state,
        "job": job_object(job),
    }  # fmt: skip
    if job.state != RUNNING:
        row["exit_code"] = exit_code(job.exit)
        row["ended_at"] = None if job.ended_us is None else iso(job.ended_us)
    return row


def run_name(job: JobFacts) -> str:
    """The job's name on one line, without what looks like a secret; else its id."""
    text = mask_argument(" ".join("".join(letter if letter.isprintable() else " " for letter in job.name).split()))
    return text[:200] or f"job {job.job_id}"


def current_job_key(environ: Mapping[str, str]) -> str:
    """``<cluster>/<id>`` of the job that a process works in, '' outside a job."""
    job = current_job(environ)
    return f"{job['cluster']}/{job['id']}" if job else ""


def current_job(environ: Mapping[str, str]) -> Optional[Dict[str, Any]]:
    """The ``job`` object for a process's own environment, or None outside a job."""
    job_id = environ.get("SLURM_JOB_ID", "")
    if not job_id.isdigit():
        return None
    job = JobFacts(
        cluster=environ.get("SLURM_CLUSTER_NAME", "").lower() or "local", job_id=job_id,
        account=environ.get("SLURM_JOB_ACCOUNT", ""), partition=environ.get("SLURM_JOB_PARTITION", ""),
        array_job_id=environ.get("SLURM_ARRAY_JOB_ID", ""), array_task=environ.get("SLURM_ARRAY_TASK_ID", ""),
    )  # fmt: skip
    return job_object(job)
