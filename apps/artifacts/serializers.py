"""Artifacts as the API tells them."""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.artifacts.holds import holds_of
from apps.artifacts.models import Artifact, Hold, LineageEdge
from apps.artifacts.selectors import Lineage
from apps.core.clock import utc
from apps.core.units import US_PER_HOUR
from apps.runs.models import Run


def artifact_row(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact as lists show it."""
    return {
        "digest": artifact.digest, "name": artifact.name, "form": artifact.form, "bytes": artifact.bytes,
        "files": artifact.files, "kind": artifact.kind, "format": artifact.format, "state": artifact.state,
        "project": artifact.project.slug if artifact.project else None,
        "owner": artifact.owner.username if artifact.owner else None, "licence": artifact.licence,
        "registered_at": utc(artifact.registered_us).isoformat(),
    }  # fmt: skip


def artifact_rows(numbers: Sequence[int], metric: str, values: Mapping[int, float]) -> list[dict[str, Any]]:
    """Return artifacts in the order of their numbers, with the value of the metric that was asked for, if one was. One
    query: to sort numbers is much quicker than to sort all that is known."""
    by_pk = Artifact.objects.select_related("project", "owner").defer("facts", "tags", "note").in_bulk(numbers)
    rows = []
    for number in (number for number in numbers if number in by_pk):
        told = {"metric": {"name": metric, "value": values.get(number)}} if metric else {}
        rows.append({**artifact_row(by_pk[number]), **told})
    return rows


def artifact_detail(artifact: Artifact, now: int) -> dict[str, Any]:
    """Return all that is known of an artifact at ``now``."""
    copies = artifact.copies.select_related("node").order_by("path", "pk")
    edges = artifact.run_edges.select_related("run").order_by("pk")
    pin = artifact.pins.filter(ended_us=None).first()
    return {
        **artifact_row(artifact), "payload": artifact.payload or None, "tags": artifact.tags, "facts": artifact.facts,
        "note": artifact.note, "aliases": dict(artifact.aliases.values_list("algorithm", "value")),
        "pin": pin.reason if pin else None, "holds": [hold_row(hold) for hold in holds_of(artifact, now)],
        "copies": [
            {"node": str(copy.node.uuid) if copy.node else None, "path": copy.path, "medium": copy.medium,
             "state": copy.state, "seen_at": utc(copy.seen_us).isoformat()} for copy in copies
        ],
        "runs": [{"run": str(edge.run.uuid), "name": edge.run.name, "role": edge.role, "way": edge.way} for edge in edges],
    }  # fmt: skip


def hold_row(hold: Hold) -> dict[str, Any]:
    """Return why something is held, and until when (None: until somebody lifts it)."""
    on = "artifact" if hold.artifact_id else "project" if hold.project_id else "run"
    until = None if hold.until_hour is None else utc(hold.until_hour * US_PER_HOUR).isoformat()
    return {"on": on, "reason": hold.reason, "until": until, "by": hold.by.username if hold.by else None}


def lineage_reply(found: Lineage) -> dict[str, Any]:
    """Return a lineage as nodes and edges: run → artifact where it was produced, artifact → run where it was read."""
    return {
        "artifacts": [artifact_row(each) for each in found.artifacts.values()],
        "runs": [_run(each) for each in found.runs.values()],
        "edges": [_edge(found, edge) for edge in found.edges],
        "is_cut": found.is_cut,
    }


def _run(run: Run) -> dict[str, Any]:
    project = run.charged_project
    return {"run": str(run.uuid), "name": run.name, "state": run.state, "project": project.slug if project else None}


def _edge(found: Lineage, edge: LineageEdge) -> dict[str, str]:
    return {
        "run": str(found.runs[edge.run_id].uuid), "artifact": found.artifacts[edge.artifact_id].digest, "role": edge.role,
        "way": edge.way,
    }  # fmt: skip
