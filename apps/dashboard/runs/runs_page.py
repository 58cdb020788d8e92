"""The list of runs: a page of rows or groups, sums of all filtered runs, and saved views."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse

from apps.accounts.models import Lab, User
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import COST, MOST_RUNS, FigureQuery
from apps.carbon.figures.run_table import RunTable, TableSums, run_table, run_table_page
from apps.carbon.figures.run_table_query import ALL_HOURS, ENERGY, FIGURE_SORTS, TableQuery
from apps.carbon.figures.visibility import ANONYMISED, Visibility
from apps.core.errors import InvalidInput
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Projected,
    Quantity,
    Units,
    column_units,
    cost_quantity,
    energy_and_emissions,
    estimated,
)
from apps.dashboard.formatting import duration
from apps.dashboard.periods import Period
from apps.dashboard.runs.run_filters import (
    MOST_COLUMNS,
    NO_VALUE,
    Clip,
    TableView,
    clip_of,
    listed_period,
    metric_columns,
    runs_filtered,
    table_view,
    view_query,
)
from apps.dashboard.runs.run_rows import PERIOD, WHOLE_RUN, RunRow, figure_rows
from apps.dashboard.runs.table_columns import TABLE_COLUMNS, TableColumn
from apps.dashboard.runs.table_sorts import (
    GROUPS,
    HIDDEN_PERSON,
    METRIC_SORT,
    duration_us,
    group_expression,
    sort_expression,
)
from apps.runs.choices import Intent, RunState
from apps.runs.models import Metric, Run

PAGE_ROWS = 50
MOST_SUMMED = 5000  # runs that are summed at once; more only on request
GROUP_ROWS = 10  # of an open group
MOST_SUGGESTIONS = 100
SUMMED = frozenset(("duration", ENERGY, "emission", "cost"))  # columns with a value of a group
UNATTRIBUTED = "~unattributed"
# Those of the fold; the frame shows the period.
_FOLDED = ("text", "project", "state", "host", "intent", "sweep", "params", "mine", "person")
_MORE = (*_FOLDED[3:], "clip")


@dataclass(frozen=True)
class Sort:
    """Sort order of a column: address that changes it, and the current direction ('': none)."""

    href: str
    direction: str


@dataclass(frozen=True)
class Column:
    """A column of the table. ``sort`` None: it has no order."""

    fact: TableColumn
    sort: Sort | None
    unit: str = ""


@dataclass(frozen=True)
class Sums:
    """Sums of runs for the totals row or a group. ``figures``: with their explanation, if the
    runs are few enough for one query; else None. ``energy``, ``emission`` and ``cost`` None:
    unknown. ``apart``: costs in other currencies.
    """

    runs: int
    unmeasured: int
    duration: str
    energy_mj: int
    emission_ug: int
    cost_ucurrency: int
    energy: Projected | None
    emission: Projected | None
    cost: Projected | None
    apart: list[Projected]
    figures: EnergyAndEmissions | None = None
    explained_cost: Quantity | None = None


@dataclass(frozen=True)
class Group:
    """A group of runs. ``toggle`` opens or closes it, ``listing`` shows its runs only ('': they
    cannot be selected by a filter).
    """

    key: str
    label: str
    sums: Sums
    is_open: bool
    toggle: str
    listing: str
    rows: list[RunRow] = field(default_factory=list)

    @property
    def more(self) -> int:
        return self.sums.runs - len(self.rows)


@dataclass(frozen=True)
class RunsPage:
    """A page of the list of runs. ``groups`` is empty unless the list is grouped. ``total``: sums
    of all filtered runs; None: ``sums_href`` shows them, ``sums_only_href`` without the rows. If
    all groups are closed, ``columns`` are those with sums, and ``cells`` is empty.
    """

    rows: list[RunRow]
    groups: list[Group]
    runs: int
    total: Sums | None
    sums_href: str
    sums_only_href: str
    units: Units
    filters: dict[str, str]
    view: TableView
    columns: list[Column]
    choices: list[tuple[TableColumn, bool]]
    name_sort: Sort
    cells: list[tuple[str, Sort | None]]
    is_filtered: bool
    number_of_filters: int
    intents: list[tuple[str, str]]
    projects: list[tuple[str, str]]
    states: list[tuple[str, str]]
    group_choices: list[tuple[str, str]]
    page: int
    older: str
    newer: str
    csv: str
    query: str
    any_runs: bool
    energy_of: str
    period: Period | None
    column_suggestions: list[str]

    @property
    def width(self) -> int:
        """Return the number of columns after the name."""
        return len(self.columns) + len(self.cells)


def table_query(
    view: TableView, clip: Clip | None, now: int, visibility: Visibility, **options: object
) -> TableQuery:
    """Return the query of a view."""
    first, last = ALL_HOURS
    hours = None
    if clip is not None:
        hours = (
            first if clip.from_hour is None else clip.from_hour,
            last if clip.to_hour is None else clip.to_hour,
        )
    return TableQuery(
        sort=sort_expression(view.sort_name, now, visibility),
        duration=duration_us(now),
        descending=view.is_descending,
        hours=hours,
        with_costs=view.has_costs,
        **options,  # type: ignore[arg-type]
    )


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 10**7:
        raise InvalidInput(
            f"Invalid page number: {text[:20]!r}.", field="page", hint="The first page is 1."
        )
    return int(text)


def _read_table(
    lab: Lab, runs: QuerySet[Run], view: TableView, clip: Clip | None, number: int, now: int,
    visibility: Visibility, *, with_sums: bool, with_rows: bool,
) -> RunTable:  # fmt: skip
    options: dict[str, object] = {
        "offset": (number - 1) * PAGE_ROWS,
        "limit": PAGE_ROWS + 1,
        "with_rows": with_rows,
    }
    if not view.group:
        count = runs.count()
        options["number"] = count
        if not with_sums and count > MOST_SUMMED:
            query = table_query(view, clip, now, visibility, **options)
            return run_table_page(lab, runs, query, count)
    else:
        options |= {
            "group": group_expression(view.group, visibility),
            "group_sort": view.sort_name
            if view.sort_name in (*FIGURE_SORTS, "duration")
            else ENERGY,
            "open_groups": view.open_groups,
            "group_rows": GROUP_ROWS,
        }
    return run_table(lab, runs, table_query(view, clip, now, visibility, **options))


def _largest(text: str) -> list[Figure]:
    """Return the figures that define the units of sums that are shown with rows of another
    response: ``energy,emission``.
    """
    parts = text.split(",")
    if len(parts) != 2 or not all(p.isascii() and p.isdecimal() and len(p) < 20 for p in parts):
        raise InvalidInput(
            f"Invalid largest figures: {text[:40]!r}.", field="largest", hint="Remove them."
        )
    return [Figure(energy_mj=int(parts[0]), emission_ug=int(parts[1]))]


def _largest_text(figures: Sequence[Figure]) -> str:
    energy_mj = max((figure.energy_mj for figure in figures), default=0)
    return f"{energy_mj},{max((figure.emission_ug for figure in figures), default=0)}"


def runs_by_id(ids: Iterable[int]) -> list[Run]:
    """Return runs in the order of their ids. One query."""
    ids = list(ids)
    runs = Run.objects.select_related("project", "charged_project", "node", "user").in_bulk(ids)
    return [runs[pk] for pk in ids if pk in runs]


def runs_page(*, lab: Lab, params: QueryDict, now: int, visibility: Visibility) -> RunsPage:
    """Return a page of runs. The number of queries does not depend on the number of rows."""
    runs, filters = runs_filtered(
        lab, {name: str(value) for name, value in params.items()}, visibility, now
    )
    view, names = table_view(params), metric_columns(filters["columns"])
    number, clip = _page_number(params.get("page", "1")), clip_of(lab, filters, now)
    table = _read_table(
        lab, runs, view, clip, number, now, visibility,
        with_sums=bool(params.get("sums")), with_rows=not params.get("largest"),
    )  # fmt: skip
    is_more = len(table.groups if view.group else table.rows) > PAGE_ROWS
    listed = {row.run_id: row for row in table.rows[: None if view.group else PAGE_ROWS]}
    page_runs = runs_by_id(listed)
    if params.get("largest"):
        figures = _largest(str(params["largest"]))
    elif view.group:
        figures = [sums.figure for sums in table.groups.values()]
    else:
        figures = [row.figure for row in listed.values() if row.figure]
    units = column_units(figures)
    is_closed = bool(view.group) and not listed
    is_model_shown = "model" in view.show
    rows, _ = figure_rows(
        lab, page_runs, listed, now, visibility, names, clip, units, with_model=is_model_shown
    )
    address = _Address(filters, view)
    query = urlencode(view_query(filters, view))
    return RunsPage(
        rows=[] if view.group else rows,
        groups=_groups(lab, table, rows, units, address) if view.group else [],
        runs=table.runs,
        total=_total(lab, table, rows, units, is_whole=not (view.group or is_more or number > 1)),
        sums_href="" if table.total else address.of(page=str(number), sums="1"),
        sums_only_href="" if table.total else address.of(sums="1", largest=_largest_text(figures)),
        units=units,
        filters=filters,
        view=view,
        columns=[
            _column(TABLE_COLUMNS[name], units, address, lab.currency)
            for name in view.show
            if name in SUMMED or not is_closed
        ],
        choices=[(column, column.name in view.show) for column in TABLE_COLUMNS.values()],
        name_sort=address.sort("name"),
        cells=[] if is_closed else _cell_heads(names, page_runs, address),
        is_filtered=any(filters[name] for name in _MORE),
        number_of_filters=sum(bool(filters[name]) for name in _FOLDED),
        intents=list(Intent.choices),
        projects=[*lab.projects.values_list("slug", "name"), (UNATTRIBUTED, "Unattributed")],
        states=[(state.value, state.label) for state in RunState],
        group_choices=list(GROUPS.items()),
        page=number,
        older=address.of(page=str(number + 1)) if is_more else "",
        newer=address.of(page=str(number - 1)) if number > 1 else "",
        csv=f"{reverse('runs-csv')}?{query}",
        query=query,
        energy_of=PERIOD if clip else WHOLE_RUN,
        period=listed_period(lab, filters, now),
        column_suggestions=_column_suggestions(names, page_runs),
        any_runs=bool(table.runs) or Run.objects.filter(lab=lab).exists(),
    )


@dataclass(frozen=True)
class _Address:
    """Addresses of the list with one part changed."""

    filters: Mapping[str, str]
    view: TableView

    def of(
        self, *, page: str = "", sums: str = "", largest: str = "",
        view: TableView | None = None, **filters: str,
    ) -> str:  # fmt: skip
        pairs = view_query({**self.filters, **filters}, view or self.view)
        parts = {"page": page, "sums": sums, "largest": largest}
        more = [(name, value) for name, value in parts.items() if value]
        return "?" + urlencode([*pairs, *more])

    def sort(self, name: str) -> Sort:
        """Return the order of a column: descending first, names ascending."""
        is_current = self.view.sort_name == name
        is_text_first = name in ("name", "project", "user", "node", "sweep", "model")
        is_descending = not self.view.is_descending if is_current else not is_text_first
        direction = ("descending" if self.view.is_descending else "ascending") if is_current else ""
        sort = f"-{name}" if is_descending else name
        return Sort(self.of(view=self._view(sort=sort)), direction)

    def toggle(self, key: str) -> str:
        opened = self.view.open_groups
        changed = tuple(k for k in opened if k != key) if key in opened else (*opened, key)
        return self.of(view=self._view(open_groups=changed))

    def ungrouped(self, **filters: str) -> str:
        return self.of(view=self._view(group="", open_groups=()), **filters)

    def _view(self, **changes: object) -> TableView:
        return replace(self.view, **changes)  # type: ignore[arg-type]


def _column(column: TableColumn, units: Units, address: _Address, currency: str) -> Column:
    unit = {
        "energy": units.energy.name, "emission": units.emission.name, "cost": currency,
    }.get(column.name, "")  # fmt: skip
    return Column(column, address.sort(column.sort) if column.sort else None, unit)


def _cell_heads(
    names: Sequence[str], runs: Sequence[Run], address: _Address
) -> list[tuple[str, Sort | None]]:
    """Return the chosen parameters and metrics. A metric of a run on the page has an order."""
    if not names:
        return []
    metrics = set(
        Metric.objects.filter(run__in=runs, name__in=names).values_list("name", flat=True)
    )
    return [
        (name, address.sort(f"{METRIC_SORT}{name}") if name in metrics else None) for name in names
    ]


def _column_suggestions(names: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """Return values for the field of columns: the current ones and one metric of the listed runs
    each. One query.
    """
    if not runs or len(names) >= MOST_COLUMNS:
        return []
    metrics = (
        Metric.objects.filter(run__in=runs).exclude(name__in=names).exclude(name__contains=",")
    )
    offered = metrics.order_by("name").values_list("name", flat=True).distinct()
    return [", ".join((*names, name)) for name in offered[:MOST_SUGGESTIONS]]


def _sums(lab: Lab, sums: TableSums, units: Units) -> Sums:
    figure = sums.figure
    is_cost_known = sums.measured and (
        not figure.energy_mj or figure.without_price_mj != figure.energy_mj
    )
    is_emission_known = sums.measured and (figure.emission_ug or not figure.without_factor_mj)
    return Sums(
        runs=sums.runs,
        unmeasured=sums.unmeasured,
        duration=duration(sums.duration_us),
        energy_mj=figure.energy_mj,
        emission_ug=figure.emission_ug,
        cost_ucurrency=figure.cost_ucurrency,
        energy=estimated(figure.energy_mj, "energy_mj", units.energy) if sums.measured else None,
        emission=estimated(
            figure.emission_ug,
            "emission_ug",
            units.emission,
            at_least=bool(figure.without_factor_mj),
        )
        if is_emission_known
        else None,
        cost=_cost(figure.cost_ucurrency, lab.currency, at_least=bool(figure.without_price_mj))
        if lab.currency and is_cost_known
        else None,
        apart=[_cost(amount, currency) for currency, amount in sorted(sums.apart.items())],
    )


def _cost(value: int, currency: str, *, at_least: bool = False) -> Projected:
    return estimated(value, COST, at_least=at_least, currency=currency)


def _total(
    lab: Lab, table: RunTable, rows: Sequence[RunRow], units: Units, *, is_whole: bool
) -> Sums | None:
    """Return the sums of all filtered runs, None if only the page was read. With an explanation if
    the page lists all of them.
    """
    if table.total is None:
        return None
    sums = _sums(lab, table.total, units)
    measured = [row for row in rows if row.figures]
    if not is_whole or not 0 < len(measured) <= MOST_RUNS:
        return sums
    queries = [row.figures.energy.query for row in measured if row.figures]
    query = FigureQuery(
        "energy_mj",
        min(query.from_hour for query in queries),
        max(query.to_hour for query in queries),
        "runs",
        ",".join(str(row.run.uuid) for row in measured),
        basis=lab.basis,
    )
    return replace(
        sums,
        figures=energy_and_emissions(query, table.total.figure, units),
        explained_cost=cost_quantity(lab, query, table.total.figure),
    )


def _groups(
    lab: Lab, table: RunTable, rows: Sequence[RunRow], units: Units, address: _Address
) -> list[Group]:
    group, opened = address.view.group, address.view.open_groups
    by_run = {row.run.pk: row for row in rows}
    labels = _labels(lab, group, list(table.groups))
    groups = []
    for key, sums in list(table.groups.items())[:PAGE_ROWS]:
        label, filter_value = labels[key]
        listed = [by_run[row.run_id] for row in table.rows if row.group == key]
        groups.append(
            Group(
                key=key,
                label=label,
                sums=_sums(lab, sums, units),
                is_open=key in opened,
                toggle=address.toggle(key),
                listing=address.ungrouped(**filter_value) if filter_value else "",
                rows=listed,
            )
        )
    return groups


def _labels(lab: Lab, group: str, keys: Sequence[str]) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the label and the filter of each group. At most one query."""
    if group == "project":
        names = dict(lab.projects.filter(slug__in=keys).values_list("slug", "name"))
        return {
            key: (names.get(key, key), {"project": key})
            if key
            else ("Unattributed", {"project": UNATTRIBUTED})
            for key in keys
        }
    if group == "person":
        people = User.objects.in_bulk([int(key) for key in keys if key.isdecimal()])
        labels: dict[str, tuple[str, dict[str, str]]] = {
            "": ("Unknown person", {"person": NO_VALUE}),
            HIDDEN_PERSON: (ANONYMISED.capitalize(), {}),
        }
        for pk, person in people.items():
            name = person.get_full_name() or person.get_username()
            labels[str(pk)] = (name, {"person": person.get_username()})
        return labels
    if group == "sweep":
        return {key: (key or "No sweep", {"sweep": key or NO_VALUE}) for key in keys}
    is_listable = {key: bool(key) and not {",", "="} & set(key) for key in keys}
    return {
        key: (key or "Model unknown", {"params": f"model={key}"} if is_listable[key] else {})
        for key in keys
    }
