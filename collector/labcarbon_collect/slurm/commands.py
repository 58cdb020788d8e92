"""Asks Slurm: squeue and scontrol for jobs it still knows, sacct for those it has forgotten. Every call is bounded."""

from __future__ import annotations

import os
import secrets
import subprocess
from dataclasses import replace
from typing import Callable, Dict, Iterable, List, Optional, Sequence

from labcarbon_collect.slurm.jobs import JobFacts
from labcarbon_collect.slurm.parsers import (
    SACCT,
    SQUEUE_LONG,
    NotSacct,
    gpu_indices,
    sacct_jobs,
    squeue_closing,
    squeue_format,
    squeue_jobs,
)

TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 8 << 20
Ask = Callable[[Sequence[str]], str]


class SlurmAway(Exception):
    """Slurm did not answer; the text says which program and why."""


def new_mark() -> str:
    """A separator that nobody can have written into a job's name beforehand."""
    return f"|{secrets.token_hex(8)}|"


def ask_program(command: Sequence[str]) -> str:
    """Run one of Slurm's programs to its end and return what it printed. Raises SlurmAway."""
    try:
        done = subprocess.run(
            list(command), env=slurm_environ(), stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise SlurmAway(f"{command[0]} did not answer within {TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise SlurmAway(f"{command[0]} cannot be started: {error.strerror}") from error
    said = done.stdout[:MAX_ANSWER_BYTES].decode("utf-8", "replace")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SlurmAway(f"{command[0]}: {lines[-1][:200] if lines else f'exit code {done.returncode}'}")
    return said


def slurm_environ() -> Dict[str, str]:
    """What Slurm's programs get: no default of a user changes what they print; times are seconds since 1970."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SACCT_", "SCONTROL_"))}
    return {**kept, "SLURM_TIME_FORMAT": "%s", "TZ": "UTC", "LC_ALL": "C.UTF-8"}


class Slurm:
    """The Slurm of one cluster."""

    def __init__(self, cluster: str, ask: Ask = ask_program) -> None:
        self.cluster = cluster
        self._ask = ask

    def current(self, job_ids: Iterable[str]) -> Dict[str, JobFacts]:
        """Facts of the jobs that slurmctld still knows, by id. Raises SlurmAway."""
        wanted, mark = ",".join(job_ids), new_mark()
        jobs = squeue_jobs(self._squeue(wanted, "-o", squeue_format(mark)), mark, self.cluster)
        closing = squeue_closing(self._squeue(",".join(jobs), "-O", SQUEUE_LONG)) if jobs else {}
        return {
            job_id: replace(job, exit=closing[job_id][0], reserved_gpus=closing[job_id][1]) if job_id in closing else job
            for job_id, job in jobs.items()
        }

    def _squeue(self, job_ids: str, *what: str) -> str:
        try:
            return self._ask(["squeue", "--noheader", "--all", "--states=all", f"--jobs={job_ids}", *what])
        except SlurmAway as away:
            if "Invalid job id" in str(away):
                return ""
            raise

    def gpus(self, job: JobFacts) -> Dict[str, List[int]]:
        """Node → indices of the GPUs that a job holds there. Raises SlurmAway."""
        return gpu_indices(self._ask(["scontrol", "--details", "show", "job", job.job_id]), job.name)

    def past(self, job_ids: Iterable[str]) -> Dict[str, JobFacts]:
        """Facts of jobs from Slurm's accounting, by id. Raises SlurmAway."""
        said = self._ask([*sacct_command(new_mark()), f"--jobs={','.join(job_ids)}"])
        try:
            lines = [f"{line}\n" for line in said.split("\n")]
            found = sacct_jobs(lines, cluster=self.cluster, wrong=_unread)
            return {job.job_id: job for job in found if job.cluster == self.cluster}
        except NotSacct as error:
            raise SlurmAway(f"sacct: {error}") from error


def sacct_command(mark: str, *, cluster: Optional[str] = None) -> List[str]:
    """sacct with the columns we read, divided by ``mark``."""
    clusters = [f"--clusters={cluster}"] if cluster else []
    shape = ["--allusers", "--allocations", "--parsable2", f"--delimiter={mark}", f"--format={','.join(SACCT)}"]
    return ["sacct", *shape, *clusters]


def _unread(number: int, why: str) -> None:
    """A row that cannot be read is a job we know nothing of yet; it is asked for again."""
