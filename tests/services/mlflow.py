"""Unmodified MLflow server and client in their own virtual environment, which `make test`
creates.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.services.process import answers, end_with_parent, free_port, wait_until

PYTHON = Path(sys.prefix) / "mlflow" / "bin" / "python"
ROOT = Path(__file__).resolve().parents[2]
_END_S = 15.0


def missing() -> str:
    """Return what is missing and how to install it; '' if nothing is."""
    return "" if PYTHON.exists() else "MLflow is not installed (make test installs it)"


@dataclass
class Server:
    """A server of one test on loopback, with its database and artifacts in a private folder."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """POST to ``/api/2.0/mlflow/<path>`` and return the response."""
        return self._call("POST", path, json.dumps(body).encode())

    def runs(self, experiment: str = "0") -> list[dict[str, Any]]:
        """Return the runs of an experiment, oldest first, with tags and parameters as dicts."""
        query = {
            "experiment_ids": [experiment],
            "order_by": ["attributes.start_time ASC"],
            "max_results": 1000,
        }
        runs = self.post("runs/search", **query).get("runs", [])
        return [_plain(run) for run in runs]

    def _call(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                method, f"/api/2.0/mlflow/{path}", body, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        assert response.status == 200, content
        body_json: dict[str, Any] = json.loads(content)
        return body_json


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Start a server in ``folder``, wait for its first response, and end it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(folder, free_port())
    command = [
        str(PYTHON),
        "-m",
        "mlflow",
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(server.port),
        "--workers",
        "1",
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination",
        str(folder / "artifacts"),
    ]
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            end_with_parent(command),
            env=environ(folder, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"),
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: process.poll() is not None or answers(f"{server.url}/health"),
            what="MLflow's first answer",
            seconds=180,
            every=0.2,
        )
        assert process.poll() is None, server.log
        yield server
    finally:
        _end(process)


def environ(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a client or server: its own home, no collector by default, and
    network access to loopback only.
    """
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    blocked = {
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "no_proxy": "127.0.0.1,localhost",
    }
    quiet = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    nobody = {
        "LABCARBON_DATA": str(home / "collector"),
        "LABCARBON_SOCKET": str(home / "collect.sock"),
    }
    return {**inherited, **blocked, **quiet, **nobody, "HOME": str(home), **more}


def collector_wheel(folder: Path) -> Path:
    """Install the collector as a wheel below ``folder``, with the metadata by which MLflow finds
    it. Returns the path for PYTHONPATH.
    """
    source, target = folder / "source", folder / "installed"
    ignored = shutil.ignore_patterns("*.egg-info", "build", "__pycache__")
    shutil.copytree(ROOT / "collector", source, ignore=ignored)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
            "--target",
            str(target),
            str(source),
        ],
        check=True,
        capture_output=True,
    )
    return target


def _plain(run: dict[str, Any]) -> dict[str, Any]:
    data = run.get("data", {})
    named = {
        part: {entry["key"]: entry["value"] for entry in data.get(part, [])}
        for part in ("tags", "params", "metrics")
    }
    return {**run["info"], **named}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and its workers, which are one process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_END_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
