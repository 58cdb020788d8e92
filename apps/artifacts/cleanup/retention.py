"""What is kept for how long: each artifact has a class by what its run made of it, each class its days. Pure.

Nothing here deletes: what is due is proposed in a plan, which people review. Pinned, promoted, held, what promoted things
came of, what other runs began from, and datasets are never proposed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import TextChoices

from apps.artifacts.choices import ArtifactState, Kind
from apps.core.units import US_PER_HOUR
from apps.runs.choices import RunState

DAY_US = 24 * US_PER_HOUR
KEPT_WHILE_RUNNING = 2


class Retention(TextChoices):
    """The class of an artifact, the longest kept first."""

    PINNED = "pinned", "pinned"
    PROMOTED = "promoted", "promoted"
    HELD = "held", "held"
    ANCESTOR = "ancestor", "something promoted or pinned came of it"
    DATASET = "dataset", "a dataset"
    REFERENCED = "referenced", "another run began from it or read it"
    UNKNOWN = "unknown", "no run is known that made it"
    RUNNING = "running", "its run goes on"
    ARCHIVED = "archived", "archived"
    FINAL = "final", "the last or best of a finished run"
    CRASHED = "crashed", "the last of a run that did not finish"
    INTERMEDIATE = "intermediate", "an intermediate state of a run"
    SWEEP = "sweep", "of a sweep that another run won"


NEVER = frozenset({Retention.PINNED, Retention.PROMOTED, Retention.HELD, Retention.ANCESTOR, Retention.DATASET,
                   Retention.REFERENCED, Retention.UNKNOWN, Retention.RUNNING})  # fmt: skip
# Days after it was last written or first found, of what is ARCHIVED also after that; None: never proposed, unless a lab or
# project sets days. What is REVIEWED is listed, and nobody ticks it but a person.
DEFAULT_DAYS: Mapping[Retention, int | None] = {
    Retention.ARCHIVED: None, Retention.FINAL: 180, Retention.CRASHED: 30, Retention.INTERMEDIATE: 14, Retention.SWEEP: 7,
}  # fmt: skip
REVIEWED = frozenset({Retention.ARCHIVED, Retention.FINAL})
_STRONGEST = {kept: place for place, kept in enumerate(Retention)}
_OVER_BADLY = frozenset({RunState.FAILED, RunState.KILLED, RunState.LOST})


@dataclass(frozen=True)
class Made:
    """One artifact of a run. ``order``: step or epoch where it is known, then when it was written."""

    artifact: int
    order: tuple[float, int]
    is_best: bool


@dataclass(frozen=True)
class Origin:
    """A run that made artifacts. ``sweep``: its name, '' for none; ``won``: whether its sweep's best is of this run, None:
    nobody said which run won."""

    state: str
    sweep: str = ""
    won: bool | None = None


@dataclass(frozen=True)
class Known:
    """What else is known of an artifact."""

    kind: str
    state: str
    is_pinned: bool = False
    is_ancestor: bool = False
    is_referenced: bool = False
    is_held: bool = False


def classes_of_run(made: Sequence[Made], origin: Origin) -> dict[int, Retention]:
    """Return what a run made of each of its artifacts."""
    if origin.sweep and origin.won is False and origin.state != RunState.RUNNING:
        return {each.artifact: Retention.SWEEP for each in made}
    ordered = sorted(made, key=lambda each: (each.order, each.artifact))
    kept_last = KEPT_WHILE_RUNNING if origin.state == RunState.RUNNING else 1
    last = {each.artifact for each in ordered[-kept_last:]}
    end = {RunState.RUNNING: Retention.RUNNING, RunState.FINISHED: Retention.FINAL}.get(
        RunState(origin.state), Retention.CRASHED
    )
    best = Retention.RUNNING if origin.state == RunState.RUNNING else Retention.FINAL
    return {
        each.artifact: best if each.is_best else end if each.artifact in last else Retention.INTERMEDIATE for each in ordered
    }


def retention(known: Known, made_as: Collection[Retention]) -> Retention:
    """Return the class of an artifact: of all that holds, what keeps it longest. ``made_as``: of each run that made it."""
    holds = set(made_as) or {Retention.UNKNOWN}
    if known.is_pinned:
        holds.add(Retention.PINNED)
    if known.state == ArtifactState.PROMOTED:
        holds.add(Retention.PROMOTED)
    if known.state == ArtifactState.ARCHIVED:
        holds.add(Retention.ARCHIVED)
    if known.is_held:
        holds.add(Retention.HELD)
    if known.is_ancestor:
        holds.add(Retention.ANCESTOR)
    if known.kind == Kind.DATASET:
        holds.add(Retention.DATASET)
    if known.is_referenced:
        holds.add(Retention.REFERENCED)
    return min(holds, key=_STRONGEST.__getitem__)


def due_us(kept: Retention, days: Mapping[Retention, int | None], last_us: int) -> int | None:
    """Return when an artifact of a class may be proposed, µs UTC; None: never. ``last_us``: from when its days count."""
    if kept in NEVER:
        return None
    told = days.get(kept, DEFAULT_DAYS[kept])
    return None if told is None else last_us + told * DAY_US


def won_sweeps(runs: Iterable[tuple[int, str, bool]]) -> dict[int, bool]:
    """Return for each run of a sweep in which somebody named a best whether it is of this run.

    ``runs``: (run, sweep, whether one of its artifacts is a candidate or promoted).
    """
    listed = list(runs)
    decided = {sweep for _, sweep, named in listed if sweep and named}
    return {run: named for run, sweep, named in listed if sweep in decided}
