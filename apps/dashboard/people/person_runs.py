"""The runs of a person that started in a period: the most expensive, the failed, and duplicates."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.db.models import QuerySet, Value
from django.urls import reverse

from apps.accounts.models import Lab, User
from apps.carbon.figures.run_table import TableSums, run_table, run_table_page
from apps.carbon.figures.run_table_query import ENERGY, TableQuery
from apps.carbon.figures.visibility import Visibility
from apps.dashboard.figures import Projected, Units, estimated
from apps.dashboard.periods import Period
from apps.dashboard.runs.duplicate_filters import filter_findings
from apps.dashboard.runs.run_filters import runs_filtered
from apps.dashboard.runs.run_rows import RunRow, figure_rows
from apps.dashboard.runs.runs_page import runs_by_id
from apps.preflight.choices import FindingState
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run

MOST_ROWS = 5


@dataclass(frozen=True)
class RunKind:
    """Runs of one kind. ``energy`` and ``emission`` None: unknown. ``unmeasured``: runs without a
    figure. ``href``: the list of these runs; that of failed runs also has probes.
    """

    kind: str
    title: str
    runs: int
    unmeasured: int
    energy: Projected | None
    emission: Projected | None
    href: str


@dataclass(frozen=True)
class PersonRuns:
    """``number``: all runs of the person that started in the period. ``rows``: those with the most
    energy.
    """

    number: int
    rows: list[RunRow]
    units: Units
    href: str
    kinds: list[RunKind]


def person_runs(
    lab: Lab, person: User, period: Period, visibility: Visibility, now: int
) -> PersonRuns:
    """Return the runs of a person. The number of queries does not depend on that of the runs."""
    filters = {"person": person.get_username(), **_period_filters(period)}
    runs, _ = runs_filtered(lab, filters, visibility, now)
    number = runs.count()
    query = TableQuery(sort=ENERGY, duration=Value(0), limit=MOST_ROWS, with_costs=False)
    listed = {row.run_id: row for row in run_table_page(lab, runs, query, number).rows}
    rows, units = figure_rows(lab, runs_by_id(listed), listed, now, visibility)
    failed_filters = {**filters, "state": RunState.FAILED.value}
    failed, _ = runs_filtered(lab, failed_filters, visibility, now)
    failed = failed.exclude(intent=Intent.PROBE)
    kinds = [_kind(lab, "failed", "Failed runs", failed, "runs", failed_filters)]
    for state, title in (
        (FindingState.OPEN, "Open duplicates"),
        (FindingState.CONFIRMED, "Confirmed duplicates"),
    ):
        finding_filters = {**filters, "state": state.value}
        findings, _ = filter_findings(lab, finding_filters, visibility, now)
        repeated = Run.objects.filter(lab=lab, pk__in=findings.order_by().values("run"))
        kinds.append(_kind(lab, state.value, title, repeated, "duplicates", finding_filters))
    return PersonRuns(
        number=number,
        rows=rows,
        units=units,
        href=_address("runs", {**filters, "sort": "-energy"}),
        kinds=kinds,
    )


def _period_filters(period: Period) -> dict[str, str]:
    """Return the period as the lists have it in their addresses."""
    return dict(parse_qsl(period.query))


def _address(page: str, filters: dict[str, str]) -> str:
    return f"{reverse(page)}?{urlencode(filters)}"


def _kind(
    lab: Lab, kind: str, title: str, runs: QuerySet[Run], page: str, filters: dict[str, str]
) -> RunKind:
    query = TableQuery(sort=ENERGY, duration=Value(0), with_rows=False, with_costs=False)
    sums = run_table(lab, runs, query).total
    assert sums is not None
    return RunKind(
        kind=kind,
        title=title,
        runs=sums.runs,
        unmeasured=sums.runs - sums.measured,
        energy=estimated(sums.figure.energy_mj) if sums.measured else None,
        emission=_emission(sums),
        href=_address(page, filters),
    )


def _emission(sums: TableSums) -> Projected | None:
    figure = sums.figure
    if not sums.measured or (figure.without_factor_mj and not figure.emission_ug):
        return None
    return estimated(figure.emission_ug, "emission_ug", at_least=bool(figure.without_factor_mj))
