"""Page objects of the list of duplicate findings and of avoided runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.energy import spans_of_runs
from apps.carbon.figures.figure_query import MOST_RUNS
from apps.carbon.figures.visibility import Visibility
from apps.dashboard.figures import EnergyAndEmissions, Units, column_units
from apps.dashboard.periods import Period
from apps.dashboard.runs.duplicate_families import FamilyRow, family_row, run_uuids
from apps.dashboard.runs.duplicate_figures import (
    LimitedTotal,
    Spans,
    Uncounted,
    count_uncounted,
    energy_of,
    limited_total,
    run_pair,
    runs_pair,
)
from apps.dashboard.runs.duplicate_filters import (
    EVERY_STATE,
    SORTS,
    filter_findings,
    parse_page_number,
    parse_sort,
)
from apps.dashboard.runs.run_filters import listed_period
from apps.preflight.choices import RECORDED_VERDICTS, Certainty, FindingState, Verdict
from apps.preflight.finding_families import FindingFacts, finding_facts, group_by_family
from apps.preflight.finding_roots import first_runs
from apps.preflight.finding_selectors import AvoidedRow, counts, list_avoided, list_findings
from apps.preflight.models import DuplicateFinding
from apps.preflight.presenters import who_of
from apps.runs.choices import EnergyState
from apps.runs.models import Run
from apps.runs.selectors import energy_states

PAGE_ROWS = MOST_RUNS
MOST_LISTED = 5000  # findings that are grouped and sorted


@dataclass(frozen=True)
class FindingRow:
    """A finding in the list. ``figures``: energy of the duplicate, None: see ``energy_state``.
    ``first``: the first run of the same work, if the original is itself a duplicate.
    """

    finding: DuplicateFinding
    who: str
    original_who: str
    figures: EnergyAndEmissions | None
    energy_state: EnergyState
    mine: bool
    first: Run | None = None


@dataclass(frozen=True)
class AvoidedLine:
    """A stopped run in the list, with the energy of the original."""

    avoided: AvoidedRow
    who: str
    figures: EnergyAndEmissions | None
    energy_state: EnergyState


@dataclass(frozen=True)
class Overview:
    """Numbers of the lab: energy of confirmed duplicates and of stopped runs."""

    confirmed: EnergyAndEmissions | None
    confirmed_all: bool
    confirmed_uncounted: Uncounted
    avoided: list[AvoidedLine]
    avoided_total: EnergyAndEmissions | None
    avoided_units: Units


@dataclass(frozen=True)
class ListRow:
    """A row of the list: a finding, or several of one family."""

    finding: FindingRow | None = None
    family: FamilyRow | None = None


@dataclass(frozen=True)
class DuplicatesPage:
    """A page of the list. ``number``: listed findings. ``family``: the one that is open.

    ``is_cut``: older findings match the filters, but are not listed.
    """

    rows: list[ListRow]
    number: int
    is_cut: bool
    family: FamilyRow | None
    units: Units
    total: LimitedTotal
    uncounted: Uncounted
    filters: dict[str, str]
    number_of_filters: int
    sort: str
    sorts: list[tuple[str, str]]
    counts: dict[str, int]
    states: list[tuple[str, str]]
    verdicts: list[tuple[str, str]]
    certainties: list[tuple[str, str]]
    projects: list[tuple[str, str]]
    overview: Overview | None
    older: str
    newer: str
    back: str
    query: str
    csv: str
    period: Period | None
    is_filtered: bool


def finding_rows(
    lab: Lab,
    findings: Sequence[DuplicateFinding],
    visibility: Visibility,
    spans: Spans,
    states: Mapping[UUID, EnergyState],
    units: Units | None = None,
    first: Mapping[int, Run] = MappingProxyType({}),
) -> list[FindingRow]:
    """Return findings with their energy. No query."""
    return [
        FindingRow(
            finding=finding,
            who=who_of(finding.run, visibility),
            original_who=who_of(finding.original, visibility),
            figures=run_pair(lab, finding.run.uuid, spans, units),
            energy_state=states[finding.run.uuid],
            mine=visibility.person_id is not None
            and visibility.person_id in (finding.run.user_id, finding.original.user_id),
            first=first.get(finding.original_id),
        )
        for finding in findings
    ]


def duplicates_page(
    *, lab: Lab, params: Mapping[str, str], now: int, visibility: Visibility, is_manager: bool
) -> DuplicatesPage:
    """Return a page of the list. The number of queries does not depend on the number of rows, but
    for figures: two of 500 runs.
    """
    findings, filters = filter_findings(lab, params, visibility, now)
    sort, number = parse_sort(params), parse_page_number(params.get("page", "1"))
    facts = finding_facts(findings[: MOST_LISTED + 1])
    is_cut, facts = len(facts) > MOST_LISTED, facts[:MOST_LISTED]
    groups = [[one] for one in facts] if filters["family"] else group_by_family(facts)
    needs_all = sort == "energy" or bool(filters["family"])
    spans: Spans = spans_of_runs(lab, run_uuids(facts)) if needs_all else {}
    if sort == "energy":
        groups.sort(key=lambda group: energy_of(run_uuids(group), spans), reverse=True)
    else:  # by the start that is displayed; the latest detection first among equals
        groups.sort(key=lambda group: max(one.started_us for one in group), reverse=True)
    shown = groups[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]
    page_facts = [one for group in shown for one in group]
    if not needs_all:
        spans = spans_of_runs(lab, run_uuids(page_facts))
    states = energy_states(lab, run_uuids(facts if filters["family"] else page_facts), spans)
    units = column_units(spans[one.run_uuid][0] for one in page_facts if one.run_uuid in spans)

    def summarise(group: Sequence[FindingFacts], units: Units | None) -> FamilyRow:
        return family_row(
            lab,
            group,
            state=EVERY_STATE if is_cut else filters["state"],
            visibility=visibility,
            is_manager=is_manager,
            spans=spans,
            states=states,
            units=units,
        )

    singles = list(
        list_findings(lab).filter(pk__in=[group[0].pk for group in shown if len(group) == 1])
    )
    first = first_runs([finding.original_id for finding in singles])
    rows_by_pk = {
        row.finding.pk: row
        for row in finding_rows(lab, singles, visibility, spans, states, units, first)
    }
    active_filters = {
        name: value
        for name, value in {**filters, "sort": sort}.items()
        if value and (name, value) not in (("state", "open"), ("sort", SORTS[0]))
    }

    def address(**changes: str) -> str:
        return "?" + urlencode({k: v for k, v in {**active_filters, **changes}.items() if v})

    return DuplicatesPage(
        rows=[
            ListRow(family=summarise(group, units))
            if len(group) > 1
            else ListRow(finding=rows_by_pk[group[0].pk])
            for group in shown
        ],
        number=len(facts),
        is_cut=is_cut,
        family=summarise(facts, None) if filters["family"] and facts else None,
        units=units,
        total=limited_total(lab, run_uuids(page_facts), spans, units),
        uncounted=count_uncounted(run_uuids(page_facts), states),
        filters=filters,
        number_of_filters=len(active_filters.keys() - {"sort", "family", "period", "from", "to"}),
        sort=sort,
        sorts=[(SORTS[0], "Newest"), (SORTS[1], "Energy")],
        counts=counts(lab),
        states=[*((state.value, str(state.label)) for state in FindingState), (EVERY_STATE, "All")],
        verdicts=[
            (verdict.value, str(verdict.label))
            for verdict in Verdict
            if verdict in RECORDED_VERDICTS
        ],
        certainties=[(item.value, str(item.label)) for item in Certainty],
        projects=[*lab.projects.values_list("slug", "name"), ("~unattributed", "Unattributed")],
        overview=None if filters["family"] else _overview(lab, now, visibility),
        older=address(page=str(number + 1)) if len(groups) > number * PAGE_ROWS else "",
        newer=address(page=str(number - 1)) if number > 1 else "",
        back=address(family=""),
        query=urlencode(active_filters),
        csv=reverse("duplicates-csv") + address(sort=""),
        period=listed_period(lab, filters, now),
        is_filtered=bool(set(active_filters) - {"state", "family", "sort"}),
    )


def _overview(lab: Lab, now: int, visibility: Visibility) -> Overview:
    confirmed = list(list_findings(lab, state=FindingState.CONFIRMED)[: MOST_RUNS + 1])
    confirmed_all, confirmed = len(confirmed) <= MOST_RUNS, confirmed[:MOST_RUNS]
    avoided = list_avoided(lab, now, MOST_RUNS)
    confirmed_uuids = [item.run.uuid for item in confirmed]
    uuids = [*confirmed_uuids, *(item.row.run.uuid for item in avoided)]
    spans = spans_of_runs(lab, uuids)
    states = energy_states(lab, uuids, spans)
    units = column_units(
        spans[item.row.run.uuid][0] for item in avoided if item.row.run.uuid in spans
    )
    return Overview(
        confirmed=runs_pair(lab, confirmed_uuids, spans),
        confirmed_all=confirmed_all,
        confirmed_uncounted=count_uncounted(confirmed_uuids, states),
        avoided=[
            AvoidedLine(
                item,
                _who_stopped(item, visibility),
                run_pair(lab, item.row.run.uuid, spans, units),
                states[item.row.run.uuid],
            )
            for item in avoided
        ],
        avoided_total=runs_pair(
            lab, [item.row.run.uuid for item in avoided if item.counts], spans, units
        ),
        avoided_units=units,
    )


def _who_stopped(stop: AvoidedRow, visibility: Visibility) -> str:
    requester = stop.row.preflight.user
    return "a node" if requester is None else who_of(Run(user=requester), visibility)


def line_of(row: FindingRow, family: tuple[int, str] | None) -> tuple[Any, ...]:
    """Return a finding as a CSV row. An empty value: see ``energy_state``, no factor, or not
    decided. ``family``: key and script, None if a part of the run is unknown.
    """
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
        *(family or (None, None)),
        row.energy_state.value,
    )


CSV_HEAD = (
    "run", "name", "who", "repeats_run", "repeats_name", "repeats_who", "verdict", "certainty",
    "weak_parts", "state", "reason", "energy_mj", "emission_ug_co2e", "family", "script",
    "energy_state",
)  # fmt: skip
