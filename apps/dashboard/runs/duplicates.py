"""The inbox of repeats: findings with what they used, decided one by one or many at a time, and what was avoided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure, spans_of_runs
from apps.carbon.figures.query import MOST_RUNS, FigureQuery
from apps.carbon.figures.visibility import Sight
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.dashboard.figures import Pair, Units, column_units, pair, total
from apps.dashboard.formatting import duration
from apps.preflight.choices import KEPT, Certainty, RepeatState, Verdict
from apps.preflight.finding_selectors import AvoidedRow, Sides, avoided_of, counts, repeats_of, sides_of
from apps.preflight.models import Repeat
from apps.preflight.presenters import who_of
from apps.preflight.similarity import Likeness, Seeds
from apps.runs.models import Run
from apps.runs.selectors import metrics_of

PAGE_ROWS = MOST_RUNS  # so that the sum of what a page shows is one question
FILTERS = ("state", "verdict", "certainty", "project", "text")
Spans = Mapping[UUID, tuple[Figure, int, int]]


@dataclass(frozen=True)
class RepeatRow:
    """A finding in the list. ``figures``: what the repeat used; None where nothing of it was measured."""

    repeat: Repeat
    who: str
    of_who: str
    figures: Pair | None
    mine: bool


@dataclass(frozen=True)
class AvoidedLine:
    """A stop in the list, with what the run used that it rests on."""

    told: AvoidedRow
    who: str
    figures: Pair | None


@dataclass(frozen=True)
class DuplicatesPage:
    """A page of the inbox."""

    rows: list[RepeatRow]
    units: Units
    totals: Pair | None
    unmeasured: int
    filters: dict[str, str]
    counts: dict[str, int]
    states: list[tuple[str, str]]
    verdicts: list[tuple[str, str]]
    certainties: list[tuple[str, str]]
    projects: list[tuple[str, str]]
    confirmed: Pair | None
    confirmed_all: bool
    avoided: list[AvoidedLine]
    avoided_total: Pair | None
    avoided_units: Units
    older: str
    newer: str
    csv: str


def repeats_filtered(lab: Lab, params: Mapping[str, str]) -> tuple[QuerySet[Repeat], dict[str, str]]:
    """Return the findings that ``params`` ask for, and the filters as understood; open ones unless said otherwise."""
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    filters["state"] = filters["state"] or RepeatState.OPEN.value
    known = {
        "state": [*RepeatState.values, "all"],
        "verdict": sorted(verdict.value for verdict in KEPT),
        "certainty": Certainty.values,
    }
    for name, values in known.items():
        if filters[name] and filters[name] not in values:
            raise InvalidInput(f"{filters[name][:40]!r} is no {name}.", field=name, hint=f"Use one of {', '.join(values)}.")
    if is_unstorable("".join(filters.values())):
        raise InvalidInput("A filter holds a NUL.", field="text", hint="Leave it out.")
    asked = {**filters, "state": "" if filters["state"] == "all" else filters["state"]}
    return repeats_of(lab, **asked), filters


def run_pair(lab: Lab, uuid: UUID, spans: Spans, units: Units | None = None) -> Pair | None:
    """Return what a run used, None where nothing was measured."""
    return _pair(lab, "run", [uuid], spans, units)


def runs_pair(lab: Lab, uuids: Sequence[UUID], spans: Spans, units: Units | None = None) -> Pair | None:
    """Return what some runs used together, each once: one question that explains itself."""
    return _pair(lab, "runs", [uuid for uuid in dict.fromkeys(uuids) if uuid in spans], spans, units)


def _pair(lab: Lab, kind: str, uuids: Sequence[UUID], spans: Spans, units: Units | None) -> Pair | None:
    found = [spans[uuid] for uuid in uuids if uuid in spans]
    if not found:
        return None
    query = FigureQuery(
        metric="energy_mj",
        from_hour=min(start for _, start, _ in found),
        to_hour=max(end for _, _, end in found),
        subject_kind=kind,
        subject_key=",".join(str(uuid) for uuid in uuids),
        basis=lab.basis,
    )
    return pair(query, total(figure for figure, _, _ in found), units)


def repeat_rows(lab: Lab, repeats: Sequence[Repeat], sight: Sight) -> tuple[list[RepeatRow], Units, Spans]:
    """Return findings with what they used. Two queries, whatever their number."""
    spans = spans_of_runs(lab, [repeat.run.uuid for repeat in repeats])
    units = column_units(figure for figure, _, _ in spans.values())
    rows = [
        RepeatRow(
            repeat=repeat,
            who=who_of(repeat.run, sight),
            of_who=who_of(repeat.of, sight),
            figures=run_pair(lab, repeat.run.uuid, spans, units),
            mine=sight.person_id is not None and sight.person_id in (repeat.run.user_id, repeat.of.user_id),
        )
        for repeat in repeats
    ]
    return rows, units, spans


def duplicates_page(*, lab: Lab, params: Mapping[str, str], now: int, sight: Sight) -> DuplicatesPage:
    """Return a page of the inbox. The number of queries does not depend on the number of rows."""
    found, filters = repeats_filtered(lab, params)
    number = _page_number(params.get("page", "1"))
    listed = list(found[(number - 1) * PAGE_ROWS : number * PAGE_ROWS + 1])
    rows, units, spans = repeat_rows(lab, listed[:PAGE_ROWS], sight)
    kept = {name: value for name, value in filters.items() if value and (name, value) != ("state", "open")}

    def address(**changes: str) -> str:
        return "?" + urlencode({**kept, **changes})

    number_of = counts(lab)
    confirmed = list(repeats_of(lab, state=RepeatState.CONFIRMED)[:MOST_RUNS]) if number_of["confirmed"] else []
    stopped = avoided_of(lab, now, MOST_RUNS)
    other = spans_of_runs(lab, [*(each.run.uuid for each in confirmed), *(each.row.run.uuid for each in stopped)])
    avoided_units = column_units(other[each.row.run.uuid][0] for each in stopped if each.row.run.uuid in other)
    return DuplicatesPage(
        rows=rows,
        units=units,
        totals=runs_pair(lab, [row.repeat.run.uuid for row in rows], spans, units),
        unmeasured=sum(row.figures is None for row in rows),
        filters=filters,
        counts=number_of,
        states=[*((state.value, str(state.label)) for state in RepeatState), ("all", "All")],
        verdicts=[(verdict.value, str(verdict.label)) for verdict in Verdict if verdict in KEPT],
        certainties=[(each.value, str(each.label)) for each in Certainty],
        projects=[*lab.projects.values_list("slug", "name"), ("~unattributed", "Nobody claimed")],
        confirmed=runs_pair(lab, [each.run.uuid for each in confirmed], other),
        confirmed_all=number_of["confirmed"] <= MOST_RUNS,
        avoided=[_avoided_line(lab, each, other, avoided_units, sight) for each in stopped],
        avoided_total=runs_pair(lab, [each.row.run.uuid for each in stopped if each.counts], other, avoided_units),
        avoided_units=avoided_units,
        older=address(page=str(number + 1)) if len(listed) > PAGE_ROWS else "",
        newer=address(page=str(number - 1)) if number > 1 else "",
        csv="/duplicates.csv" + address(),
    )


def _avoided_line(lab: Lab, told: AvoidedRow, spans: Spans, units: Units, sight: Sight) -> AvoidedLine:
    asker = told.row.preflight.user
    who = "a machine" if asker is None else who_of(Run(user=asker), sight)
    return AvoidedLine(told, who, run_pair(lab, told.row.run.uuid, spans, units))


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= 10**7:
        raise InvalidInput(f"{text[:20]!r} is not a page.", field="page", hint="Pages count from 1.")
    return int(text[:9])


def line_of(row: RepeatRow) -> tuple[Any, ...]:
    """Return a finding as a row of CSV; empty: not measured, no factor, or not decided."""
    repeat, figures = row.repeat, row.figures
    emission = figures.emission.value if figures and not figures.emission.missing else None
    return (
        repeat.run.uuid, repeat.run.name, row.who, repeat.of.uuid, repeat.of.name, row.of_who, repeat.verdict,
        repeat.certainty, " ".join(repeat.weak), repeat.state, repeat.reason,
        figures.energy.value if figures else None, emission,
    )  # fmt: skip


CSV_HEAD = (
    "run", "name", "who", "repeats_run", "repeats_name", "repeats_who", "verdict", "certainty", "weak_parts", "state",
    "reason", "energy_mj", "emission_ug_co2e",
)  # fmt: skip


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
