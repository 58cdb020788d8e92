"""The artifacts that a run made or read."""

from dataclasses import dataclass

from apps.artifacts.choices import Role
from apps.artifacts.models import Artifact, LineageEdge
from apps.dashboard.calc import size
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
    """``number`` in all; the first MOST of them are in ``made`` and ``read``."""

    made: list[RunArtifact]
    read: list[RunArtifact]
    number: int


def run_artifacts(run: Run) -> RunArtifacts:
    """Return what a run made and read. Two queries."""
    edges = LineageEdge.objects.filter(run=run)
    listed = list(edges.select_related("artifact").order_by("-artifact__registered_us", "-pk")[:MOST])
    number = edges.count() if len(listed) == MOST else len(listed)
    shown = [(edge, _shown(edge)) for edge in listed]
    return RunArtifacts(
        made=[each for edge, each in shown if edge.role == Role.PRODUCED],
        read=[each for edge, each in shown if edge.role != Role.PRODUCED],
        number=number,
    )


def _shown(edge: LineageEdge) -> RunArtifact:
    known = "" if edge.way == "told" else edge.get_way_display()
    return RunArtifact(edge.artifact, edge.get_role_display(), known, size(edge.artifact.bytes))
