"""Reads of artifacts: lists, one, what it came of and what came of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q, QuerySet

from apps.accounts.models import Lab
from apps.artifacts.choices import INPUTS, CopyState, Role
from apps.artifacts.models import Alias, Artifact, Copy, LineageEdge
from apps.core.sql import fetch_rows
from apps.core.text import is_unstorable
from apps.runs.models import Run

MOST_LINEAGE = 2000
_EDGES_EACH = 10  # that a run or artifact of a lineage has on average, at most
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Wanted:
    """What a list is narrowed to; '' anything. ``project``: a slug, '~none' for none."""

    text: str = ""
    kind: str = ""
    state: str = ""
    format: str = ""
    project: str = ""
    copies: str = ""  # a state of copies, or 'twice': with more than one that is there
    run: str = ""
    pinned: bool = False


def artifacts_of(lab: Lab, wanted: Wanted = Wanted()) -> QuerySet[Artifact]:
    """Return the lab's artifacts, the latest first."""
    found = Artifact.objects.filter(lab=lab).select_related("project", "owner").order_by("-registered_us", "-pk")
    exact = {"kind": wanted.kind, "state": wanted.state, "format": wanted.format}
    found = found.filter(**{name: value for name, value in exact.items() if value})
    if wanted.project:
        found = found.filter(project=None) if wanted.project == "~none" else found.filter(project__slug=wanted.project)
    if wanted.text and not is_unstorable(wanted.text):
        found = found.filter(named(lab, wanted.text.strip()))
    if wanted.copies == "twice":
        present = Copy.objects.filter(lab=lab, state=CopyState.PRESENT)
        found = found.filter(pk__in=_several(present))
    elif wanted.copies:
        found = found.filter(pk__in=Copy.objects.filter(lab=lab, state=wanted.copies).values("artifact"))
    if wanted.run:
        found = found.filter(pk__in=LineageEdge.objects.filter(lab=lab, run__uuid=wanted.run).values("artifact"))
    if wanted.pinned:
        found = found.filter(pins__ended_us=None, pins__isnull=False)
    return found


def named(lab: Lab, text: str) -> Q:
    """Match a part of the path of a copy, and a digest of any kind (SHA-256 from its first eight digits on), or else a part
    of name or licence."""
    lies = Q(pk__in=Copy.objects.filter(lab=lab, path__icontains=text).values("artifact"))  # no join: there may be several
    digest = text.lower()
    if len(digest) >= 8 and set(digest) <= _HEX:
        alias = Alias.objects.filter(value=digest).values("artifact")
        return lies | Q(digest__startswith=digest) | Q(payload__startswith=digest) | Q(pk__in=alias)
    return lies | Q(name__icontains=text) | Q(licence__icontains=text)


def _several(copies: QuerySet[Copy]) -> QuerySet[Any, Any]:
    return copies.values("artifact").annotate(many=Count("pk")).filter(many__gt=1).values("artifact")


def artifact_of(lab: Lab, digest: str) -> Artifact | None:
    """Return the lab's artifact with a SHA-256, or with a payload's or another digest where just one has it; else None."""
    digest = digest.lower()
    if not digest or set(digest) - _HEX or len(digest) > 64:
        return None
    found = Artifact.objects.filter(lab=lab).select_related("lab", "project", "owner")
    exact = found.filter(digest=digest).first()
    if exact is not None:
        return exact
    others = list(found.filter(Q(payload=digest) | Q(aliases__value=digest)).distinct().order_by("pk")[:2])
    return others[0] if len(others) == 1 else None


@dataclass
class Lineage:
    """What an artifact came of and what came of it. ``edges``: of runs and artifacts, by number. ``makers``: the runs that
    made it and all that it came of."""

    artifacts: dict[int, Artifact] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    edges: list[LineageEdge] = field(default_factory=list)
    makers: set[int] = field(default_factory=set)
    is_cut: bool = False


def lineage(artifact: Artifact, *, most: int = MOST_LINEAGE) -> Lineage:
    """Return the ancestors and descendants of an artifact, up to ``most`` runs and artifacts, the nearest first. Eight
    queries, however deep it goes."""
    found = Lineage()
    numbers, edges = [artifact.pk], dict[int, LineageEdge]()
    for up in (True, False):
        reached = _reached([artifact.pk], up=up, most=most + 1)
        near, far = _roles(up)
        close = _edges(most, artifact__in=reached, role__in=near)
        runs = {edge.run_id for edge in close}
        beyond = _edges(most, run__in=runs, role__in=far)  # to what was reached, or it was cut
        found.is_cut |= max(len(reached), len(runs)) > most or max(len(close), len(beyond)) >= most * _EDGES_EACH
        found.makers |= runs if up else set()
        numbers += reached
        edges |= {edge.pk: edge for edge in (*close, *beyond)}
    _load(found, numbers, edges.values(), most)
    return found


def _roles(up: bool) -> tuple[Sequence[str], Sequence[str]]:
    """Return what joins artifacts with the runs next to them, and these with the artifacts behind."""
    made = [Role.PRODUCED]
    return (made, INPUTS) if up else (INPUTS, made)


def _edges(most: int, **wanted: Any) -> list[LineageEdge]:
    return list(LineageEdge.objects.filter(**wanted).order_by("pk")[: most * _EDGES_EACH])


def _load(found: Lineage, numbers: Sequence[int], edges: Iterable[LineageEdge], most: int) -> None:
    """Put the first ``most`` artifacts and runs into ``found``, with the edges between them."""
    listed = list(dict.fromkeys(numbers))
    runs = list(dict.fromkeys(edge.run_id for edge in edges))
    found.is_cut |= len(listed) + len(runs) > most
    listed = listed[: max(most - len(runs), most // 2)]
    runs = runs[: most - len(listed)]
    kept_artifacts = Artifact.objects.filter(pk__in=listed).select_related("project", "owner").defer("facts", "tags", "note")
    kept_runs = Run.objects.filter(pk__in=runs).select_related("charged_project")
    kept_runs = kept_runs.only("lab", "uuid", "name", "state", "started_us", "charged_project")
    found.artifacts = {each.pk: each for each in kept_artifacts}
    found.runs = {each.pk: each for each in kept_runs}
    found.edges = [edge for edge in edges if edge.run_id in found.runs and edge.artifact_id in found.artifacts]
    found.makers &= set(found.runs)


def _reached(artifacts: Sequence[int], *, up: bool, most: int) -> list[int]:
    """Return the numbers of artifacts and all they came of (``up``), or all that came of them; the nearest first, at most
    ``most``. One query, however long the way."""
    near, far = _roles(up)
    found = fetch_rows(
        f"WITH RECURSIVE reached(id) AS (SELECT id FROM artifacts_artifact WHERE id IN ({_marks(artifacts)}) UNION "
        "SELECT beyond.artifact_id FROM reached JOIN artifacts_lineageedge here ON here.artifact_id = reached.id AND "
        f"here.role IN ({_marks(near)}) JOIN artifacts_lineageedge beyond ON beyond.run_id = here.run_id AND "
        f"beyond.role IN ({_marks(far)})) SELECT id FROM reached LIMIT %s",
        [*artifacts, *near, *far, most],
    )
    return [row["id"] for row in found]


def _marks(values: Sequence[object]) -> str:
    return ", ".join(["%s"] * len(values))


def ancestors_of(artifacts: Iterable[int]) -> set[int]:
    """Return the numbers of all artifacts that these came of, themselves left out."""
    found: set[int] = set()
    wave = set(artifacts)
    first = set(wave)
    while wave:
        runs = LineageEdge.objects.filter(artifact__in=wave, role=Role.PRODUCED).values("run")
        behind = LineageEdge.objects.filter(run__in=runs, role__in=INPUTS).values_list("artifact_id", flat=True)
        wave = set(behind) - found - first
        found |= wave
    return found
