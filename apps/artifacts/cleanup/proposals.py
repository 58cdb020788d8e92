"""Proposals for cleanup plans: copies on a node that are due by their retention class, with their
costs.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Q

from apps.accounts.models import AuditEntry, Lab, Project
from apps.artifacts.choices import (
    INPUTS,
    MODELS,
    ArtifactState,
    AuditAction,
    CopyState,
    LineageRole,
)
from apps.artifacts.cleanup.freed_space import without_other_names
from apps.artifacts.cleanup.other_copies import load_other_copies
from apps.artifacts.cleanup.retention import (
    DEFAULT_DAYS,
    PROTECTED_CLASSES,
    REVIEWED_CLASSES,
    ArtifactFacts,
    ProducingRun,
    RetentionClass,
    RunOutput,
    classify,
    classify_run_outputs,
    due_us,
    winning_runs,
)
from apps.artifacts.costs import (
    RetrainingCost,
    YearlyCost,
    node_rates,
    retraining_costs,
    yearly_storage_cost,
)
from apps.artifacts.holds import effective_holds
from apps.artifacts.models import Artifact, Copy, LineageEdge, Pin, RetentionPeriod
from apps.artifacts.selectors import ancestor_ids
from apps.fleet.models import Node
from apps.runs.models import Run

T = TypeVar("T")
_BEST = re.compile(r"(?<![a-z])best(?![a-z])")
_BATCH_SIZE = 500
_BEST_STATES = (ArtifactState.CANDIDATE, ArtifactState.PROMOTED)


@dataclass(frozen=True)
class Proposal:
    """A copy that can be deleted. ``storage_cost``: cost of a year of storage. ``retraining_cost``:
    None if not measured.

    ``is_ticked``: selected by default.
    """

    copy: Copy
    retention_class: RetentionClass
    due_us: int
    is_last_copy: bool
    storage_cost: YearlyCost
    retraining_cost: RetrainingCost | None

    @property
    def is_ticked(self) -> bool:
        return self.retention_class not in REVIEWED_CLASSES


def own_periods(lab: Lab, project: Project | None) -> dict[RetentionClass, int | None]:
    """Return the retention periods set for a project, or for the lab. Classes without one are left
    out.
    """
    rows = RetentionPeriod.objects.filter(lab=lab, project=project).values_list(
        "retention_class", "days"
    )
    return {RetentionClass(name): days for name, days in rows}


def effective_periods(lab: Lab, project: Project | None) -> dict[RetentionClass, int | None]:
    """Return the retention period of each class: the project's, else the lab's, else the
    default.
    """
    periods: dict[RetentionClass, int | None] = dict(DEFAULT_DAYS)
    rows = (
        RetentionPeriod.objects.filter(Q(project=None) | Q(project=project), lab=lab)
        if project
        else (RetentionPeriod.objects.filter(lab=lab, project=None))
    )
    for row in sorted(rows, key=lambda row: row.project_id is not None):
        periods[RetentionClass(row.retention_class)] = row.days
    return periods


def propose_copies(
    lab: Lab, node: Node, *, project: Project | None = None, now: int
) -> list[Proposal]:
    """Return the copies on a node (of a project) that are due, the largest first."""
    due = [dated for dated in _with_due_dates(lab, node, project, now) if dated[2] <= now]
    return _with_costs(lab, node, due, now)


def next_due_us(lab: Lab, node: Node, *, project: Project | None = None, now: int) -> int | None:
    """Return when the next copy on a node (of a project) is due, µs UTC; None if there is none."""
    return min(
        (at_us for _, _, at_us in _with_due_dates(lab, node, project, now) if at_us > now),
        default=None,
    )


def _with_due_dates(
    lab: Lab, node: Node, project: Project | None, now: int
) -> list[tuple[Copy, RetentionClass, int]]:
    """Return the copies on a node that become due, with class and due time, µs UTC."""
    copies = Copy.objects.filter(lab=lab, node=node, state=CopyState.PRESENT).select_related(
        "artifact__project", "node"
    )
    if project is not None:
        copies = copies.filter(artifact__project=project)
    copies = without_other_names(copies)
    copy_list = list(copies.order_by("pk"))
    classes = retention_classes(lab, {copy.artifact_id: copy.artifact for copy in copy_list}, now)
    archived_us = _archived_times_us(lab) if RetentionClass.ARCHIVED in classes.values() else {}
    periods_by_project: dict[int | None, Mapping[RetentionClass, int | None]] = {}
    dated = []
    for copy in copy_list:
        project_of_copy = copy.artifact.project
        periods = periods_by_project.get(copy.artifact.project_id) or effective_periods(
            lab, project_of_copy
        )
        periods_by_project[copy.artifact.project_id] = periods
        written_us = copy.first_observed_us if copy.modified_us is None else copy.modified_us
        last_us = max(written_us, copy.restarted_us, archived_us.get(copy.artifact.digest, 0))
        at_us = due_us(classes[copy.artifact_id], periods, last_us)
        if at_us is not None:
            dated.append((copy, classes[copy.artifact_id], at_us))
    return dated


def _archived_times_us(lab: Lab) -> dict[str, int]:
    """Return when artifacts were archived last, µs UTC, by digest."""
    entries = AuditEntry.objects.filter(lab=lab, action=AuditAction.ARCHIVED).order_by("sequence")
    return dict(entries.values_list("subject", "at_us"))


def retention_classes(
    lab: Lab, artifacts: Mapping[int, Artifact], now: int
) -> dict[int, RetentionClass]:
    """Return the retention class of each artifact (by primary key) at ``now``. Queries are in
    batches of hundreds.
    """
    return _classes(lab, artifacts, effective_holds(lab, artifacts, now), protected_ids(lab))


@dataclass(frozen=True)
class ProtectedIds:
    """Primary keys of pinned artifacts of a lab, and of all ancestors of pinned or promoted
    artifacts.
    """

    pinned: set[int]
    ancestors: set[int]


def protected_ids(lab: Lab) -> ProtectedIds:
    """Return the protected artifacts of a lab."""
    pinned = set(
        Pin.objects.filter(artifact__lab=lab, ended_us=None).values_list("artifact_id", flat=True)
    )
    promoted = set(
        Artifact.objects.filter(lab=lab, state=ArtifactState.PROMOTED).values_list("pk", flat=True)
    )
    return ProtectedIds(pinned, ancestor_ids(pinned | promoted))


def protection_reasons(
    lab: Lab, artifacts: Mapping[int, Artifact], now: int, protected: ProtectedIds | None = None
) -> dict[int, str]:
    """Return why artifacts are protected from cleanup, by primary key. Unprotected ones are left
    out.

    ``guarded``: the protected artifacts of the lab, if loaded already.
    """
    holds = effective_holds(lab, artifacts, now)
    classes = _classes(lab, artifacts, holds, protected or protected_ids(lab))
    archived = _archived_without_period(
        lab,
        [
            artifacts[pk]
            for pk, retention_class in classes.items()
            if retention_class == RetentionClass.ARCHIVED
        ],
    )
    return {
        pk: holds[pk].description
        if retention_class == RetentionClass.ON_HOLD
        else str(retention_class.label)
        for pk, retention_class in classes.items()
        if retention_class in PROTECTED_CLASSES or pk in archived
    }


def _archived_without_period(lab: Lab, archived: Sequence[Artifact]) -> set[int]:
    """Return the archived artifacts without a retention period: they are protected."""
    if not archived:
        return set()
    rows = RetentionPeriod.objects.filter(
        lab=lab, retention_class=RetentionClass.ARCHIVED
    ).values_list("project_id", "days")
    periods: dict[int | None, int | None] = dict(rows)
    lab_period = periods.get(None, DEFAULT_DAYS[RetentionClass.ARCHIVED])
    return {
        artifact.pk for artifact in archived if periods.get(artifact.project_id, lab_period) is None
    }


def _classes(
    lab: Lab, artifacts: Mapping[int, Artifact], on_hold: Collection[int], protected: ProtectedIds
) -> dict[int, RetentionClass]:
    classes_by_run, referenced = _classes_by_run(lab, artifacts), _referenced(artifacts)
    return {
        pk: classify(
            ArtifactFacts(
                artifact.kind,
                artifact.state,
                pk in protected.pinned,
                pk in protected.ancestors,
                pk in referenced,
                pk in on_hold,
            ),
            classes_by_run.get(pk, ()),
        )
        for pk, artifact in artifacts.items()
    }


def _classes_by_run(lab: Lab, artifacts: Mapping[int, Artifact]) -> dict[int, list[RetentionClass]]:
    """Return the class of each artifact by each run that produced it, judged with all outputs of
    that run.
    """
    runs: set[int] = set()
    for batch in _batches(artifacts):
        runs.update(
            LineageEdge.objects.filter(artifact__in=batch, role=LineageRole.PRODUCED).values_list(
                "run_id", flat=True
            )
        )
    edges: list[tuple[int, Artifact]] = []
    for batch in _batches(runs):
        rows = (
            LineageEdge.objects.filter(run__in=batch, role=LineageRole.PRODUCED)
            .select_related("artifact")
            .order_by("pk")
        )
        edges.extend((row.run_id, row.artifact) for row in rows)
    runs_by_pk = _producing_runs(lab, runs)
    outputs_by_run: dict[int, list[RunOutput]] = defaultdict(list)
    for run, artifact in edges:
        if artifact.kind in MODELS:
            outputs_by_run[run].append(_run_output(artifact))
    classes: dict[int, list[RetentionClass]] = defaultdict(list)
    for run, outputs in outputs_by_run.items():
        for pk, retention_class in classify_run_outputs(outputs, runs_by_pk[run]).items():
            classes[pk].append(retention_class)
    return classes


def _run_output(artifact: Artifact) -> RunOutput:
    progress = next(
        (
            artifact.facts.get(name)
            for name in ("step", "global_step", "epoch")
            if name in artifact.facts
        ),
        None,
    )
    step = (
        float(progress)
        if isinstance(progress, (int, float)) and not isinstance(progress, bool)
        else -1.0
    )
    best = (
        artifact.state in _BEST_STATES
        or artifact.facts.get("best") is True
        or bool(_BEST.search(artifact.name.lower()))
    )
    return RunOutput(artifact.pk, (step, artifact.registered_us), best)


def _producing_runs(lab: Lab, runs: Iterable[int]) -> dict[int, ProducingRun]:
    rows: list[tuple[int, str, str]] = []
    for batch in _batches(runs):
        rows += Run.objects.filter(lab=lab, pk__in=batch).values_list("pk", "state", "sweep")
    winners = _winning_runs(lab, {sweep for _, _, sweep in rows if sweep})
    return {pk: ProducingRun(state, sweep, winners.get(pk)) for pk, state, sweep in rows}


def _winning_runs(lab: Lab, sweeps: set[str]) -> dict[int, bool]:
    """Return which runs of sweeps won, for sweeps with a marked best.

    All runs of a sweep are read: the winner may have no output on this node.
    """
    rows: list[tuple[int, str, int | None]] = []
    for batch in _batches(sweeps):
        rows += Run.objects.filter(lab=lab, sweep__in=batch).values_list(
            "pk", "sweep", "project_id"
        )
    best_runs: set[int] = set()
    for run_ids in _batches(pk for pk, _, _ in rows):
        outputs = LineageEdge.objects.filter(
            run__in=run_ids, role=LineageRole.PRODUCED, artifact__state__in=_BEST_STATES
        )
        best_runs.update(outputs.values_list("run_id", flat=True))
    return winning_runs((pk, f"{project}/{sweep}", pk in best_runs) for pk, sweep, project in rows)


def _referenced(artifacts: Iterable[int]) -> set[int]:
    """Return the artifacts that were inputs of runs other than their own."""
    referenced: set[int] = set()
    for batch in _batches(artifacts):
        edges = LineageEdge.objects.filter(artifact__in=batch).values_list(
            "artifact_id", "run_id", "role"
        )
        edge_rows = list(edges)
        produced = {
            (artifact, run) for artifact, run, role in edge_rows if role == LineageRole.PRODUCED
        }
        referenced.update(
            artifact
            for artifact, run, role in edge_rows
            if role in INPUTS and (artifact, run) not in produced
        )
    return referenced


def _with_costs(
    lab: Lab, node: Node, due: Sequence[tuple[Copy, RetentionClass, int]], now: int
) -> list[Proposal]:
    artifacts = {copy.artifact_id for copy, _, _ in due}
    rates, retraining = node_rates(lab, node, now), retraining_costs(lab, artifacts)
    last_copies = load_other_copies(artifacts).select_last(copy for copy, _, _ in due)
    candidates = [
        Proposal(
            copy,
            retention_class,
            at_us,
            copy.pk in last_copies,
            yearly_storage_cost(copy, rates),
            retraining.get(copy.artifact_id),
        )
        for copy, retention_class, at_us in due
    ]
    return sorted(
        candidates, key=lambda proposal: (-proposal.copy.artifact.bytes, proposal.copy.pk)
    )


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield values in batches."""
    listed = list(values)
    yield from (listed[start : start + _BATCH_SIZE] for start in range(0, len(listed), _BATCH_SIZE))
