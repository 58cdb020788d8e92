"""An MLflow server in this process: the polled part of its REST API 2.0, and every way to fail.

The shapes are those of MLflow 3; the same requests to a real server are in the tests of trackers.
"""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

API = "/api/2.0/mlflow"
PROXY = "/api/2.0/mlflow-artifacts/artifacts/"


@dataclass
class FakeRun:
    """A stored MLflow run. ``metrics``: name → (ms, step, value)."""

    run_id: str
    experiment_id: str = "1"
    name: str = "kind-ant-7"
    status: str = "RUNNING"
    start_ms: int = 0
    end_ms: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, list[tuple[int, int, Any]]] = field(default_factory=dict)
    datasets: list[tuple[str, str, str]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    logged_models: list[str] = field(default_factory=list)  # ids of logged models
    read: list[str] = field(default_factory=list)
    root: str = ""

    def to_json(self) -> dict[str, Any]:
        info = {
            "run_id": self.run_id,
            "run_uuid": self.run_id,
            "run_name": self.name,
            "experiment_id": self.experiment_id,
            "status": self.status,
            "start_time": self.start_ms,
            "lifecycle_stage": "active",
            "user_id": "",
            **({"end_time": self.end_ms} if self.end_ms else {}),
        }
        latest = {name: max(points) for name, points in self.metrics.items() if points}
        return {
            "info": info,
            "data": {
                "metrics": [
                    {"key": k, "value": v, "timestamp": t, "step": s}
                    for k, (t, s, v) in latest.items()
                ],
                "params": [{"key": k, "value": v} for k, v in self.params.items()],
                "tags": [{"key": k, "value": v} for k, v in self.tags.items()],
            },
            "inputs": {
                "dataset_inputs": [
                    {
                        "dataset": {"name": name, "digest": digest},
                        "tags": [{"key": "mlflow.data.context", "value": role}],
                    }
                    for role, name, digest in self.datasets
                ],
                "model_inputs": [{"model_id": model} for model in self.read],
            },
            "outputs": {
                "model_outputs": [
                    {"model_id": model, "step": str(step)}
                    for step, model in enumerate(self.logged_models)
                ]
            },
        }


@dataclass
class FakeMlflow:
    """``faults``: path → replacement of the response: (status, headers, body), or a method name of
    ``_Door``.
    """

    experiments: dict[str, str] = field(default_factory=lambda: {"1": "vision"})
    runs: dict[str, FakeRun] = field(default_factory=dict)
    models: dict[str, dict[str, bytes]] = field(default_factory=dict)  # logged ones: path → content
    password: str = ""
    version: str = "3.4.0"
    page: int = 1000
    faults: dict[str, Any] = field(default_factory=dict)
    requested_paths: list[str] = field(default_factory=list)
    received_headers: list[dict[str, str]] = field(default_factory=list)
    address: str = ""

    def add(self, run_id: str, **facts: Any) -> FakeRun:
        self.runs[run_id] = FakeRun(run_id, **facts)
        return self.runs[run_id]

    def respond(self, path: str, body: dict[str, Any], query: dict[str, str]) -> Any:
        if path == "/experiments/search":
            return {
                "experiments": [
                    {"experiment_id": i, "name": name} for i, name in self.experiments.items()
                ]
            }
        if path == "/runs/search":
            matches = [
                run.to_json()
                for run in sorted(self.runs.values(), key=lambda run: (run.start_ms, run.run_id))
                if run.experiment_id in body["experiment_ids"] and _fits(run, body["filter"])
            ]
            return self._paged(
                "runs",
                matches,
                body.get("page_token", ""),
                min(self.page, int(body["max_results"])),
            )
        if path == "/metrics/get-history":
            points = sorted(self.runs[query["run_id"]].metrics[query["metric_key"]])
            rows = [
                {"key": query["metric_key"], "value": v, "timestamp": t, "step": s}
                for t, s, v in points
            ]
            return self._paged(
                "metrics",
                rows,
                query.get("page_token", ""),
                min(self.page, int(query["max_results"])),
            )
        if path == "/runs/get":
            return {"run": self.runs[query["run_id"]].to_json()}
        if path == "/artifacts/list":
            run = self.runs[query["run_id"]]
            return {
                "root_uri": run.root or f"mlflow-artifacts:/1/{run.run_id}/artifacts",
                "files": _in_folder(run.files, query.get("path", "")),
            }
        if path.startswith("/logged-models/"):
            model = path.split("/")[2]
            files = _in_folder(self.models[model], query.get("artifact_directory_path", ""))
            return {"root_uri": f"mlflow-artifacts:/1/models/{model}/artifacts", "files": files}
        if path == "/runs/set-tag":
            self.runs[body["run_id"]].tags[body["key"]] = body["value"]
            return {}
        return None

    def content(self, path: str) -> bytes | None:
        """Return a downloadable file by its path below the proxy."""
        matches = re.fullmatch(
            r"1/(?:models/(?P<model>[^/]+)|(?P<run>[^/]+))/artifacts/(?P<path>.+)", path
        )
        if matches is None:
            return None
        files = (
            self.models.get(matches["model"], {})
            if matches["model"]
            else self.runs[matches["run"]].files
        )
        return files.get(matches["path"])

    def _paged(self, name: str, rows: list[Any], token: str, size: int) -> dict[str, Any]:
        start = int(token or 0)
        more = {"next_page_token": str(start + size)} if start + size < len(rows) else {}
        return {name: rows[start : start + size], **more}


def _in_folder(files: dict[str, bytes], folder: str) -> list[dict[str, Any]]:
    """Return MLflow's listing of a folder: 64-bit numbers as text, folders without a size."""
    below = f"{folder}/" if folder else ""
    rows: dict[str, dict[str, Any]] = {}
    for path, content in files.items():
        if path.startswith(below):
            name, _, more = path[len(below) :].partition("/")
            row = {"path": below + name, "is_dir": bool(more)}
            rows[name] = row if more else {**row, "file_size": str(len(content))}
    return list(rows.values())


def _fits(run: FakeRun, condition: str) -> bool:
    name, _, remainder = condition.partition(" ")
    if name == "attributes.start_time":
        return run.start_ms >= int(remainder.removeprefix(">= "))
    assert name == "attributes.run_id", condition
    return f"'{run.run_id}'" in remainder


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeMlflow

    def do_GET(self) -> None:
        self._read_body({})

    def do_POST(self) -> None:
        self._read_body(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _read_body(self, body: dict[str, Any]) -> None:
        address = urlsplit(self.path)
        path = (
            address.path.removeprefix(API) if address.path.startswith(f"{API}/") else address.path
        )
        self.fake.requested_paths.append(path)
        self.fake.received_headers.append(dict(self.headers))
        wrong = self.fake.faults.get(path, self.fake.faults.get("*"))
        if isinstance(wrong, str):
            getattr(self, wrong)()
        elif wrong is not None:
            self._send(*wrong)
        elif self.fake.password and self.headers.get("Authorization") != self.fake.password:
            self._send(401, {}, b"You are not authenticated.")
        elif path.startswith(PROXY):
            content = self.fake.content(unquote(path.removeprefix(PROXY)))
            self._send(404 if content is None else 200, {}, b"{}" if content is None else content)
        elif path == "/version":
            self._send(200, {"Content-Type": "text/plain"}, self.fake.version.encode())
        else:
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            matches = self.fake.respond(path, body, query)
            missing = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Not found"}
            self._send(
                200 if matches is not None else 404,
                {},
                json.dumps(missing if matches is None else matches).encode(),
            )

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def half(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"runs": [')
        self.close_connection = True

    def drips(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            self.close_connection = True

    def huge(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            for _ in range(64):
                self.wfile.write(b" " * (1 << 20))
        except OSError:
            pass
        self.close_connection = True

    def huge_pages(self) -> None:
        """Send too much while more than ten runs are requested at a time."""
        self.fake.page = min(self.fake.page, 10)
        del self.fake.faults["/runs/search"]
        self.huge()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def fake_mlflow() -> Iterator[FakeMlflow]:
    """Run a fake server on loopback."""
    fake = FakeMlflow()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Door", (_Door,), {"fake": fake}))
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
