"""The artifacts that a run made or read."""

from dataclasses import dataclass

from apps.artifacts.choices import Role
from apps.artifacts.models import Artifact, LineageEdge
from apps.dashboard.formatting import size
from apps.runs.models import Run

MOST = 20


@dataclass(frozen=True)
class RunArtifact:
    """An artifact of a run: what it was to it, and how that is known ('' where the run told)."""

    artifact: Artifact
    role: str
    known: str
    size: str


@dataclass(frozen=True)
class RunArtifacts:
    """The latest MOST of ``number``, what it made first."""

    rows: list[RunArtifact]
    number: int


def run_artifacts(run: Run) -> RunArtifacts:
    """Return what a run made and read. At most three queries."""
    edges = LineageEdge.objects.filter(run=run).select_related("artifact").order_by("-artifact__registered_us", "-pk")
    listed = list(edges.filter(role=Role.PRODUCED)[:MOST])
    listed += edges.exclude(role=Role.PRODUCED)[: MOST - len(listed)] if len(listed) < MOST else []
    number = edges.count() if len(listed) == MOST else len(listed)
    return RunArtifacts([_shown(edge) for edge in listed], number)


def _shown(edge: LineageEdge) -> RunArtifact:
    known = "" if edge.way == "told" else edge.get_way_display()
    return RunArtifact(edge.artifact, edge.get_role_display(), known, size(edge.artifact.bytes))
