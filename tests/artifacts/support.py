"""Builders of artifacts and runs, with the payloads of clients."""

import hashlib
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import msgspec

from apps.accounts.models import User
from apps.artifacts.models import Artifact
from apps.artifacts.parsing import ArtifactRow, parse_artifacts
from apps.artifacts.services.register import RowResult, register
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.runs.metric_parsing import Point
from apps.runs.models import Run
from apps.runs.services.fingerprints import put_fingerprint
from apps.runs.services.metrics import add_points
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import T0, SmallLab
from tests.runs.fingerprints import hex64
from tests.runs.fingerprints import parsed as fingerprint


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def row(content: str, **more: Any) -> dict[str, Any]:
    """Return the payload of one artifact. The content is the default name."""
    return {"digest": digest(content), "name": content, "bytes": len(content), **more}


def parsed(*rows: dict[str, Any]) -> list[ArtifactRow | str]:
    return parse_artifacts(msgspec.json.encode({"artifacts": rows}))[1]


def register_rows(
    lab: SmallLab, *rows: dict[str, Any], now: int | None = None, by: User | None = None
) -> list[RowResult]:
    """Register artifacts on the lab's node."""
    return register(
        lab=lab.lab,
        rows=parsed(*rows),
        node_uuid=lab.node.uuid,
        by=by,
        bound_node=None,
        now=now or now_us(),
    )


def register_artifact(lab: SmallLab, name: str, **more: Any) -> Artifact:
    """Register one artifact and return it."""
    answers = register_rows(lab, row(name, **more))
    assert answers[0][0] != "refused", answers
    return Artifact.objects.get(lab=lab.lab, digest=digest(name))


def create_run(lab: SmallLab, name: str = "train.py", **more: Any) -> Run:
    facts = RunFacts(name=name, started_us=T0, project="demo", **more)
    run, _ = put_run(
        lab=lab.lab, uuid=uuid4(), facts=facts, by=lab.owner, bound_node=None, now=now_us()
    )
    return run


def edge(run: Run | UUID | str, role: str = "produced") -> dict[str, str]:
    return {"run": str(run.uuid if isinstance(run, Run) else run), "role": role}


def trained_model(
    lab: SmallLab,
    name: str,
    *,
    data: str = "",
    metrics: Mapping[str, float] | None = None,
    **more: Any,
) -> Artifact:
    """Return a stored model with its own run.

    The run read ``data`` and has the last values ``metrics``. ``more``: facts of the artifact.
    """
    run = create_run(lab)
    if data:
        put_fingerprint(run=run, payload=data_fingerprint(data))
    for metric, value in (metrics or {}).items():
        add_points(
            lab=lab.lab,
            uuid=run.uuid,
            points={metric: [Point(1, T0, value)]},
            bound_node=None,
            now=None,
        )
    usual = {
        "kind": "model",
        "copies": [{"path": f"/m/{name}", "medium": "hdd"}],
        "runs": [edge(run)],
    }
    return register_artifact(lab, name, **{**usual, **more})


def data_fingerprint(name: str, **more: Any) -> Any:
    """Return the fingerprint of a run on data with this name and content."""
    items = [{"role": "data", "name": name, "files": 1, "bytes": 1, "state": "verified"}]
    return fingerprint(data={"verified": hex64(name), "items": items}, **more)


def run_jobs() -> None:
    """Run all queued jobs, due or not."""
    Job.objects.update(due_us=0)
    run_until_idle(worker="test")


def at_paths(*paths: str, medium: str = "hdd") -> list[dict[str, str]]:
    return [{"path": path, "medium": medium} for path in paths]
