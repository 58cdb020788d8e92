"""The list of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet
from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.energy import figures_by
from apps.carbon.figures.figure_query import FigureQuery, hours_of_us
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.text import is_unstorable
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import EnergyAndEmissions, Units, column_units, energy_and_emissions
from apps.dashboard.formatting import duration
from apps.runs.choices import EnergyState, Intent, RunState
from apps.runs.fingerprint_diff import value_text
from apps.runs.models import Metric, Run
from apps.runs.selectors import SORTS, active_in, energy_states, fingerprints_of, runs_of

MOST_COLUMNS = 8
NONE = ""
# What the energy of a listed run is: of the whole run, or of its part in the period of the list.
WHOLE_RUN, PERIOD = "run", "period"


def metric_columns(text: str) -> list[str]:
    """Return the names of a comma-separated list, each once. Raises InvalidInput for more than
    MOST_COLUMNS.
    """
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(
            f"At most {MOST_COLUMNS} columns, not {len(names)}.",
            field="columns",
            hint="Remove some.",
        )
    return names


def column_cells(runs: Sequence[Run], names: Sequence[str]) -> dict[int, list[str]]:
    """Return {run pk: cells}. A cell is a parameter, a seed, the last value of a metric, or
    NONE. Two queries.
    """
    if not names:
        return {}
    prints = fingerprints_of(runs)
    last = {
        (run_id, name): value
        for run_id, name, value in Metric.objects.filter(run__in=runs, name__in=names).values_list(
            "run_id", "name", "last_value"
        )
    }
    cells = {}
    for run in runs:
        fingerprint = prints.get(run.pk)
        hashes = {**(fingerprint.params or {}), **(fingerprint.seeds or {})} if fingerprint else {}
        cells[run.pk] = [
            value_text(fingerprint, name, hashes[name])
            if fingerprint and name in hashes
            else _metric(last, run.pk, name)
            for name in names
        ]
    return cells


def _metric(last: dict[tuple[int, str], float | None], run_id: int, name: str) -> str:
    if (run_id, name) not in last:
        return NONE
    value = last[run_id, name]
    return "NaN" if value is None else f"{value:.6g}"


FILTERS = (
    "project",
    "state",
    "text",
    "host",
    "intent",
    "sweep",
    "from",
    "to",
    "params",
    "mine",
    "columns",
    "clip",
)


@dataclass(frozen=True)
class Clip:
    """The whole UTC hours to which the energy of runs is limited. None: open."""

    from_hour: int | None
    to_hour: int | None

    def within(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of ``[start, end)``, empty where they do not overlap."""
        start = start if self.from_hour is None else max(start, self.from_hour)
        end = end if self.to_hour is None else min(end, self.to_hour)
        return start, max(start, end)


def runs_filtered(
    lab: Lab, params: Mapping[str, str], visibility: Visibility
) -> tuple[QuerySet[Run], dict[str, str]]:
    """Return the filtered and ordered runs, and the filters. Raises InvalidInput."""
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    if is_unstorable("".join(filters.values())):
        raise InvalidInput("Invalid character in filter.", field="text", hint="Remove it.")
    for name, allowed in (("state", RunState.values), ("intent", Intent.values)):
        if filters[name] and filters[name] not in allowed:
            hint = f"Use one of {', '.join(allowed)}."
            raise InvalidInput(f"Invalid {name}: {filters[name][:40]!r}.", field=name, hint=hint)
    sort = params.get("sort", "-started")
    column = sort.removeprefix("-")
    if column not in SORTS:
        known_sorts = ", ".join(SORTS)
        raise InvalidInput(
            f"Invalid sort order: {sort[:40]!r}.",
            field="sort",
            hint=f"Use one of {known_sorts}, - first: descending.",
        )
    zone = ZoneInfo(lab.time_zone)
    from_us = _day_us(filters["from"], "from", zone)
    to_us = _day_us(filters["to"], "to", zone, after=True)
    runs = runs_of(
        lab,
        project=filters["project"],
        state=filters["state"],
        text=filters["text"],
        host=filters["host"],
        intent=filters["intent"],
        sweep=filters["sweep"],
        from_us=None if filters["clip"] else from_us,
        to_us=None if filters["clip"] else to_us,
        params=_parse_params(filters["params"]),
    )
    if filters["clip"]:
        if from_us is None and to_us is None:
            raise InvalidInput(
                "Energy can be limited to a period only if there is one.",
                field="clip",
                hint="Enter the first or the last day.",
            )
        runs = active_in(runs, from_us, to_us)
    if filters["mine"]:
        runs = runs.filter(
            Q(user_id=visibility.person_id) | Q(charged_person_id=visibility.person_id)
        )
    return runs.order_by(("-" if sort.startswith("-") else "") + SORTS[column], "-id"), {
        **filters,
        "sort": sort,
    }


def clip_of(lab: Lab, filters: Mapping[str, str]) -> Clip | None:
    """Return the period to which the filters limit the energy of runs, None for whole runs."""
    if not filters["clip"]:
        return None
    zone = ZoneInfo(lab.time_zone)
    from_us = _day_us(filters["from"], "from", zone)
    to_us = _day_us(filters["to"], "to", zone, after=True)
    return Clip(_whole_hour(from_us), _whole_hour(to_us))


def _whole_hour(moment_us: int | None) -> int | None:
    """Return the first whole UTC hour from a moment on, as for the days of all periods."""
    return None if moment_us is None else -(-moment_us // US_PER_HOUR)


def _day_us(text: str, name: str, zone: ZoneInfo, *, after: bool = False) -> int | None:
    """Return the start of a day in the lab's time zone; ``after``: of the next day. A time stamp
    is returned unchanged.
    """
    if not text:
        return None
    try:
        if "T" in text:
            return datetime_to_us(datetime.fromisoformat(text).astimezone(UTC))
        day = date.fromisoformat(text) + timedelta(days=1 if after else 0)
        return datetime_to_us(datetime(day.year, day.month, day.day, tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"Invalid day: {text[:40]!r}.", field=name, hint="Example: 2026-11-02."
        ) from error


def _parse_params(text: str) -> dict[str, str]:
    """Return ``lr=0.1, depth=3`` as a mapping."""
    params = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, value = part.partition("=")
        if part and not (equals and name.strip()):
            raise InvalidInput(
                f"Invalid parameter filter: {part[:40]!r}.",
                field="params",
                hint="Example: lr=0.1, depth=3.",
            )
        if part:
            params[name.strip()] = value.strip()
    if len(params) > MOST_COLUMNS:
        raise InvalidInput(
            f"At most {MOST_COLUMNS} parameters, not {len(params)}.",
            field="params",
            hint="Remove some.",
        )
    return params


PAGE_ROWS = 50


@dataclass(frozen=True)
class RunRow:
    """A run in a list. ``figures`` None: see ``energy_state``."""

    run: Run
    who: str
    took: str
    figures: EnergyAndEmissions | None
    energy_state: EnergyState
    cells: list[str] = field(default_factory=list)

    @property
    def energy_mj(self) -> int | None:
        return self.figures.energy.value if self.figures else None

    @property
    def emission_ug(self) -> int | None:
        """The emissions, None if part of the energy has no factor."""
        if self.figures is None or self.figures.emission.missing:
            return None
        return self.figures.emission.value


@dataclass(frozen=True)
class Sort:
    """Sort order of a column: address that changes it, and the current direction ('': none)."""

    href: str
    direction: str


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
    energy_of: str


def run_hours(run: Run, now: int) -> tuple[int, int]:
    """Return the hours in which a run can have energy: from its start to its end (or now), plus
    one for the last window.
    """
    start, end = hours_of_us(run.started_us, max(run.active_until_us(now), run.started_us + 1))
    return start, end + 1


def run_rows(
    lab: Lab,
    runs: list[Run],
    now: int,
    visibility: Visibility,
    columns: Sequence[str] = (),
    clip: Clip | None = None,
) -> tuple[list[RunRow], Units]:
    """Return runs with their figures, within ``clip`` or as a whole, and the cells of ``columns``.
    At most two queries for figures, two for columns.
    """
    if not runs:
        return [], column_units([])
    spans = [run_hours(run, now) for run in runs]
    if clip is not None:
        spans = [clip.within(start, end) for start, end in spans]
    query = FigureQuery(
        metric="energy_mj",
        from_hour=min(start for start, _ in spans),
        to_hour=max(end for _, end in spans),
        basis=lab.basis,
    )
    figures = figures_by(lab, query, ["run"])
    by_run = {str(run.uuid): figures.get((str(run.uuid),)) for run in runs}
    units = column_units(part for part in by_run.values() if part)
    counted = {run.uuid for run in runs if by_run[str(run.uuid)]}
    states = energy_states(lab, [run.uuid for run in runs], counted)
    rows = []
    for run in runs:
        part = by_run[str(run.uuid)]
        own = query.replace(subject_kind="run", subject_key=str(run.uuid))
        figures_pair = energy_and_emissions(own, part, units) if part else None
        rows.append(
            RunRow(run, visibility.user_of(run), took(run, now), figures_pair, states[run.uuid])
        )
    cells = column_cells(runs, columns)
    return [replace(row, cells=cells.get(row.run.pk, [])) for row in rows], units


def took(run: Run, now: int) -> str:
    """Return the duration of a run so far."""
    return duration(run.active_until_us(now) - run.started_us)


def runs_page(*, lab: Lab, params: Mapping[str, str], now: int, visibility: Visibility) -> RunsPage:
    """Return a page of runs. The number of queries does not depend on the number of rows."""
    runs, filters = runs_filtered(lab, params, visibility)
    columns = metric_columns(filters["columns"])
    text = params.get("page", "1")
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 10**7:
        raise InvalidInput(
            f"Invalid page number: {text[:20]!r}.", field="page", hint="The first page is 1."
        )
    number = int(text)
    page_runs = list(runs[(number - 1) * PAGE_ROWS : number * PAGE_ROWS + 1])
    clip = clip_of(lab, filters)
    rows, units = run_rows(lab, page_runs[:PAGE_ROWS], now, visibility, columns, clip)
    active_filters = {
        name: value
        for name, value in filters.items()
        if value and (name, value) != ("sort", "-started")
    }

    def address(**changes: str) -> str:
        return "?" + urlencode({**active_filters, **changes})

    projects = [*lab.projects.values_list("slug", "name"), ("~unattributed", "Unattributed")]
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
        older=address(page=str(number + 1)) if len(page_runs) > PAGE_ROWS else "",
        newer=address(page=str(number - 1)) if number > 1 else "",
        csv=reverse("runs-csv") + address(),
        energy_of=PERIOD if clip else WHOLE_RUN,
        any_runs=bool(rows) or Run.objects.filter(lab=lab).exists(),
    )


def _sort(name: str, current: str, address: Any) -> Sort:
    direction = {f"-{name}": "descending", name: "ascending"}.get(current, "")
    return Sort(address(sort=name if direction == "descending" else f"-{name}"), direction)
