"""Artifacts, holds and lineages as JSON of the API."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Sum

from apps.artifacts.holds import holds_on_artifact
from apps.artifacts.models import Artifact, Hold, LineageEdge
from apps.artifacts.selectors import Lineage
from apps.core.clock import utc
from apps.core.units import US_PER_HOUR
from apps.runs.models import Run


def artifact_row(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact as in lists."""
    return {
        "digest": artifact.digest,
        "name": artifact.name,
        "form": artifact.form,
        "bytes": artifact.bytes,
        "files": artifact.files,
        "kind": artifact.kind,
        "format": artifact.format,
        "state": artifact.state,
        "project": artifact.project.slug if artifact.project else None,
        "owner": artifact.owner.username if artifact.owner else None,
        "licence": artifact.licence,
        "registered_at": utc(artifact.registered_us).isoformat(),
    }


def artifact_rows(
    numbers: Sequence[int], metric: str, values: Mapping[int, float]
) -> list[dict[str, Any]]:
    """Return artifacts in the order of ``numbers``, with the value of ``metric`` if one is named.

    One query by primary key: sorting only keys is much faster than sorting whole rows.
    """
    by_pk = (
        Artifact.objects.select_related("project", "owner")
        .defer("facts", "tags", "note")
        .in_bulk(numbers)
    )
    rows = []
    for number in (number for number in numbers if number in by_pk):
        metric_fields = {"metric": {"name": metric, "value": values.get(number)}} if metric else {}
        rows.append({**artifact_row(by_pk[number]), **metric_fields})
    return rows


def artifact_detail(artifact: Artifact, now: int) -> dict[str, Any]:
    """Return an artifact with its copies, runs, pin and holds at ``now``."""
    copies = (
        artifact.copies.select_related("node")
        .annotate(shared=Sum("shared_bytes__bytes"))
        .order_by("path", "pk")
    )
    edges = artifact.run_edges.select_related("run").order_by("pk")
    pin = artifact.pins.filter(ended_us=None).first()
    return {
        **artifact_row(artifact),
        "payload": artifact.payload or None,
        "tags": artifact.tags,
        "facts": artifact.facts,
        "note": artifact.note,
        "aliases": dict(artifact.aliases.values_list("algorithm", "value")),
        "pin": pin.reason if pin else None,
        "holds": [hold_row(hold) for hold in holds_on_artifact(artifact, now)],
        "copies": [
            {
                "node": str(copy.node.uuid) if copy.node else None,
                "path": copy.path,
                "medium": copy.medium,
                "state": copy.state,
                "own_bytes": artifact.bytes if copy.own_bytes is None else copy.own_bytes,
                "shared_bytes": int(copy.shared or 0),
                "seen_at": utc(copy.last_observed_us).isoformat(),
            }
            for copy in copies
        ],
        "runs": [
            {
                "run": str(edge.run.uuid),
                "name": edge.run.name,
                "role": edge.role,
                "way": edge.source,
            }
            for edge in edges
        ],
    }


def hold_row(hold: Hold) -> dict[str, Any]:
    """Return what a hold is placed on, its reason and its end (None: until lifted)."""
    on = "artifact" if hold.artifact_id else "project" if hold.project_id else "run"
    until = None if hold.until_hour is None else utc(hold.until_hour * US_PER_HOUR).isoformat()
    return {
        "on": on,
        "reason": hold.reason,
        "until": until,
        "by": hold.by.username if hold.by else None,
    }


def lineage_response(lineage: Lineage) -> dict[str, Any]:
    """Return a lineage as nodes and edges: run → artifact if it was produced, artifact → run if it
    was read.
    """
    return {
        "artifacts": [artifact_row(row) for row in lineage.artifacts.values()],
        "runs": [_run(row) for row in lineage.runs.values()],
        "edges": [_edge(lineage, edge) for edge in lineage.edges],
        "is_cut": lineage.is_cut,
    }


def _run(run: Run) -> dict[str, Any]:
    project = run.charged_project
    return {
        "run": str(run.uuid),
        "name": run.name,
        "state": run.state,
        "project": project.slug if project else None,
    }


def _edge(lineage: Lineage, edge: LineageEdge) -> dict[str, str]:
    return {
        "run": str(lineage.runs[edge.run_id].uuid),
        "artifact": lineage.artifacts[edge.artifact_id].digest,
        "role": edge.role,
        "way": edge.source,
    }
