"""labcarbon-collect epilog: one line, within two seconds, exit code 0. A job's figures are for its
user and root only.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.commands.epilog import MAX_RUNTIME_S, job_summary
from labcarbon_collect.daemon.job_registry import JobRegistry
from labcarbon_collect.errors import RequestError
from labcarbon_collect.slurm.jobs import job_uuid

from tests.collector.simulated_node import FakeConsumers, Machine, node_monitor
from tests.faults.installation import ROOT

JOB = {"SLURM_JOB_ID": "981", "SLURM_CLUSTER_NAME": "HPC"}


@contextmanager
def answering(path: Path, response: Callable[[bytes], bytes]) -> Iterator[None]:
    """The socket of a daemon that answers each line."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection, suppress(BrokenPipeError):  # the caller may have disconnected
                connection.sendall(response(connection.recv(4096)))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    thread.join(5)


@contextmanager
def hanging(path: Path) -> Iterator[None]:
    """The socket of a daemon that does not answer during a call, or for half a minute."""
    over = threading.Event()

    def response(request: bytes) -> bytes:
        over.wait(30)
        return b""

    with answering(path, response):
        yield
        over.set()


def epilog(**environ: str) -> tuple[int, str, str, float]:
    started_s = time.monotonic()
    allowed = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}/collector"}
    done = subprocess.run(
        [sys.executable, "-m", "labcarbon_collect", "epilog"],
        env={**allowed, **environ},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr, time.monotonic() - started_s


def test_summary_line(tmp_path: Path) -> None:
    requests: list[Any] = []
    figures = {
        "ok": True,
        "energy_mj": 1_483_200_000,
        "by_quality": {"counter": 1_483_200_000},
        "idle_mj": 0,
        "grams": 98.1,
        "url": "https://lab.example",
    }

    def response(request: bytes) -> bytes:
        requests.append(json.loads(request))
        return json.dumps(figures).encode() + b"\n"

    with answering(tmp_path / "s", response):
        code, out, output, _ = epilog(**JOB, LABCARBON_SOCKET=str(tmp_path / "s"))
    assert (code, out) == (0, "")
    assert requests == [{"op": "job", "job": "hpc/981"}]
    assert output == (
        "labcarbon: 412 Wh (counter 100 %, modelled 0 %) · 98.1 g CO2e · idle 0 % · "
        f"https://lab.example/runs/{job_uuid('hpc', '981')}/\n"
    )


def test_hanging_daemon_does_not_delay_the_job(tmp_path: Path) -> None:
    with hanging(tmp_path / "s"):
        code, _, output, took_s = epilog(**JOB, LABCARBON_SOCKET=str(tmp_path / "s"))
    assert code == 0
    assert took_s < 15, "two seconds plus a slow start of Python"
    assert MAX_RUNTIME_S < 2
    assert not output or "not measured on this node" in output, (
        "a stopped process may end before it prints"
    )


def test_hanging_daemon_is_reported(tmp_path: Path) -> None:
    with hanging(tmp_path / "s"):
        assert "was not measured on this node" in job_summary(
            {**JOB, "LABCARBON_SOCKET": str(tmp_path / "s")}
        )


@pytest.mark.parametrize(
    "response",
    [b"", b"\xff\n", b"[]\n", b"{}\n", b'{"energy_mj": "x"}\n', b'{"error": {"message": "no"}}\n'],
)
def test_any_response_ends_with_exit_code_zero(tmp_path: Path, response: bytes) -> None:
    with answering(tmp_path / "s", lambda request: response):
        code, _, output, _ = epilog(**JOB, LABCARBON_SOCKET=str(tmp_path / "s"))
    assert code == 0
    assert output.startswith("labcarbon: ")
    assert "Traceback" not in output


def test_missing_daemon_or_job_is_reported(tmp_path: Path) -> None:
    nowhere = {"LABCARBON_SOCKET": str(tmp_path / "none")}
    assert "no daemon answers" in job_summary({**JOB, **nowhere})
    assert "no Slurm job" in job_summary(
        {**nowhere, "SLURM_JOB_ID": "x; rm", "SLURM_CLUSTER_NAME": "hpc"}
    )
    assert epilog(**nowhere)[0] == 0


def test_a_task_of_srun_is_silent() -> None:
    code, out, output, _ = epilog(**JOB, SLURM_SCRIPT_CONTEXT="epilog_task", SLURM_STEP_ID="0")
    assert (code, out, output) == (0, "", "")


@pytest.fixture
def jobs(tmp_path: Path) -> JobRegistry:
    machine = Machine()
    consumers = FakeConsumers(machine, {7: "job:hpc/981"})
    return JobRegistry(
        node_monitor(tmp_path, machine, consumers=consumers), now=machine.now, config=lambda: None
    )


def test_a_jobs_figures_are_for_its_user_and_root(jobs: JobRegistry) -> None:
    jobs.update()
    assert jobs.job_figures(uid=1000, job="hpc/981")["ok"]
    assert jobs.job_figures(uid=0, job="hpc/981")["ok"]
    for uid, job in (
        (1001, "hpc/981"),
        (1000, "hpc/982"),
        (0, "hpc/982"),
        (1000, None),
        (1000, {"a": 1}),
    ):
        with pytest.raises(RequestError):
            jobs.job_figures(uid=uid, job=job)


def test_job_of_a_run_is_the_one_of_the_kernel(jobs: JobRegistry) -> None:
    claimed = {"scheduler": "slurm", "cluster": "hpc", "id": "5", "account": "rich"}
    assert jobs.with_job({"name": "x", "job": claimed}, "") == {"name": "x"}
    with_job = jobs.with_job({"name": "x", "job": claimed}, "job:hpc/981")
    assert with_job["job"] == {"scheduler": "slurm", "cluster": "hpc", "id": "981"}
    own = {**claimed, "id": "981"}
    assert jobs.with_job({"job": own}, "job:hpc/981")["job"]["account"] == "rich"
