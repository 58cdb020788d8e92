"""Queries of artifacts: lists, lookup by digest, ancestors and descendants."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q, QuerySet

from apps.accounts.models import Lab
from apps.accounts.selectors import require_project
from apps.artifacts.choices import INPUTS, CopyState, LineageRole
from apps.artifacts.models import Alias, Artifact, Copy, LineageEdge
from apps.core.errors import InvalidInput
from apps.core.sql import fetch_rows
from apps.core.text import is_unstorable
from apps.runs.models import Run

MAX_LINEAGE = 2000
_MEAN_EDGES = 10  # of a run or artifact in a lineage, on average, at most
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class ArtifactFilter:
    """Filters of a list; '' matches everything. ``project``: a slug, '~none' for none."""

    text: str = ""
    kind: str = ""
    state: str = ""
    format: str = ""
    project: str = ""
    copies: str = ""  # a state of copies, or 'twice': more than one present copy
    run: str = ""
    pinned: bool = False


def filter_artifacts(lab: Lab, filters: ArtifactFilter = ArtifactFilter()) -> QuerySet[Artifact]:
    """Return the matching artifacts of the lab, the latest first. Raises InvalidInput for an
    unknown project or run.
    """
    artifacts = (
        Artifact.objects.filter(lab=lab)
        .select_related("project", "owner")
        .order_by("-registered_us", "-pk")
    )
    exact = {"kind": filters.kind, "state": filters.state, "format": filters.format}
    artifacts = artifacts.filter(**{name: value for name, value in exact.items() if value})
    if filters.project and filters.project != "~none":
        require_project(lab, filters.project)
    if filters.run and not lab.runs.filter(uuid=filters.run).exists():
        raise InvalidInput(
            "There is no such run in this lab.", field="run", hint="Use the UUID of its page."
        )
    if filters.project:
        artifacts = (
            artifacts.filter(project=None)
            if filters.project == "~none"
            else artifacts.filter(project__slug=filters.project)
        )
    if filters.text and not is_unstorable(filters.text):
        artifacts = artifacts.filter(text_condition(lab, filters.text.strip()))
    if filters.copies == "twice":
        present = Copy.objects.filter(lab=lab, state=CopyState.PRESENT)
        artifacts = artifacts.filter(pk__in=_with_several_copies(present))
    elif filters.copies:
        artifacts = artifacts.filter(
            pk__in=Copy.objects.filter(lab=lab, state=filters.copies).values("artifact")
        )
    if filters.run:
        artifacts = artifacts.filter(
            pk__in=LineageEdge.objects.filter(lab=lab, run__uuid=filters.run).values("artifact")
        )
    if filters.pinned:
        artifacts = artifacts.filter(pins__ended_us=None, pins__isnull=False)
    return artifacts


def text_condition(lab: Lab, text: str) -> Q:
    """Match part of a copy's path, and a digest of any kind (SHA-256 from eight digits on) or else
    part of name or licence.
    """
    by_path = Q(
        pk__in=Copy.objects.filter(lab=lab, path__icontains=text).values("artifact")
    )  # no join: an artifact can have several copies
    digest = text.lower()
    if len(digest) >= 8 and set(digest) <= _HEX:
        alias = Alias.objects.filter(value=digest).values("artifact")
        return (
            by_path | Q(digest__startswith=digest) | Q(payload__startswith=digest) | Q(pk__in=alias)
        )
    return by_path | Q(name__icontains=text) | Q(licence__icontains=text)


def _with_several_copies(copies: QuerySet[Copy]) -> QuerySet[Any, Any]:
    return (
        copies.values("artifact").annotate(many=Count("pk")).filter(many__gt=1).values("artifact")
    )


def artifact_by_digest(lab: Lab, digest: str) -> Artifact | None:
    """Return the lab's artifact with a SHA-256, or with a payload or alias digest if it is unique;
    else None.
    """
    digest = digest.lower()
    if not digest or set(digest) - _HEX or len(digest) > 64:
        return None
    artifacts = Artifact.objects.filter(lab=lab).select_related("lab", "project", "owner")
    exact = artifacts.filter(digest=digest).first()
    if exact is not None:
        return exact
    matches = list(
        artifacts.filter(Q(payload=digest) | Q(aliases__value=digest)).distinct().order_by("pk")[:2]
    )
    return matches[0] if len(matches) == 1 else None


@dataclass
class Lineage:
    """Ancestors and descendants of an artifact. ``producing_runs``: the runs that led to it, by
    primary key.
    """

    artifacts: dict[int, Artifact] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    edges: list[LineageEdge] = field(default_factory=list)
    producing_runs: set[int] = field(default_factory=set)
    is_cut: bool = False


def load_lineage(artifact: Artifact, *, limit: int = MAX_LINEAGE) -> Lineage:
    """Return the ancestors and descendants of an artifact, the nearest first.

    At most ``limit`` runs and artifacts. Eight queries, whatever the depth.
    """
    result = Lineage()
    numbers, edges = [artifact.pk], dict[int, LineageEdge]()
    for up in (True, False):
        reachable = _reachable([artifact.pk], up=up, limit=limit + 1)
        near, far = _roles(up)
        inner = _load_edges(limit, artifact__in=reachable, role__in=near)
        runs = {edge.run_id for edge in inner}
        outer = _load_edges(
            limit, run__in=runs, role__in=far
        )  # within the reachable artifacts, unless cut
        result.is_cut |= (
            max(len(reachable), len(runs)) > limit
            or max(len(inner), len(outer)) >= limit * _MEAN_EDGES
        )
        result.producing_runs |= runs if up else set()
        numbers += reachable
        edges |= {edge.pk: edge for edge in (*inner, *outer)}
    _load_nodes(result, numbers, edges.values(), limit)
    return result


def _roles(up: bool) -> tuple[Sequence[str], Sequence[str]]:
    """Return the roles of edges to adjacent runs, and of edges from these runs to the next
    artifacts.
    """
    produced = [LineageRole.PRODUCED]
    return (produced, INPUTS) if up else (INPUTS, produced)


def _load_edges(limit: int, **filters: Any) -> list[LineageEdge]:
    return list(LineageEdge.objects.filter(**filters).order_by("pk")[: limit * _MEAN_EDGES])


def _load_nodes(
    result: Lineage, numbers: Sequence[int], edges: Iterable[LineageEdge], limit: int
) -> None:
    """Load the first ``limit`` artifacts and runs into ``result``, with the edges between them."""
    artifact_ids = list(dict.fromkeys(numbers))
    run_ids = list(dict.fromkeys(edge.run_id for edge in edges))
    result.is_cut |= len(artifact_ids) + len(run_ids) > limit
    artifact_ids = artifact_ids[: max(limit - len(run_ids), limit // 2)]
    run_ids = run_ids[: limit - len(artifact_ids)]
    artifacts = (
        Artifact.objects.filter(pk__in=artifact_ids)
        .select_related("project", "owner")
        .defer("facts", "tags", "note")
    )
    runs = Run.objects.filter(pk__in=run_ids).select_related("charged_project")
    runs = runs.only("lab", "uuid", "name", "state", "started_us", "charged_project")
    result.artifacts = {row.pk: row for row in artifacts}
    result.runs = {row.pk: row for row in runs}
    result.edges = [
        edge
        for edge in edges
        if edge.run_id in result.runs and edge.artifact_id in result.artifacts
    ]
    result.producing_runs &= set(result.runs)


def _reachable(artifacts: Sequence[int], *, up: bool, limit: int) -> list[int]:
    """Return the artifacts themselves and all ancestors (``up``) or descendants, the nearest first.

    At most ``limit`` primary keys. One recursive query.
    """
    near, far = _roles(up)
    rows = fetch_rows(
        "WITH RECURSIVE reached(id) AS (SELECT id FROM artifacts_artifact WHERE id IN "
        f"({_placeholders(artifacts)}) UNION "
        "SELECT beyond.artifact_id FROM reached JOIN artifacts_lineageedge here ON "
        "here.artifact_id = reached.id AND "
        f"here.role IN ({_placeholders(near)}) JOIN artifacts_lineageedge beyond ON beyond.run_id "
        "= here.run_id AND "
        f"beyond.role IN ({_placeholders(far)})) SELECT id FROM reached LIMIT %s",
        [*artifacts, *near, *far, limit],
    )
    return [row["id"] for row in rows]


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join(["%s"] * len(values))


def ancestor_ids(artifacts: Iterable[int]) -> set[int]:
    """Return the primary keys of all ancestors of artifacts, without the artifacts themselves."""
    ancestors: set[int] = set()
    wave = set(artifacts)
    start = set(wave)
    while wave:
        runs = LineageEdge.objects.filter(artifact__in=wave, role=LineageRole.PRODUCED).values(
            "run"
        )
        inputs = LineageEdge.objects.filter(run__in=runs, role__in=INPUTS).values_list(
            "artifact_id", flat=True
        )
        wave = set(inputs) - ancestors - start
        ancestors |= wave
    return ancestors
