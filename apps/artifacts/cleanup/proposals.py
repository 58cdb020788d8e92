"""Which copies on a node may go: what is known of each artifact, put into its class, and what its going would save."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Q

from apps.accounts.models import AuditEntry, Lab, Project
from apps.artifacts.choices import INPUTS, MODELS, Act, ArtifactState, CopyState, Role
from apps.artifacts.cleanup.other_copies import elsewhere
from apps.artifacts.cleanup.retention import (
    DEFAULT_DAYS,
    NEVER,
    REVIEWED,
    Known,
    Made,
    Origin,
    Retention,
    classes_of_run,
    due_us,
    retention,
    won_sweeps,
)
from apps.artifacts.costs import Again, Year, making_again, rate_at, year_of
from apps.artifacts.holds import held_by
from apps.artifacts.models import Artifact, Copy, LineageEdge, Pin, RetentionDays
from apps.artifacts.selectors import ancestors_of
from apps.fleet.models import Node
from apps.runs.models import Run

T = TypeVar("T")
_BEST = re.compile(r"(?<![a-z])best(?![a-z])")
_AT_ONCE = 500
_NAMED = (ArtifactState.CANDIDATE, ArtifactState.PROMOTED)


@dataclass(frozen=True)
class Proposal:
    """A copy that may go. ``year``: what a year of keeping it takes; ``again``: what the run that made it took, None where
    nobody measured that; ``is_ticked``: whether it goes unless somebody says otherwise."""

    copy: Copy
    kept: Retention
    due_us: int
    is_last_copy: bool
    year: Year
    again: Again | None

    @property
    def is_ticked(self) -> bool:
        return self.kept not in REVIEWED


def own_days(lab: Lab, project: Project | None) -> dict[Retention, int | None]:
    """Return for how many days a project, or the lab, says that classes are kept; what it says nothing of is left out."""
    rows = RetentionDays.objects.filter(lab=lab, project=project).values_list("kept", "days")
    return {Retention(kept): days for kept, days in rows}


def days_of(lab: Lab, project: Project | None) -> dict[Retention, int | None]:
    """Return for how many days each class is kept: as the project says, else the lab, else what is usual."""
    found: dict[Retention, int | None] = dict(DEFAULT_DAYS)
    rows = (
        RetentionDays.objects.filter(Q(project=None) | Q(project=project), lab=lab)
        if project
        else (RetentionDays.objects.filter(lab=lab, project=None))
    )
    for row in sorted(rows, key=lambda row: row.project_id is not None):
        found[Retention(row.kept)] = row.days
    return found


def proposals(lab: Lab, node: Node, *, project: Project | None = None, now: int) -> list[Proposal]:
    """Return the copies on a node (of a project) that are due, the largest first."""
    due = [each for each in _dated(lab, node, project, now) if each[2] <= now]
    return _with_costs(lab, node, due, now)


def next_due_us(lab: Lab, node: Node, *, project: Project | None = None, now: int) -> int | None:
    """Return when the next copy on a node (of a project) is due, µs UTC; None where none ever is by itself."""
    return min((at_us for _, _, at_us in _dated(lab, node, project, now) if at_us > now), default=None)


def _dated(lab: Lab, node: Node, project: Project | None, now: int) -> list[tuple[Copy, Retention, int]]:
    """Return the copies on a node that may go some time, with their class and when they are due, µs UTC."""
    copies = Copy.objects.filter(lab=lab, node=node, state=CopyState.PRESENT).select_related("artifact__project", "node")
    if project is not None:
        copies = copies.filter(artifact__project=project)
    listed = list(copies.order_by("pk"))
    found = kept_as(lab, {copy.artifact_id: copy.artifact for copy in listed}, now)
    aside = _laid_aside_us(lab) if Retention.ARCHIVED in found.values() else {}
    days: dict[int | None, Mapping[Retention, int | None]] = {}
    dated = []
    for copy in listed:
        whose = copy.artifact.project
        told = days.get(copy.artifact.project_id) or days_of(lab, whose)
        days[copy.artifact.project_id] = told
        last_us = max(copy.modified_us or 0, copy.first_us, aside.get(copy.artifact.digest, 0))
        at_us = due_us(found[copy.artifact_id], told, last_us)
        if at_us is not None:
            dated.append((copy, found[copy.artifact_id], at_us))
    return dated


def _laid_aside_us(lab: Lab) -> dict[str, int]:
    """Return when artifacts were laid aside last, µs UTC, by digest. The log grows by what people do."""
    acts = AuditEntry.objects.filter(lab=lab, action=Act.LAID_ASIDE).order_by("sequence")
    return dict(acts.values_list("subject", "at_us"))


def kept_as(lab: Lab, artifacts: Mapping[int, Artifact], now: int) -> dict[int, Retention]:
    """Return the class of each artifact (by number) at ``now``. The number of queries grows with hundreds of artifacts
    only."""
    return _classes(lab, artifacts, held_by(lab, artifacts, now), guarded_in(lab))


@dataclass(frozen=True)
class Guarded:
    """The numbers of what is pinned in a lab, and of all that something pinned or promoted came of."""

    pinned: set[int]
    ancestors: set[int]


def guarded_in(lab: Lab) -> Guarded:
    """Return what guards artifacts of a lab."""
    pinned = set(Pin.objects.filter(artifact__lab=lab, ended_us=None).values_list("artifact_id", flat=True))
    promoted = set(Artifact.objects.filter(lab=lab, state=ArtifactState.PROMOTED).values_list("pk", flat=True))
    return Guarded(pinned, ancestors_of(pinned | promoted))


def why_kept(lab: Lab, artifacts: Mapping[int, Artifact], now: int, guarded: Guarded | None = None) -> dict[int, str]:
    """Return why each of ``artifacts`` is never proposed, by number; what may go is left out. ``guarded``: of the lab, where
    that was asked already."""
    held = held_by(lab, artifacts, now)
    found = _classes(lab, artifacts, held, guarded or guarded_in(lab))
    aside = _kept_aside(lab, [artifacts[pk] for pk, kept in found.items() if kept == Retention.ARCHIVED])
    return {
        pk: held[pk].words if kept == Retention.HELD else str(kept.label)
        for pk, kept in found.items() if kept in NEVER or pk in aside
    }  # fmt: skip


def _kept_aside(lab: Lab, aside: Sequence[Artifact]) -> set[int]:
    """Return those of artifacts that are laid aside for which no days are set: they stay."""
    if not aside:
        return set()
    rows = RetentionDays.objects.filter(lab=lab, kept=Retention.ARCHIVED).values_list("project_id", "days")
    told: dict[int | None, int | None] = dict(rows)
    usual = told.get(None, DEFAULT_DAYS[Retention.ARCHIVED])
    return {each.pk for each in aside if told.get(each.project_id, usual) is None}


def _classes(lab: Lab, artifacts: Mapping[int, Artifact], held: Collection[int], guarded: Guarded) -> dict[int, Retention]:
    made, referenced = _made_as(lab, artifacts), _referenced(artifacts)
    return {
        pk: retention(
            Known(each.kind, each.state, pk in guarded.pinned, pk in guarded.ancestors, pk in referenced, pk in held),
            made.get(pk, ()),
        )
        for pk, each in artifacts.items()
    }  # fmt: skip


def _made_as(lab: Lab, artifacts: Mapping[int, Artifact]) -> dict[int, list[Retention]]:
    """Return what each run that made an artifact made of it, by artifact. All that these runs made is looked at."""
    runs: set[int] = set()
    for part in _parts(artifacts):
        runs.update(LineageEdge.objects.filter(artifact__in=part, role=Role.PRODUCED).values_list("run_id", flat=True))
    edges: list[tuple[int, Artifact]] = []
    for part in _parts(runs):
        rows = LineageEdge.objects.filter(run__in=part, role=Role.PRODUCED).select_related("artifact").order_by("pk")
        edges.extend((row.run_id, row.artifact) for row in rows)
    origins = _origins(lab, runs)
    of_run: dict[int, list[Made]] = defaultdict(list)
    for run, each in edges:
        if each.kind in MODELS:
            of_run[run].append(_made(each))
    found: dict[int, list[Retention]] = defaultdict(list)
    for run, made in of_run.items():
        for pk, kept in classes_of_run(made, origins[run]).items():
            found[pk].append(kept)
    return found


def _made(artifact: Artifact) -> Made:
    told = next((artifact.facts.get(name) for name in ("step", "global_step", "epoch") if name in artifact.facts), None)
    step = float(told) if isinstance(told, (int, float)) and not isinstance(told, bool) else -1.0
    best = artifact.state in _NAMED or artifact.facts.get("best") is True or bool(_BEST.search(artifact.name.lower()))
    return Made(artifact.pk, (step, artifact.registered_us), best)


def _origins(lab: Lab, runs: Iterable[int]) -> dict[int, Origin]:
    rows: list[tuple[int, str, str]] = []
    for part in _parts(runs):
        rows += Run.objects.filter(lab=lab, pk__in=part).values_list("pk", "state", "sweep")
    won = _won(lab, {sweep for _, _, sweep in rows if sweep})
    return {pk: Origin(state, sweep, won.get(pk)) for pk, state, sweep in rows}


def _won(lab: Lab, sweeps: set[str]) -> dict[int, bool]:
    """Return which runs of sweeps won, where somebody named a best. All runs of a sweep are looked at: the one that won may
    have made nothing on this node."""
    rows: list[tuple[int, str, int | None]] = []
    for part in _parts(sweeps):
        rows += Run.objects.filter(lab=lab, sweep__in=part).values_list("pk", "sweep", "project_id")
    named: set[int] = set()
    for some in _parts(pk for pk, _, _ in rows):
        made = LineageEdge.objects.filter(run__in=some, role=Role.PRODUCED, artifact__state__in=_NAMED)
        named.update(made.values_list("run_id", flat=True))
    return won_sweeps((pk, f"{project}/{sweep}", pk in named) for pk, sweep, project in rows)


def _referenced(artifacts: Iterable[int]) -> set[int]:
    """Return the artifacts that a run began from or read which did not make them."""
    found: set[int] = set()
    for part in _parts(artifacts):
        edges = LineageEdge.objects.filter(artifact__in=part).values_list("artifact_id", "run_id", "role")
        listed = list(edges)
        made = {(artifact, run) for artifact, run, role in listed if role == Role.PRODUCED}
        found.update(artifact for artifact, run, role in listed if role in INPUTS and (artifact, run) not in made)
    return found


def _with_costs(lab: Lab, node: Node, due: Sequence[tuple[Copy, Retention, int]], now: int) -> list[Proposal]:
    artifacts = {copy.artifact_id for copy, _, _ in due}
    rate, again = rate_at(lab, node, now), making_again(lab, artifacts)
    last = elsewhere(artifacts).last_of(copy for copy, _, _ in due)
    found = [
        Proposal(copy, kept, at_us, copy.pk in last, year_of(copy, rate), again.get(copy.artifact_id))
        for copy, kept, at_us in due
    ]
    return sorted(found, key=lambda each: (-each.copy.artifact.bytes, each.copy.pk))


def _parts(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield some hundred values at a time."""
    listed = list(values)
    yield from (listed[start : start + _AT_ONCE] for start in range(0, len(listed), _AT_ONCE))
