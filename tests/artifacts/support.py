"""Building artifacts and runs, as clients tell of them."""

import hashlib
from typing import Any
from uuid import UUID, uuid4

import msgspec

from apps.accounts.models import User
from apps.artifacts.models import Artifact
from apps.artifacts.parsing import ArtifactRow, parse_artifacts
from apps.artifacts.services.registering import Answer, register
from apps.core.clock import now_us
from apps.runs.models import Run
from apps.runs.services import RunFacts, put_run
from tests.builders import T0, SmallLab


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def row(content: str, **more: Any) -> dict[str, Any]:
    """Return an artifact as a client tells it, by default called as its content."""
    return {"digest": digest(content), "name": content, "bytes": len(content), **more}


def parsed(*rows: dict[str, Any]) -> list[ArtifactRow | str]:
    return parse_artifacts(msgspec.json.encode({"artifacts": rows}))[1]


def told(lab: SmallLab, *rows: dict[str, Any], now: int | None = None, by: User | None = None) -> list[Answer]:
    """Tell of artifacts on the lab's node."""
    return register(lab=lab.lab, rows=parsed(*rows), node_uuid=lab.node.uuid, by=by, bound_node=None, now=now or now_us())


def artifact(lab: SmallLab, name: str, **more: Any) -> Artifact:
    """Tell of one artifact and return it."""
    answers = told(lab, row(name, **more))
    assert answers[0][0] != "refused", answers
    return Artifact.objects.get(lab=lab.lab, digest=digest(name))


def a_run(lab: SmallLab, name: str = "train.py", **more: Any) -> Run:
    facts = RunFacts(name=name, started_us=T0, project="demo", **more)
    run, _ = put_run(lab=lab.lab, uuid=uuid4(), facts=facts, by=lab.owner, bound_node=None, now=now_us())
    return run


def edge(run: Run | UUID | str, role: str = "produced") -> dict[str, str]:
    return {"run": str(run.uuid if isinstance(run, Run) else run), "role": role}
