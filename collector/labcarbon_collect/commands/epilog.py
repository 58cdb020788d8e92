"""Print the energy of a Slurm job on this node in one line, for the site's TaskEpilog or the end of
a batch script.

The command reads SLURM_JOB_ID and SLURM_CLUSTER_NAME from its environment and prints to standard
error, the only stream of a TaskEpilog that slurmstepd copies to the job's output. It ends within
two seconds with exit code 0, so it never makes a job fail. In a TaskEpilog it prints one line per
job, at the end of the batch script.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from contextlib import closing
from typing import Mapping

from labcarbon_collect.config import client_sockets
from labcarbon_collect.figure_text import summary_line
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error
from labcarbon_collect.processes.cgroups import local_cluster
from labcarbon_collect.slurm.jobs import job_uuid

CALL_TIMEOUT_S = 1.5
MAX_RUNTIME_S = 1.9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def run(args: argparse.Namespace) -> int:
    # Do not delay slurmd if a file system or the daemon hangs.
    alarm = threading.Timer(MAX_RUNTIME_S, os._exit, (0,))
    alarm.daemon = True
    alarm.start()
    if _is_step_epilog(os.environ):
        return 0
    try:
        print(job_summary(os.environ), file=sys.stderr, flush=True)
    except Exception as error:  # noqa: BLE001 - a failing epilog would drain the node
        print(f"labcarbon: the energy of this job is unknown: {error}", file=sys.stderr)
    return 0


def _is_step_epilog(environ: Mapping[str, str]) -> bool:
    """Whether this is the TaskEpilog of an srun task. The batch script that started the task is
    still running.
    """
    return (
        environ.get("SLURM_SCRIPT_CONTEXT") == "epilog_task"
        and environ.get("SLURM_STEP_ID", "").isdigit()
    )


def job_summary(environ: Mapping[str, str]) -> str:
    """Return the summary line of the job in ``environ``, or the reason why there is none."""
    job_id = environ.get("SLURM_JOB_ID", "")
    cluster = environ.get("SLURM_CLUSTER_NAME", "").lower() or local_cluster(environ)
    if not job_id.isdigit() or not cluster:
        return "labcarbon: no Slurm job (SLURM_JOB_ID, SLURM_CLUSTER_NAME)"
    try:
        with closing(Client(client_sockets(environ), timeout_s=CALL_TIMEOUT_S / 3)) as client:
            figures = client.call(
                {"op": "job", "job": f"{cluster}/{job_id}"}, timeout_s=CALL_TIMEOUT_S
            )
    except DaemonUnavailable as error:
        return f"labcarbon: the energy of job {job_id} was not measured on this node: {error}"
    message = response_error(figures)
    if message:
        return f"labcarbon: job {job_id}: {message}"
    server = str(figures.get("url") or "")
    return summary_line(
        figures, link=f"{server}/runs/{job_uuid(cluster, job_id)}/" if server else "", server=server
    )
