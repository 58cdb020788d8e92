"""Reads of artifacts: lists, one, what it came of and what came of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.artifacts.choices import INPUTS, ArtifactState, CopyState, Role
from apps.artifacts.models import Artifact, Copy, LineageEdge
from apps.core.text import unstorable
from apps.runs.models import Run

MOST_LINEAGE = 2000
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
    if wanted.text and not unstorable(wanted.text):
        found = found.filter(_named(wanted.text.strip()))
    if wanted.copies == "twice":
        present = Copy.objects.filter(lab=lab, state=CopyState.PRESENT)
        found = found.filter(pk__in=_several(present))
    elif wanted.copies:
        found = found.filter(pk__in=Copy.objects.filter(lab=lab, state=wanted.copies).values("artifact"))
    if wanted.run:
        found = found.filter(run_edges__run__uuid=wanted.run).distinct()
    if wanted.pinned:
        found = found.filter(pins__ended_us=None, pins__isnull=False)
    return found


def _named(text: str) -> Q:
    """Match a digest of any kind from its first eight digits on, else words in name, licence, tags of the facts."""
    digest = text.lower()
    if len(digest) >= 8 and set(digest) <= _HEX:
        return Q(digest__startswith=digest) | Q(payload__startswith=digest) | Q(aliases__value=digest)
    return Q(name__icontains=text) | Q(licence__icontains=text)


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


@dataclass(frozen=True)
class Held:
    """How much a lab keeps: ``bytes`` counts each content once, ``copy_bytes`` every copy that is there."""

    artifacts: int
    bytes: int
    copies: int
    copy_bytes: int


def held(lab: Lab) -> Held:
    """Return how much a lab keeps."""
    copies = Copy.objects.filter(lab=lab, state=CopyState.PRESENT)
    each = Artifact.objects.filter(lab=lab, pk__in=copies.values("artifact"))
    return Held(
        Artifact.objects.filter(lab=lab).exclude(state=ArtifactState.TOMBSTONE).count(),
        each.aggregate(sum=Sum("bytes"))["sum"] or 0,
        copies.count(),
        copies.aggregate(sum=Sum("artifact__bytes"))["sum"] or 0,
    )


@dataclass
class Lineage:
    """What an artifact came of and what came of it. ``edges``: of runs and artifacts, by number."""

    artifacts: dict[int, Artifact] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    edges: list[LineageEdge] = field(default_factory=list)
    is_cut: bool = False


def lineage(artifact: Artifact, *, most: int = MOST_LINEAGE) -> Lineage:
    """Return the ancestors and descendants of an artifact, up to ``most`` runs and artifacts: two queries a generation."""
    found = Lineage(artifacts={artifact.pk: artifact})
    seen: set[int] = set()
    for up in (True, False):
        wave = {artifact.pk}
        while wave and not found.is_cut:
            wave = _generation(found, wave, seen, up=up, most=most)
    return found


def _generation(found: Lineage, wave: Iterable[int], seen: set[int], *, up: bool, most: int) -> set[int]:
    """Add the runs next to artifacts, up the runs that made them, and the artifacts behind; return these."""
    near, far = ([Role.PRODUCED], INPUTS) if up else (INPUTS, [Role.PRODUCED])
    edges = _new_edges(found, LineageEdge.objects.filter(artifact__in=wave, role__in=near), seen)
    runs = {edge.run_id for edge in edges}
    beyond = _new_edges(found, LineageEdge.objects.filter(run__in=runs, role__in=far), seen)
    next_wave = {edge.artifact_id for edge in beyond} - set(found.artifacts)
    for edge in (*edges, *beyond):
        found.runs[edge.run_id] = edge.run
        found.artifacts.setdefault(edge.artifact_id, edge.artifact)
    if len(found.runs) + len(found.artifacts) > most:
        found.is_cut = True
    return next_wave


def _new_edges(found: Lineage, edges: QuerySet[LineageEdge], seen: set[int]) -> list[LineageEdge]:
    rows = edges.select_related("run__project", "run__charged_project", "artifact__project").order_by("pk")
    fresh = [edge for edge in rows[: MOST_LINEAGE + 1] if edge.pk not in seen]
    seen.update(edge.pk for edge in fresh)
    found.edges.extend(fresh)
    return fresh


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
