"""Queries of Slurm: squeue and scontrol for jobs in slurmctld, sacct for older ones. Every call has
a time limit.
"""

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
    SacctFormatError,
    parse_gpu_indices,
    parse_sacct_jobs,
    parse_squeue_closing,
    parse_squeue_jobs,
    squeue_format,
)

TIMEOUT_S = 5.0
MAX_OUTPUT_BYTES = 8 << 20
RunCommand = Callable[[Sequence[str]], str]


class SlurmUnavailable(Exception):
    """Slurm did not respond. The text names the program and the reason."""


def new_delimiter() -> str:
    """Return a separator that nobody can have put into a job's name beforehand."""
    return f"|{secrets.token_hex(8)}|"


def run_command(command: Sequence[str]) -> str:
    """Run one of Slurm's programs and return its output. Raises SlurmUnavailable."""
    try:
        completed = subprocess.run(
            list(command),
            env=slurm_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise SlurmUnavailable(f"{command[0]} did not respond within {TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise SlurmUnavailable(f"{command[0]} cannot be started: {error.strerror}") from error
    output = completed.stdout[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
    if completed.returncode:
        lines = completed.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SlurmUnavailable(
            f"{command[0]}: {lines[-1][:200] if lines else f'exit code {completed.returncode}'}"
        )
    return output


def slurm_environment() -> Dict[str, str]:
    """Return the environment of Slurm's programs. A user's defaults do not change the output. Times
    are seconds since 1970.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SQUEUE_", "SACCT_", "SCONTROL_"))
    }
    return {**inherited, "SLURM_TIME_FORMAT": "%s", "TZ": "UTC", "LC_ALL": "C.UTF-8"}


class Slurm:
    """The Slurm of one cluster."""

    def __init__(self, cluster: str, run_command: RunCommand = run_command) -> None:
        self.cluster = cluster
        self._run_command = run_command

    def query_queue(self, job_ids: Iterable[str]) -> Dict[str, JobFacts]:
        """Return facts of the jobs in slurmctld, by id. Raises SlurmUnavailable."""
        id_list, delimiter = ",".join(job_ids), new_delimiter()
        jobs = parse_squeue_jobs(
            self._squeue(id_list, "-o", squeue_format(delimiter)), delimiter, self.cluster
        )
        closing = (
            parse_squeue_closing(self._squeue(",".join(jobs), "-O", SQUEUE_LONG)) if jobs else {}
        )
        return {
            job_id: replace(job, exit=closing[job_id][0], reserved_gpus=closing[job_id][1])
            if job_id in closing
            else job
            for job_id, job in jobs.items()
        }

    def _squeue(self, job_ids: str, *arguments: str) -> str:
        try:
            return self._run_command(
                ["squeue", "--noheader", "--all", "--states=all", f"--jobs={job_ids}", *arguments]
            )
        except SlurmUnavailable as error:
            if "Invalid job id" in str(error):
                return ""
            raise

    def gpus(self, job: JobFacts) -> Dict[str, List[int]]:
        """Return node → indices of the GPUs of a job. Raises SlurmUnavailable."""
        return parse_gpu_indices(
            self._run_command(["scontrol", "--details", "show", "job", job.job_id]), job.name
        )

    def query_sacct(self, job_ids: Iterable[str]) -> Dict[str, JobFacts]:
        """Return facts of jobs from Slurm's accounting, by id. Raises SlurmUnavailable."""
        output = self._run_command([*sacct_command(new_delimiter()), f"--jobs={','.join(job_ids)}"])
        try:
            lines = [f"{line}\n" for line in output.split("\n")]
            jobs = parse_sacct_jobs(lines, cluster=self.cluster, on_invalid_row=_ignore_row)
            return {job.job_id: job for job in jobs if job.cluster == self.cluster}
        except SacctFormatError as error:
            raise SlurmUnavailable(f"sacct: {error}") from error


def sacct_command(delimiter: str, *, cluster: Optional[str] = None) -> List[str]:
    """Return the sacct command with the required columns, separated by ``delimiter``."""
    clusters = [f"--clusters={cluster}"] if cluster else []
    options = [
        "--allusers",
        "--allocations",
        "--parsable2",
        f"--delimiter={delimiter}",
        f"--format={','.join(SACCT)}",
    ]
    return ["sacct", *options, *clusters]


def _ignore_row(number: int, reason: str) -> None:
    """Ignore an unreadable row. Its job is queried again."""
