"""The list of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from apps.accounts.models import Lab
from apps.carbon.figures.energy import figures_by
from apps.carbon.figures.query import FigureQuery, hours_of_us
from apps.carbon.figures.visibility import Sight
from apps.core.errors import InvalidInput
from apps.dashboard.contexts.run_columns import asked_columns, chosen_cells
from apps.dashboard.contexts.run_filters import FILTERS, runs_filtered
from apps.dashboard.figures import Pair, Units, column_units, pair
from apps.dashboard.formatting import duration
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from apps.runs.selectors import SORTS

PAGE_ROWS = 50


@dataclass(frozen=True)
class RunRow:
    """A run in a list. ``figures`` is None while nothing of it was measured."""

    run: Run
    who: str
    took: str
    figures: Pair | None
    chosen: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sort:
    """A column to sort by: its address, and how it is sorted now ('' if not)."""

    href: str
    now: str


@dataclass(frozen=True)
class RunsPage:
    """A page of the list of runs."""

    rows: list[RunRow]
    units: Units
    filters: dict[str, str]
    columns: list[str]
    more: bool
    intents: list[tuple[str, str]]
    projects: list[tuple[str, str]]
    states: list[tuple[str, str]]
    sorts: dict[str, Sort]
    page: int
    older: str
    newer: str
    csv: str
    any_runs: bool


def run_hours(run: Run, now: int) -> tuple[int, int]:
    """Return the whole hours a run can have energy in: from its start to its end (else now), and the hour after, into
    which its last window may reach."""
    start, end = hours_of_us(run.started_us, max(run.until_us(now), run.started_us + 1))
    return start, end + 1


def run_rows(lab: Lab, runs: list[Run], now: int, sight: Sight, columns: Sequence[str] = ()) -> tuple[list[RunRow], Units]:
    """Return runs with their figures, and what they have under chosen ``columns``. One query over the hours that hold all of
    them, two more for columns."""
    if not runs:
        return [], column_units([])
    spans = [run_hours(run, now) for run in runs]
    query = FigureQuery(
        metric="energy_mj",
        from_hour=min(start for start, _ in spans),
        to_hour=max(end for _, end in spans),
        basis=lab.basis,
    )
    found = figures_by(lab, query, ["run"])
    by_run = {str(run.uuid): found.get((str(run.uuid),)) for run in runs}
    units = column_units(part for part in by_run.values() if part)
    rows = []
    for run in runs:
        part = by_run[str(run.uuid)]
        own = query.but(subject_kind="run", subject_key=str(run.uuid))
        rows.append(RunRow(run, sight.user_of(run), took(run, now), pair(own, part, units) if part else None))
    chosen = chosen_cells(runs, columns)
    return [replace(row, chosen=chosen.get(row.run.pk, [])) for row in rows], units


def took(run: Run, now: int) -> str:
    """Return how long a run took, or goes on."""
    return duration(run.until_us(now) - run.started_us)


def runs_page(*, lab: Lab, params: Mapping[str, str], now: int, sight: Sight) -> RunsPage:
    """Return a page of runs. The number of queries does not depend on the number of rows."""
    found, filters = runs_filtered(lab, params, sight)
    columns = asked_columns(filters["columns"])
    text = params.get("page", "1")
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 10**7:
        raise InvalidInput(f"{text[:20]!r} is not a page.", field="page", hint="Pages count from 1.")
    number = int(text)
    listed = list(found[(number - 1) * PAGE_ROWS : number * PAGE_ROWS + 1])
    rows, units = run_rows(lab, listed[:PAGE_ROWS], now, sight, columns)
    kept = {name: value for name, value in filters.items() if value and (name, value) != ("sort", "-started")}

    def address(**changes: str) -> str:
        return "?" + urlencode({**kept, **changes})

    projects = [*lab.projects.values_list("slug", "name"), ("~unattributed", "Nobody claimed")]
    return RunsPage(
        rows=rows,
        units=units,
        filters=filters,
        columns=columns,
        more=any(filters[name] for name in FILTERS[3:]),
        intents=list(Intent.choices),
        projects=projects,
        states=[(state.value, state.label) for state in RunState],
        sorts={name: _sort(name, filters["sort"], address) for name in SORTS},
        page=number,
        older=address(page=str(number + 1)) if len(listed) > PAGE_ROWS else "",
        newer=address(page=str(number - 1)) if number > 1 else "",
        csv="/runs.csv" + address(),
        any_runs=bool(rows) or Run.objects.filter(lab=lab).exists(),
    )


def _sort(name: str, current: str, address: Any) -> Sort:
    now = {f"-{name}": "descending", name: "ascending"}.get(current, "")
    return Sort(address(sort=name if now == "descending" else f"-{name}"), now)
