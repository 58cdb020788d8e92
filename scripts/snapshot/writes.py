"""Main writes of the API on the seeded lab by a person and by a collector, and reads of the
changed data.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from django.test import Client

from scripts.snapshot.api import Requests, note
from scripts.snapshot.lab import work
from scripts.snapshot.pages import as_in_address, rows

CONTRACT = Path(__file__).resolve().parents[2] / "tests" / "contract"
RUN, AGAIN, THIRD = (f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))
LAB = "made-up-neuroscience-lab"
CSV = (
    "name,kind,model,bought_on\nBench card,gpu,NVIDIA A100-SXM4-80GB,2024-03-01\nBench "
    "switch,network,,2023-05-01\n"
)
PARAMS = {"lr": "d4a2ae9a61ee3fccdead456c8123d571"}


def digest(text: str) -> str:
    """Return a hash that stands for ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()


FINGERPRINT: dict[str, Any] = {
    "version": "lc1",
    "entry": digest("entry"),
    "entry_name": "train.py",
    "params": PARAMS,
    "told": {"lr": 0.1},
    "dropped": ["output_dir"],
    "seeds": {"seed": "e89b44d3d6f30614af6b438cb7e9a6b3"},
    "environment": {"python": "3.11.7"},
    "code": {
        "state": "verified",
        "hash": digest("code"),
        "normal": digest("normal"),
        "commit": "a" * 40,
        "dirty": False,
    },
    "data": {
        "weak": digest("stat"),
        "verified": digest("content"),
        "items": [
            {"role": "data", "name": "cats", "files": 812, "bytes": 91_234_567, "state": "verified"}
        ],
    },
    "start": {"weak": digest("scratch"), "verified": digest("scratch"), "name": "scratch"},
    "hardware": {"gpus": "2 × NVIDIA A100"},
    "intent": "train",
    "sweep": "",
}
FACTS = {
    "name": "train.py",
    "started_at": "2026-11-18T08:00:00Z",
    "project": "vision",
    "fingerprint": FINGERPRINT,
}
OPENING = {
    "kind": "purchase",
    "at": "2026-03-01T00:00:00Z",
    "project": "vision",
    "site": "Machine room",
}
ASSET = {
    "name": "Card 9", "kind": "gpu", "model": "A100-SXM4-80GB", "serial": "SN9", "tag": "INV-9",
    "currency": "EUR", "price_ucurrency": 11_250_000_000, "in_use_since": "2026-03-01T00:00:00Z",
    "opening": OPENING,
}  # fmt: skip
JOB = {
    "cluster": "hpc", "id": "77", "account": "acct-speech", "partition": "gpu", "nodes": "gpu1",
    "state": "COMPLETED", "exit": "0:0", "reserved_gpus": 2, "consumed_energy_j": 99,
}  # fmt: skip
HISTORY = {
    "name": "train", "user": "ada", "started_at": "2026-11-17T08:00:00Z",
    "ended_at": "2026-11-17T09:00:00Z", "state": "finished", "exit_code": 0, "job": JOB,
}  # fmt: skip


class Caller:
    """Sends requests with one token, and notes the responses."""

    def __init__(self, requests: Requests, name: str, token: str) -> None:
        self._requests, self._name = requests, f"{LAB} as {name}"
        self._client = Client(
            headers={"Authorization": f"Bearer {token}"}, raise_request_exception=False
        )

    def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        return note(self._requests, self._name, self._client, method, f"/api/v1/{path}", body, kind)


def write_all(requests: Requests, tokens: dict[str, str]) -> None:
    """Do all writes, then read the changed data."""
    person, node = (
        Caller(requests, "person", tokens["person"]),
        Caller(requests, "node", tokens["node"]),
    )
    _collector(node)
    _runs(person)
    _artifacts(person)
    _plan(person)
    _assets(person)
    work()
    for path in (
        f"runs/{RUN}/",
        f"runs/{AGAIN}/",
        f"runs/{RUN}/metrics/?name=loss",
        "runs/?from=2026-11-17T00:00:00Z",
    ):
        person("GET", path)
    for metric in ("energy_mj", "emission_ug", "embodied_ug", "carbon_ug"):
        query = f"metric={metric}&from=2026-10-25T00:00Z&to=2026-11-20T10:00Z"
        person("GET", f"figures/?{query}")
        person("GET", f"figures/?{query}&group_by=project")
    Caller(requests, "nobody", "lc_user_wrong")("GET", "runs/")


def _recorded(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((CONTRACT / f"{name}.json").read_text(encoding="utf-8"))
    return content


def _server() -> str:
    """Return the node of the token."""
    (key,) = rows(
        "SELECT n.uuid FROM fleet_node n JOIN accounts_lab l ON l.id = n.lab_id "
        "WHERE l.slug = %s ORDER BY n.id LIMIT 1",
        LAB,
    )[0]
    return as_in_address(key)


def _collector(node: Caller) -> None:
    uuid = _server()
    node("GET", "config/")
    batch = {**_recorded("ingest_request"), "node": uuid}
    node("POST", "ingest/", batch)
    node("POST", "ingest/", {**batch, "batch": "77777777-0000-4000-8000-000000000002"})
    node("POST", "ingest/", {**batch, "schema": "9.0"})
    node("PUT", f"runs/{THIRD}/", {**_recorded("run_put"), "node": uuid})
    node("PATCH", f"runs/{THIRD}/", _recorded("run_patch"))
    work()


def _runs(person: Caller) -> None:
    more = {
        "intent": "ablation",
        "sweep": "sweep-7",
        "parent": AGAIN,
        "tags": {"team": "vision"},
        "external": {"tool": "mlflow", "value": "0123"},
    }
    person("PUT", f"runs/{RUN}/", {**FACTS, **more})
    person("PUT", f"runs/{RUN}/", {**FACTS, **more})
    points = [
        ["loss", 0, 2.5, "2026-11-18T08:00:01Z"],
        ["loss", 10, 1, None],
        ["acc", 0, "NaN", "2026-11-18T08:00:01Z"],
    ]
    person("POST", f"runs/{RUN}/metrics/", {"points": points})
    person("GET", f"runs/{RUN}/metrics/?name=loss&shape=csv")
    person(
        "PATCH",
        f"runs/{RUN}/",
        {"state": "finished", "ended_at": "2026-11-18T09:00:00Z", "exit_code": 0},
    )
    failure = {"class": "cuda_memory", "point": "ab" * 8, "text": "out of memory"}
    person("PUT", f"runs/{AGAIN}/", {**FACTS, "name": "again.py"})
    end = {
        "state": "failed",
        "ended_at": "2026-11-18T09:00:00Z",
        "exit_code": 1,
        "failure": failure,
    }
    person("PATCH", f"runs/{AGAIN}/", end)
    person("PATCH", f"runs/{AGAIN}/", {"state": "unheard_of"})
    person(
        "POST",
        "runs/bulk/",
        {"runs": [HISTORY, {**HISTORY, "state": "gone"}, {**HISTORY, "job": {**JOB, "id": "78"}}]},
    )
    work()
    for change in (
        {},
        {"seeds": {"seed": "0" * 32}},
        {"data": {"weak": digest("stat")}},
        {"entry": digest("other")},
    ):
        body = {
            "fingerprint": {**FINGERPRINT, **change},
            "project": "vision",
            "name": "train.py",
            "run": None,
        }
        response = person("POST", "preflight/", body)
        if isinstance(response, dict) and response.get("asked"):
            person("POST", f"preflight/{response['asked']}/outcome/", {"outcome": "stopped"})


def _artifacts(person: Caller) -> None:
    model = {
        "digest": digest("model"),
        "name": "written.safetensors",
        "bytes": 1_000_001,
        "kind": "model",
        "copies": [{"path": "/m/written", "medium": "ssd"}],
        "runs": [{"run": RUN, "role": "produced"}],
    }
    data = {
        "digest": digest("data"),
        "name": "written-data",
        "bytes": 5,
        "kind": "dataset",
        "runs": [{"run": RUN, "role": "used"}],
    }
    person(
        "POST",
        "artifacts/",
        {"node": _server(), "artifacts": [model, data, {**model, "digest": "xyz"}]},
    )
    person(
        "POST",
        "artifacts/copies/",
        {"node": _server(), "copies": [{"path": "/m/written", "state": "missing"}]},
    )
    for path in ("", "lineage/", "candidates/"):
        person("GET", f"artifacts/{model['digest']}/{path}")


def _plan(person: Caller) -> None:
    key, pk = rows(
        "SELECT p.uuid, p.id FROM artifacts_plan p JOIN accounts_lab l ON l.id = p.lab_id "
        "WHERE l.slug = %s AND p.state = 'approved' ORDER BY p.id LIMIT 1",
        LAB,
    )[0]
    path = f"artifacts/plans/{as_in_address(key)}/"
    lines = [
        row[0]
        for row in rows(
            "SELECT id FROM artifacts_planline WHERE plan_id = %s AND chosen ORDER BY id", pk
        )
    ]
    outcomes = [
        {"line": lines[0], "outcome": "trashed"},
        {"line": lines[1], "outcome": "refused", "word": "it changed"},
    ]
    person("POST", f"{path}outcomes/", {"lines": outcomes})
    person("POST", f"{path}outcomes/", {"lines": [{"line": lines[0], "outcome": "deleted"}]})
    person("GET", path)


def _assets(person: Caller) -> None:
    asset = person("POST", "assets/", ASSET)
    path = f"assets/{asset.get('id', 0)}/"
    person("PATCH", path, {"location": "Rack 7", "model": None})
    person(
        "POST",
        f"{path}events/",
        {"kind": "transfer", "at": "2026-06-01T00:00:00Z", "project": "speech", "note": "swap"},
    )
    disposed = {
        "kind": "dispose",
        "at": "2026-11-01T00:00:00Z",
        "counterpart": "Recycler",
        "evidence": "WEEE 1",
    }
    entry = person("POST", f"{path}events/", disposed)
    person("GET", path)
    person("POST", f"{path}events/{entry.get('id', 0)}/reverse/", {"note": "found again"})
    person("GET", f"{path}events/")
    read = person("POST", "assets/import/", CSV, "text/csv")
    person("POST", f"assets/import/{read.get('uuid', RUN)}/")
    person("POST", "assets/import/", "name,kind,bought_on\nbad,gpu,soon\n", "text/csv")
