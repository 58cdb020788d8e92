"""A repeat beside the run it repeats: parts, parameters, energy, carbon, who and when."""

from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.figures.energy import spans_of_runs
from apps.carbon.figures.visibility import Sight
from apps.dashboard.figures import Pair
from apps.dashboard.formatting import duration
from apps.dashboard.runs.duplicates import run_pair
from apps.preflight.choices import RepeatState
from apps.preflight.finding_selectors import Sides, sides_of
from apps.preflight.models import Repeat
from apps.preflight.presenters import who_of
from apps.preflight.similarity import Likeness, Seeds
from apps.runs.models import Run
from apps.runs.selectors import metrics_of

_WORDS = {
    Likeness.SAME: "same",
    Likeness.POSSIBLE: "same names, sizes and times",
    Likeness.DIFFERENT: "different",
    Likeness.UNKNOWN: "not known",
}
_SEEDS = {Seeds.SAME: "same", Seeds.UNSET: "unset in both", Seeds.OTHER: "different", Seeds.UNKNOWN: "not known"}
_CLASSES = {"same": "same", "different": "differs", "unset in both": "weak", "same names, sizes and times": "weak"}


@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    title: str
    run: Run
    who: str
    took: str
    figures: Pair | None
    metric: tuple[str, float] | None


@dataclass(frozen=True)
class PartRow:
    """One part of the two fingerprints: its short hashes, and whether they are the same."""

    name: str
    here: str
    there: str
    said: str
    mark: str


@dataclass(frozen=True)
class DifferenceRow:
    """One thing that differs."""

    part: str
    name: str
    here: str
    there: str


@dataclass(frozen=True)
class FindingPage:
    """A finding."""

    repeat: Repeat
    sides: list[Side]
    parts: list[PartRow]
    differs: list[DifferenceRow]
    same_params: int | None
    ignored: list[str]
    counted: list[str]
    project: str
    decided_by: str
    mine: bool
    states: list[tuple[str, str]]


def finding_page(*, lab: Lab, repeat: Repeat, now: int, sight: Sight) -> FindingPage:
    """Return a finding with both of its runs."""
    found = sides_of(repeat)
    spans = spans_of_runs(lab, [repeat.run.uuid, repeat.of.uuid])
    metrics = metrics_of([repeat.run_id, repeat.of_id])

    def side(title: str, run: Run) -> Side:
        took = duration((run.ended_us if run.ended_us is not None else now) - run.started_us)
        return Side(title, run, who_of(run, sight), took, run_pair(lab, run.uuid, spans), metrics.get(run.pk))

    return FindingPage(
        repeat=repeat,
        sides=[side("The repeat", repeat.run), side("The run before", repeat.of)],
        parts=_parts(found),
        differs=_differs(found),
        same_params=_same_params(found),
        ignored=sorted(found.ignored & set(found.here.params or {})),
        counted=sorted(found.works[0].params or {}),
        project=project.name if (project := repeat.run.charged_project or repeat.run.project) else "",
        decided_by=repeat.by.get_username() if repeat.by else "somebody who left",
        mine=sight.person_id is not None and sight.person_id in (repeat.run.user_id, repeat.of.user_id),
        states=[(state.value, str(state.label)) for state in RepeatState],
    )


def _short(text: str) -> str:
    return text[:12] if text else "not known"


def _parts(found: Sides) -> list[PartRow]:
    here, there, relation = found.here, found.there, found.relation
    normal = relation.normal if not relation.code.matches else Likeness.SAME
    params = Likeness.UNKNOWN if relation.changed is None else Likeness(3 if not relation.changed else 0)
    rows = [
        ("Code", here.code or here.code_weak, there.code or there.code_weak, _WORDS[relation.code]),
        ("Code but for comments and format", here.code_normal, there.code_normal, _WORDS[normal]),
        ("Parameters", here.recipe, there.recipe, _WORDS[params]),
        ("Data", here.data or here.data_weak, there.data or there.data_weak, _WORDS[relation.data]),
        ("Start", here.start or here.start_weak, there.start or there.start_weak, _WORDS[relation.start]),
        ("Seeds", _seeds(found.works[0].seeds), _seeds(found.works[1].seeds), _SEEDS[relation.seeds]),
    ]
    return [PartRow(name, _short(mine), _short(theirs), said, _CLASSES.get(said, "")) for name, mine, theirs, said in rows]


def _seeds(seeds: Any) -> str:
    if seeds is None:
        return ""
    return ", ".join(sorted(seeds)) or "unset"


def _same_params(found: Sides) -> int | None:
    mine, changed = found.works[0].params, found.relation.changed
    return None if mine is None or changed is None else len(set(mine) - changed)


def _differs(found: Sides) -> list[DifferenceRow]:
    return [
        DifferenceRow(
            each.part,
            each.name,
            _value(each.here, each.only, "there"),
            _value(each.there, each.only, "here"),
        )
        for each in found.differs
        if each.part not in ("code", "data", "start")  # told by the parts
    ]


def _value(value: Any, only: str, missing: str) -> str:
    """Return a value as shown: 'none' where that side has no such name, 'not told' where only its hash is known."""
    if only == missing:
        return "none"
    return "not told" if value is None else str(value)
