"""Retention classes of artifacts, by the outputs of their runs, and their periods. Pure.

Nothing is deleted here: due copies are proposed in a plan, which people review. Pinned, promoted
and held artifacts, ancestors of pinned or promoted ones, inputs of other runs, and datasets are
never proposed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import TextChoices

from apps.artifacts.choices import ArtifactState, Kind
from apps.core.units import US_PER_HOUR
from apps.runs.choices import RunState

DAY_US = 24 * US_PER_HOUR
RETAINED_WHILE_RUNNING = 2


class RetentionClass(TextChoices):
    """The class of an artifact, the longest retention first."""

    PINNED = "pinned", "pinned"
    PROMOTED = "promoted", "promoted"
    ON_HOLD = "held", "held"
    ANCESTOR = "ancestor", "ancestor of a promoted or pinned artifact"
    DATASET = "dataset", "dataset"
    REFERENCED = "referenced", "input of another run"
    UNKNOWN = "unknown", "producing run unknown"
    RUNNING = "running", "its run is still running"
    ARCHIVED = "archived", "archived"
    FINAL = "final", "the last or best of a finished run"
    CRASHED = "crashed", "the last of a run that did not finish"
    INTERMEDIATE = "intermediate", "an intermediate state of a run"
    SWEEP = "sweep", "of a sweep that another run won"


PROTECTED_CLASSES = frozenset(
    {
        RetentionClass.PINNED,
        RetentionClass.PROMOTED,
        RetentionClass.ON_HOLD,
        RetentionClass.ANCESTOR,
        RetentionClass.DATASET,
        RetentionClass.REFERENCED,
        RetentionClass.UNKNOWN,
        RetentionClass.RUNNING,
    }
)
# Days since a copy was last written or first observed, or archived if that is later. None: never
# proposed, unless a lab or project sets a period. Reviewed classes are listed, but only a person
# selects them.
DEFAULT_DAYS: Mapping[RetentionClass, int | None] = {
    RetentionClass.ARCHIVED: None,
    RetentionClass.FINAL: 180,
    RetentionClass.CRASHED: 30,
    RetentionClass.INTERMEDIATE: 14,
    RetentionClass.SWEEP: 7,
}
REVIEWED_CLASSES = frozenset({RetentionClass.ARCHIVED, RetentionClass.FINAL})
_PRECEDENCE = {retention_class: rank for rank, retention_class in enumerate(RetentionClass)}
_FAILED_STATES = frozenset({RunState.FAILED, RunState.KILLED, RunState.LOST})


@dataclass(frozen=True)
class RunOutput:
    """One artifact of a run. ``order``: step or epoch if known, then the time of registration."""

    artifact: int
    order: tuple[float, int]
    is_best: bool


@dataclass(frozen=True)
class ProducingRun:
    """A run that produced artifacts. ``sweep``: its name, '' for none.

    ``is_winner``: whether the best of its sweep is an output of this run, None if no best is
    marked.
    """

    state: str
    sweep: str = ""
    is_winner: bool | None = None


@dataclass(frozen=True)
class ArtifactFacts:
    """The facts of an artifact that decide its class."""

    kind: str
    state: str
    is_pinned: bool = False
    is_ancestor: bool = False
    is_referenced: bool = False
    is_on_hold: bool = False


def classify_run_outputs(
    outputs: Sequence[RunOutput], run: ProducingRun
) -> dict[int, RetentionClass]:
    """Return the class of each output of a run."""
    if run.sweep and run.is_winner is False and run.state != RunState.RUNNING:
        return {output.artifact: RetentionClass.SWEEP for output in outputs}
    ordered = sorted(outputs, key=lambda output: (output.order, output.artifact))
    retained_count = RETAINED_WHILE_RUNNING if run.state == RunState.RUNNING else 1
    last = {output.artifact for output in ordered[-retained_count:]}
    last_class = {
        RunState.RUNNING: RetentionClass.RUNNING,
        RunState.FINISHED: RetentionClass.FINAL,
    }.get(RunState(run.state), RetentionClass.CRASHED)
    best_class = RetentionClass.RUNNING if run.state == RunState.RUNNING else RetentionClass.FINAL
    return {
        output.artifact: best_class
        if output.is_best
        else last_class
        if output.artifact in last
        else RetentionClass.INTERMEDIATE
        for output in ordered
    }


def classify(facts: ArtifactFacts, run_classes: Collection[RetentionClass]) -> RetentionClass:
    """Return the class of an artifact: the applicable class with the longest retention.

    ``run_classes``: of each run that produced it.
    """
    classes = set(run_classes) or {RetentionClass.UNKNOWN}
    if facts.is_pinned:
        classes.add(RetentionClass.PINNED)
    if facts.state == ArtifactState.PROMOTED:
        classes.add(RetentionClass.PROMOTED)
    if facts.state == ArtifactState.ARCHIVED:
        classes.add(RetentionClass.ARCHIVED)
    if facts.is_on_hold:
        classes.add(RetentionClass.ON_HOLD)
    if facts.is_ancestor:
        classes.add(RetentionClass.ANCESTOR)
    if facts.kind == Kind.DATASET:
        classes.add(RetentionClass.DATASET)
    if facts.is_referenced:
        classes.add(RetentionClass.REFERENCED)
    return min(classes, key=_PRECEDENCE.__getitem__)


def due_us(
    retention_class: RetentionClass, days: Mapping[RetentionClass, int | None], last_us: int
) -> int | None:
    """Return when an artifact of a class is due, µs UTC; None: never. ``last_us``: start of the
    period.
    """
    if retention_class in PROTECTED_CLASSES:
        return None
    period = days.get(retention_class, DEFAULT_DAYS[retention_class])
    return None if period is None else last_us + period * DAY_US


def winning_runs(runs: Iterable[tuple[int, str, bool]]) -> dict[int, bool]:
    """Return for each run of a sweep with a marked best whether the best is an output of this run.

    ``runs``: (run, sweep, whether one of its artifacts is a candidate or promoted).
    """
    run_list = list(runs)
    decided_sweeps = {sweep for _, sweep, has_best in run_list if sweep and has_best}
    return {run: has_best for run, sweep, has_best in run_list if sweep in decided_sweeps}
