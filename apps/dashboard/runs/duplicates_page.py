"""Page objects of duplicate findings and of avoided runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure, spans_of_runs
from apps.carbon.figures.figure_query import MOST_RUNS, FigureQuery
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Units,
    column_units,
    energy_and_emissions,
    total,
)
from apps.dashboard.formatting import duration
from apps.preflight.choices import RECORDED_VERDICTS, Certainty, FindingState, Verdict
from apps.preflight.finding_selectors import (
    AvoidedRow,
    Sides,
    compare_runs,
    counts,
    list_avoided,
    list_findings,
)
from apps.preflight.models import DuplicateFinding
from apps.preflight.presenters import who_of
from apps.preflight.similarity import Likeness, Seeds
from apps.runs.models import Run
from apps.runs.selectors import metrics_of

PAGE_ROWS = MOST_RUNS  # the total of a page is one figure query
FILTERS = ("state", "verdict", "certainty", "project", "text")
Spans = Mapping[UUID, tuple[Figure, int, int]]


@dataclass(frozen=True)
class FindingRow:
    """A finding in the list. ``figures``: energy of the duplicate, or None if unmeasured."""

    finding: DuplicateFinding
    who: str
    original_who: str
    figures: EnergyAndEmissions | None
    mine: bool


@dataclass(frozen=True)
class AvoidedLine:
    """A stopped run in the list, with the energy of the original."""

    avoided: AvoidedRow
    who: str
    figures: EnergyAndEmissions | None


@dataclass(frozen=True)
class DuplicatesPage:
    """A page of the list."""

    rows: list[FindingRow]
    units: Units
    totals: EnergyAndEmissions | None
    unmeasured: int
    filters: dict[str, str]
    counts: dict[str, int]
    states: list[tuple[str, str]]
    verdicts: list[tuple[str, str]]
    certainties: list[tuple[str, str]]
    projects: list[tuple[str, str]]
    confirmed: EnergyAndEmissions | None
    confirmed_all: bool
    avoided: list[AvoidedLine]
    avoided_total: EnergyAndEmissions | None
    avoided_units: Units
    older: str
    newer: str
    csv: str


def filter_findings(
    lab: Lab, params: Mapping[str, str]
) -> tuple[QuerySet[DuplicateFinding], dict[str, str]]:
    """Return the filtered findings and the filters. The default state is open."""
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    filters["state"] = filters["state"] or FindingState.OPEN.value
    allowed = {
        "state": [*FindingState.values, "all"],
        "verdict": sorted(verdict.value for verdict in RECORDED_VERDICTS),
        "certainty": Certainty.values,
    }
    for name, values in allowed.items():
        if filters[name] and filters[name] not in values:
            raise InvalidInput(
                f"Invalid {name}: {filters[name][:40]!r}.",
                field=name,
                hint=f"Use one of {', '.join(values)}.",
            )
    if is_unstorable("".join(filters.values())):
        raise InvalidInput("Invalid character in filter.", field="text", hint="Remove it.")
    arguments = {**filters, "state": "" if filters["state"] == "all" else filters["state"]}
    return list_findings(lab, **arguments), filters


def run_pair(
    lab: Lab, uuid: UUID, spans: Spans, units: Units | None = None
) -> EnergyAndEmissions | None:
    """Return the energy and emissions of a run, or None if unmeasured."""
    return _pair(lab, "run", [uuid], spans, units)


def runs_pair(
    lab: Lab, uuids: Sequence[UUID], spans: Spans, units: Units | None = None
) -> EnergyAndEmissions | None:
    """Return the total of several runs, each counted once, as one figure query."""
    return _pair(
        lab, "runs", [uuid for uuid in dict.fromkeys(uuids) if uuid in spans], spans, units
    )


def _pair(
    lab: Lab, kind: str, uuids: Sequence[UUID], spans: Spans, units: Units | None
) -> EnergyAndEmissions | None:
    used = [spans[uuid] for uuid in uuids if uuid in spans]
    if not used:
        return None
    query = FigureQuery(
        metric="energy_mj",
        from_hour=min(start for _, start, _ in used),
        to_hour=max(end for _, _, end in used),
        subject_kind=kind,
        subject_key=",".join(str(uuid) for uuid in uuids),
        basis=lab.basis,
    )
    return energy_and_emissions(query, total(figure for figure, _, _ in used), units)


def finding_rows(
    lab: Lab, findings: Sequence[DuplicateFinding], visibility: Visibility
) -> tuple[list[FindingRow], Units, Spans]:
    """Return findings with their energy. Two queries for any number of findings."""
    spans = spans_of_runs(lab, [finding.run.uuid for finding in findings])
    units = column_units(figure for figure, _, _ in spans.values())
    rows = [
        FindingRow(
            finding=finding,
            who=who_of(finding.run, visibility),
            original_who=who_of(finding.original, visibility),
            figures=run_pair(lab, finding.run.uuid, spans, units),
            mine=visibility.person_id is not None
            and visibility.person_id in (finding.run.user_id, finding.original.user_id),
        )
        for finding in findings
    ]
    return rows, units, spans


def duplicates_page(
    *, lab: Lab, params: Mapping[str, str], now: int, visibility: Visibility
) -> DuplicatesPage:
    """Return a page of the list. The number of queries does not depend on the number of rows."""
    findings, filters = filter_findings(lab, params)
    number = _page_number(params.get("page", "1"))
    page_findings = list(findings[(number - 1) * PAGE_ROWS : number * PAGE_ROWS + 1])
    rows, units, spans = finding_rows(lab, page_findings[:PAGE_ROWS], visibility)
    active_filters = {
        name: value
        for name, value in filters.items()
        if value and (name, value) != ("state", "open")
    }

    def address(**changes: str) -> str:
        return "?" + urlencode({**active_filters, **changes})

    number_of = counts(lab)
    confirmed = (
        list(list_findings(lab, state=FindingState.CONFIRMED)[:MOST_RUNS])
        if number_of["confirmed"]
        else []
    )
    avoided = list_avoided(lab, now, MOST_RUNS)
    other_spans = spans_of_runs(
        lab, [*(item.run.uuid for item in confirmed), *(item.row.run.uuid for item in avoided)]
    )
    avoided_units = column_units(
        other_spans[item.row.run.uuid][0] for item in avoided if item.row.run.uuid in other_spans
    )
    return DuplicatesPage(
        rows=rows,
        units=units,
        totals=runs_pair(lab, [row.finding.run.uuid for row in rows], spans, units),
        unmeasured=sum(row.figures is None for row in rows),
        filters=filters,
        counts=number_of,
        states=[*((state.value, str(state.label)) for state in FindingState), ("all", "All")],
        verdicts=[
            (verdict.value, str(verdict.label))
            for verdict in Verdict
            if verdict in RECORDED_VERDICTS
        ],
        certainties=[(item.value, str(item.label)) for item in Certainty],
        projects=[*lab.projects.values_list("slug", "name"), ("~unattributed", "Unattributed")],
        confirmed=runs_pair(lab, [item.run.uuid for item in confirmed], other_spans),
        confirmed_all=number_of["confirmed"] <= MOST_RUNS,
        avoided=[
            _avoided_line(lab, item, other_spans, avoided_units, visibility) for item in avoided
        ],
        avoided_total=runs_pair(
            lab, [item.row.run.uuid for item in avoided if item.counts], other_spans, avoided_units
        ),
        avoided_units=avoided_units,
        older=address(page=str(number + 1)) if len(page_findings) > PAGE_ROWS else "",
        newer=address(page=str(number - 1)) if number > 1 else "",
        csv=reverse("duplicates-csv") + address(),
    )


def _avoided_line(
    lab: Lab, stop: AvoidedRow, spans: Spans, units: Units, visibility: Visibility
) -> AvoidedLine:
    requester = stop.row.preflight.user
    who = "a node" if requester is None else who_of(Run(user=requester), visibility)
    return AvoidedLine(stop, who, run_pair(lab, stop.row.run.uuid, spans, units))


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= 10**7:
        raise InvalidInput(
            f"Invalid page number: {text[:20]!r}.", field="page", hint="The first page is 1."
        )
    return int(text[:9])


def line_of(row: FindingRow) -> tuple[Any, ...]:
    """Return a finding as a CSV row. An empty value: not measured, no factor, or not decided."""
    finding, figures = row.finding, row.figures
    emission = figures.emission.value if figures and not figures.emission.missing else None
    return (
        finding.run.uuid,
        finding.run.name,
        row.who,
        finding.original.uuid,
        finding.original.name,
        row.original_who,
        finding.verdict,
        finding.certainty,
        " ".join(finding.unverified_parts),
        finding.state,
        finding.reason,
        figures.energy.value if figures else None,
        emission,
    )


CSV_HEAD = (
    "run", "name", "who", "repeats_run", "repeats_name", "repeats_who", "verdict", "certainty",
    "weak_parts", "state", "reason", "energy_mj", "emission_ug_co2e",
)  # fmt: skip


_WORDS = {
    Likeness.SAME: "same",
    Likeness.POSSIBLE: "same names, sizes and times",
    Likeness.DIFFERENT: "different",
    Likeness.UNKNOWN: "unknown",
}
_SEEDS = {
    Seeds.SAME: "same",
    Seeds.UNSET: "unset in both",
    Seeds.OTHER: "different",
    Seeds.UNKNOWN: "unknown",
}
_CLASSES = {
    "same": "same",
    "different": "differs",
    "unset in both": "weak",
    "same names, sizes and times": "weak",
}


@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    title: str
    run: Run
    who: str
    took: str
    figures: EnergyAndEmissions | None
    metric: tuple[str, float] | None


@dataclass(frozen=True)
class PartRow:
    """A part of the two fingerprints: short hashes and the result of the comparison."""

    name: str
    here: str
    there: str
    result: str
    mark: str


@dataclass(frozen=True)
class DifferenceRow:
    """A difference."""

    part: str
    name: str
    here: str
    there: str


@dataclass(frozen=True)
class FindingPage:
    """A finding."""

    finding: DuplicateFinding
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


def finding_page(
    *, lab: Lab, finding: DuplicateFinding, now: int, visibility: Visibility
) -> FindingPage:
    """Return a finding with both of its runs."""
    comparison = compare_runs(finding)
    spans = spans_of_runs(lab, [finding.run.uuid, finding.original.uuid])
    metrics = metrics_of([finding.run_id, finding.original_id])

    def side(title: str, run: Run) -> Side:
        took = duration((run.ended_us if run.ended_us is not None else now) - run.started_us)
        return Side(
            title,
            run,
            who_of(run, visibility),
            took,
            run_pair(lab, run.uuid, spans),
            metrics.get(run.pk),
        )

    return FindingPage(
        finding=finding,
        sides=[side("Duplicate", finding.run), side("Original", finding.original)],
        parts=_parts(comparison),
        differs=_differs(comparison),
        same_params=_same_params(comparison),
        ignored=sorted(comparison.ignored & set(comparison.here.params or {})),
        counted=sorted(comparison.works[0].params or {}),
        project=project.name
        if (project := finding.run.charged_project or finding.run.project)
        else "",
        decided_by=finding.decided_by.get_username() if finding.decided_by else "a former member",
        mine=visibility.person_id is not None
        and visibility.person_id in (finding.run.user_id, finding.original.user_id),
        states=[(state.value, str(state.label)) for state in FindingState],
    )


def _short(text: str) -> str:
    return text[:12] if text else "unknown"


def _parts(comparison: Sides) -> list[PartRow]:
    own, other, relation = comparison.here, comparison.there, comparison.relation
    normal = relation.normal if not relation.code.matches else Likeness.SAME
    params = (
        Likeness.UNKNOWN if relation.changed is None else Likeness(3 if not relation.changed else 0)
    )
    rows = [
        ("Code", own.code or own.code_weak, other.code or other.code_weak, _WORDS[relation.code]),
        ("Code without comments and format", own.code_normal, other.code_normal, _WORDS[normal]),
        ("Parameters", own.recipe, other.recipe, _WORDS[params]),
        ("Data", own.data or own.data_weak, other.data or other.data_weak, _WORDS[relation.data]),
        (
            "Initial weights",
            own.start or own.start_weak,
            other.start or other.start_weak,
            _WORDS[relation.start],
        ),
        (
            "Seeds",
            _seeds(comparison.works[0].seeds),
            _seeds(comparison.works[1].seeds),
            _SEEDS[relation.seeds],
        ),
    ]
    return [
        PartRow(name, _short(own_text), _short(other_text), text, _CLASSES.get(text, ""))
        for name, own_text, other_text, text in rows
    ]


def _seeds(seeds: Any) -> str:
    if seeds is None:
        return ""
    return ", ".join(sorted(seeds)) or "unset"


def _same_params(comparison: Sides) -> int | None:
    params, changed = comparison.works[0].params, comparison.relation.changed
    return None if params is None or changed is None else len(set(params) - changed)


def _differs(comparison: Sides) -> list[DifferenceRow]:
    return [
        DifferenceRow(
            difference.part,
            difference.name,
            _value(difference.here, difference.only, "there"),
            _value(difference.there, difference.only, "here"),
        )
        for difference in comparison.differs
        if difference.part not in ("code", "data", "start")  # shown by the parts
    ]


def _value(value: Any, only: str, missing: str) -> str:
    """Return a value as displayed: 'none' if that run has no such name, 'hash only' if the value
    is not stored.
    """
    if only == missing:
        return "none"
    return "hash only" if value is None else str(value)
