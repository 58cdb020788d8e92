"""The table of runs: order, one page, groups and sums of any number of runs with their energy.

One statement, whose time does not depend on the length of the period: totals of runs over rolled
days (RunTotal, RunCost) less stale days, and the ledger of all other hours. With a period, its days
and hours only. Costs are in the lab's currency; those in other ones are apart and never added.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db.models import CharField, Expression, F, QuerySet, Subquery, Value
from django.db.models.functions import Cast

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.figures.energy import Figure, figure_of, normal
from apps.carbon.figures.sql import PRICED
from apps.carbon.rollups.reader import SUMS, USE_SUMS, spans_sql
from apps.core.sql import (
    emission_sql,
    facility_sql,
    fetch_rows,
    placeholders,
    uuid_param,
)
from apps.fleet.choices import CURRENCIES
from apps.runs.models import Run

# Sort orders by a figure: {name: (key of a run, key of a group)}.
ENERGY, EMISSION, COST = "energy", "emission", "cost"
FIGURE_SORTS = {
    ENERGY: ("energy_key", "energy_mj"),
    EMISSION: ("emission_key", "emission_ug"),
    COST: ("cost_key", "cost_ucurrency"),
}
ALL_HOURS = (0, 10**7)  # beyond every hour of a ledger
_TOTAL, _GROUP, _ROW, _APART = 0, 1, 2, 3
_NO_CURRENCY = "-"
_FIGURE = ("cost_ucurrency", "without_price_mj", *SUMS)  # the fields of Figure
# Table and column of a total, and its column in the statement: energy by price is its own column.
_STORED = (
    *(("k", name, name) for name in SUMS),
    ("m", "cost_ucurrency", "cost_ucurrency"),
    ("m", "energy_mj", "priced_mj"),
)


@dataclass(frozen=True)
class TableQuery:
    """The requested part of a table.

    ``sort``: a name of FIGURE_SORTS, or an expression over runs; unknown values are last in both
    directions. ``hours``: period of the energy, None for whole runs. ``limit`` None: all runs.
    ``group``: an expression for the key of a run's group as text. With it there are no rows except
    the first ``group_rows`` of the groups in ``open_groups``; ``limit`` and ``offset`` are of
    groups. ``group_sort``: a name of FIGURE_SORTS or 'duration'.
    """

    sort: str | Expression | F | Subquery
    duration: Expression
    descending: bool = True
    hours: tuple[int, int] | None = None
    offset: int = 0
    limit: int | None = None
    group: Expression | None = None
    group_sort: str = ENERGY
    open_groups: Sequence[str] = ()
    group_rows: int = 10


@dataclass(frozen=True)
class TableSums:
    """Sums of runs. ``measured``: runs with energy in the ledger; the others are unknown.
    ``without_factor``: measured runs whose emissions are unknown or incomplete. ``apart``: costs in
    other currencies than the lab's, {currency: millionths}.
    """

    runs: int
    measured: int
    without_factor: int
    duration_us: int
    figure: Figure
    apart: dict[str, int] = field(default_factory=dict)

    @property
    def unmeasured(self) -> int:
        return self.runs - self.measured


@dataclass(frozen=True)
class TableRow:
    """A run of a page. ``figure`` None: no energy in the ledger. ``apart``: see TableSums."""

    run_id: int
    group: str
    figure: Figure | None
    apart: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunTable:
    """``runs``: number of all filtered runs. ``total``: their sums, None if only a page was read.
    ``groups``: in order, by key. ``rows``: of the page, or of the open groups.
    """

    runs: int
    total: TableSums | None
    groups: dict[str, TableSums]
    rows: list[TableRow]


def run_table(lab: Lab, runs: QuerySet[Run], query: TableQuery) -> RunTable:
    """Return the requested part of the table of ``runs``. One query."""
    try:
        sql, params = _statement(lab, runs, query)
    except EmptyResultSet:  # a filter that no run can match
        return RunTable(0, TableSums(0, 0, 0, 0, Figure()), {}, [])
    total, groups, rows = TableSums(0, 0, 0, 0, Figure()), dict[str, TableSums](), []
    apart: dict[tuple[int, int, str], dict[str, int]] = defaultdict(dict)
    listed = sorted(fetch_rows(sql, params), key=lambda row: (-row["part"], row["place"]))
    for row in listed:
        if row["part"] == _APART:
            key = (row["place"], row["id"], row["grp"])
            apart[key][row["currency"]] = int(row["cost_ucurrency"])
        elif row["part"] == _TOTAL:
            total = _sums(row, apart[_TOTAL, 0, ""])
        elif row["part"] == _GROUP:
            groups[row["grp"]] = _sums(row, apart[_GROUP, 0, row["grp"]])
        else:
            figure = figure_of(row) if row["entries"] else None
            rows.append(TableRow(row["id"], row["grp"], figure, apart[_ROW, row["id"], ""]))
    return RunTable(total.runs, total, groups, rows)


def run_table_page(lab: Lab, runs: QuerySet[Run], query: TableQuery, number: int) -> RunTable:
    """Return a page of ``runs`` without sums: for many runs (``number``) in an order of their own
    columns, where only the figures of the page have to be read. Two queries.
    """
    assert not isinstance(query.sort, str)
    order = F("sort_key").desc if query.descending else F("sort_key").asc
    is_last = {} if query.sort == F("started_us") else {"nulls_last": True}
    ordered = runs.annotate(sort_key=query.sort).order_by(order(**is_last), "-started_us", "-id")
    stop = None if query.limit is None else query.offset + query.limit
    ids = list(ordered.values_list("id", flat=True)[query.offset : stop])
    table = run_table(
        lab, Run.objects.filter(lab=lab, pk__in=ids), replace(query, offset=0, limit=None)
    )
    return RunTable(number, None, {}, table.rows)


def _sums(row: dict[str, Any], apart: dict[str, int]) -> TableSums:
    return TableSums(
        runs=row["runs"],
        measured=row["measured"] or 0,
        without_factor=row["unpriced"] or 0,
        duration_us=row["duration_us"] or 0,
        figure=figure_of(row),
        apart=apart,
    )


def _statement(lab: Lab, runs: QuerySet[Run], query: TableQuery) -> tuple[str, list[Any]]:
    is_whole = query.hours is None
    filtered, filter_params = _filtered_sql(runs, query)
    figures, figure_params = _figures_sql(lab, query.hours)
    key = FIGURE_SORTS.get(str(query.sort), ("sort_key",))[0]
    way = "DESC" if query.descending else "ASC"
    order = f"CASE WHEN {key} IS NULL THEN 1 ELSE 0 END, {key} {way}, started_us DESC, id DESC"
    sums = (
        "COUNT(*) AS runs, SUM(CASE WHEN entries > 0 THEN 1 ELSE 0 END) AS measured, "
        "SUM(CASE WHEN without_factor_mj > 0 THEN 1 ELSE 0 END) AS unpriced, "
        f"SUM(duration_us) AS duration_us, "
        f"{', '.join(f'SUM({name}) AS {name}' for name in _FIGURE)}"
    )
    columns = ", ".join(_FIGURE)
    parts = [
        f"SELECT {_TOTAL} AS part, 0 AS place, 0 AS id, '' AS grp, '' AS currency, {sums} FROM t",
        _apart_sql(_TOTAL, "0", "''", "t"),
    ]
    params = [*figure_params, *filter_params, *([lab.pk] * 2 if is_whole else [])]
    page = f" LIMIT {int(query.limit)} OFFSET {int(query.offset)}" if query.limit else ""
    tables = []
    if query.group is not None:
        group_key = FIGURE_SORTS.get(query.group_sort, ("", "duration_us"))[1]
        # the runs without a value of their own are last
        order_of_groups = f"CASE grp WHEN '' THEN 1 ELSE 0 END, {group_key} {way}, grp"
        tables.append(
            f"h AS (SELECT grp, {sums} FROM t GROUP BY grp ORDER BY {order_of_groups}{page})"
        )
        parts += [
            (
                f"SELECT {_GROUP}, ROW_NUMBER() OVER (ORDER BY {order_of_groups}), 0, grp, "
                f"'' AS currency, runs, measured, unpriced, duration_us, {columns} FROM h"
            ),
            _apart_sql(_GROUP, "0", "t.grp", "h JOIN t ON t.grp = h.grp"),
        ]
        if query.open_groups:
            tables.append(
                f"s AS (SELECT * FROM (SELECT t.*, ROW_NUMBER() OVER (PARTITION BY grp ORDER BY "
                f"{order}) AS place FROM t WHERE grp IN ({placeholders(query.open_groups)})) p "
                f"WHERE place <= {int(query.group_rows)})"
            )
            params += query.open_groups
    else:
        tables.append(
            f"s AS (SELECT p.*, ROW_NUMBER() OVER (ORDER BY {order}) AS place FROM "
            f"(SELECT * FROM t ORDER BY {order}{page}) p)"
        )
    if query.group is None or query.open_groups:
        parts += [
            f"SELECT {_ROW}, place, id, grp, '', 1, 0, 0, duration_us, {columns} FROM s",
            _apart_sql(_ROW, "t.id", "''", "s t"),
        ]
    values = ", ".join(
        f"COALESCE({table}.{name}, 0) + COALESCE(x.{column}, 0) AS {column}"
        if is_whole
        else f"COALESCE(x.{column}, 0) AS {column}"
        for table, name, column in _STORED
    )
    totals = (
        "LEFT JOIN carbon_runtotal k ON k.lab_id = %s AND k.run_uuid = q.uuid "
        f"LEFT JOIN carbon_runcost m ON m.lab_id = %s AND m.currency = '{_currency(lab)}' "
        "AND m.run_uuid = q.uuid"
    )
    sql = (
        f"{figures}, q(id, uuid, started_us, duration_us, sort_key, grp) AS ({filtered}), "
        "t AS MATERIALIZED (SELECT v.*, energy_mj - priced_mj AS without_price_mj, "
        "CASE WHEN entries > 0 THEN energy_mj END AS energy_key, "
        "CASE WHEN entries > 0 AND (without_factor_mj = 0 OR emission_ug <> 0) THEN emission_ug "
        "END AS emission_key, CASE WHEN entries > 0 AND (energy_mj = 0 OR priced_mj <> 0) THEN "
        "cost_ucurrency END AS cost_key FROM (SELECT q.id, q.uuid, q.grp, q.started_us, "
        f"q.duration_us, q.sort_key, {values} FROM q {totals if is_whole else ''} "
        f"LEFT JOIN x ON x.run_uuid = q.uuid) v), {', '.join(tables)} "
        f"{' UNION ALL '.join(parts)}"
    )
    return sql, params


def _apart_sql(part: int, run_id: str, group: str, source: str) -> str:
    """Return SQL for the costs in other currencies of the runs ``t`` in ``source``, by currency."""
    nothing = ", ".join("0" for name in _FIGURE if name != "cost_ucurrency")
    assert _FIGURE[0] == "cost_ucurrency"
    return (
        f"SELECT {_APART}, {part}, {run_id}, {group}, o.currency, 0, 0, 0, 0, "
        f"SUM(o.cost_ucurrency), {nothing} FROM {source} JOIN o ON o.run_uuid = t.uuid "
        "GROUP BY 3, 4, o.currency"
    )


def _currency(lab: Lab) -> str:
    """Return the lab's currency for SQL."""
    return lab.currency if lab.currency in CURRENCIES else _NO_CURRENCY


def _filtered_sql(runs: QuerySet[Run], query: TableQuery) -> tuple[str, Sequence[Any]]:
    """Return SQL of the filtered runs: id, uuid, started_us, duration_us, sort_key and grp."""
    is_figure = isinstance(query.sort, str) and query.sort in FIGURE_SORTS
    sort_key = Value(0) if is_figure else query.sort
    assert not isinstance(sort_key, str)
    rows = (
        runs.order_by()
        .annotate(
            duration_us=query.duration,
            sort_key=sort_key,
            grp=Cast(query.group or Value(""), CharField()),
        )
        .values_list("id", "uuid", "started_us", "duration_us", "sort_key", "grp")
    )
    sql, params = rows.query.sql_with_params()
    return sql, params


def _figures_sql(lab: Lab, hours: tuple[int, int] | None) -> tuple[str, list[Any]]:
    """Return a WITH clause with sums ``x`` (run_uuid, SUMS, cost) and costs in other currencies
    ``o``: of the period, or what the totals of runs lack (negative for stale days).
    """
    spans, params = spans_sql(lab, RollupKind.USE, *(hours or ALL_HOURS))
    ledger = (
        "SELECT e.consumer_id, COALESCE(pr.currency, '') AS currency, e.energy_mj, "
        f"COALESCE({facility_sql('e.energy_mj', 'a.pue_ppm')}, 0) AS facility_energy_mj, "
        f"COALESCE({emission_sql('e.energy_mj', 'a.pue_ppm', 'f.ug_per_kwh')}, 0) AS emission_ug, "
        "CASE WHEN f.id IS NULL THEN e.energy_mj ELSE 0 END AS without_factor_mj, 1 AS entries, "
        f"COALESCE({emission_sql('e.energy_mj', 'a.pue_ppm', 'pr.ucurrency_per_kwh')}, 0) "
        f"AS cost_ucurrency FROM g CROSS JOIN energy_ledgerentry e {PRICED} "
        "WHERE e.lab_id = %s AND e.hour >= g.from_hour AND e.hour < g.to_hour "
        "AND c.run_uuid IS NOT NULL"
    )
    params += [lab.basis, lab.pk]
    source, sign, stored = "b", "", ""
    if hours is None:  # RunTotal contains all days: those that are not valid are subtracted
        source, sign = "n", "-"
        spans += (
            ", n AS (SELECT d.id FROM carbon_rolledday d WHERE d.lab_id = %s AND d.what = %s "
            "AND d.id NOT IN (SELECT id FROM b))"
        )
        params[4:4] = [lab.pk, RollupKind.USE.value]
        stored = (
            "SELECT run_uuid, currency, energy_mj, cost_ucurrency FROM carbon_runcost "
            f"WHERE lab_id = %s AND currency <> '{_currency(lab)}' UNION ALL "
        )
        params.append(lab.pk)
    days = (
        f"SELECT u.consumer_id, u.currency, {', '.join(f'{sign}u.{name}' for name in USE_SUMS)} "
        f"FROM {source} CROSS JOIN carbon_useday u WHERE u.day_id = {source}.id"
    )
    sums = ", ".join(f"SUM(w.{name}) AS {name}" for name in USE_SUMS)
    by_currency = (
        f"SELECT c.run_uuid, w.currency, {sums} "
        f"FROM ({ledger} UNION ALL {days}) w JOIN ingest_consumer c ON c.id = w.consumer_id "
        "WHERE c.run_uuid IS NOT NULL GROUP BY c.run_uuid, w.currency"
    )
    is_own = f"currency = '{_currency(lab)}'"
    changed = (
        f"SELECT run_uuid, {', '.join(f'SUM({name}) AS {name}' for name in SUMS)}, "
        f"SUM(CASE WHEN {is_own} THEN cost_ucurrency ELSE 0 END) AS cost_ucurrency, "
        f"SUM(CASE WHEN {is_own} THEN energy_mj ELSE 0 END) AS priced_mj FROM r GROUP BY run_uuid"
    )
    others = (
        "SELECT run_uuid, currency, SUM(cost_ucurrency) AS cost_ucurrency FROM ("
        f"{stored}SELECT run_uuid, currency, energy_mj, cost_ucurrency FROM r "
        f"WHERE NOT {is_own} AND currency <> '') y GROUP BY run_uuid, currency "
        "HAVING SUM(energy_mj) <> 0"
    )
    return (
        (
            f"{spans}, r AS MATERIALIZED ({by_currency}), x AS MATERIALIZED ({changed}), "
            f"o AS MATERIALIZED ({others})"
        ),
        params,
    )


def hours_of_runs(lab: Lab, uuids: Sequence[UUID]) -> dict[UUID, tuple[int, int]]:
    """Return the hours ``[from, to)`` of the ledger entries of each run. One query."""
    if not uuids:
        return {}
    rows: Iterator[dict[str, Any]] = fetch_rows(
        "SELECT c.run_uuid, MIN(e.hour) AS from_hour, MAX(e.hour) + 1 AS to_hour "
        "FROM ingest_consumer c JOIN energy_ledgerentry e ON e.consumer_id = c.id "
        f"WHERE c.lab_id = %s AND c.run_uuid IN ({placeholders(uuids)}) GROUP BY c.run_uuid",
        [lab.pk, *(uuid_param(uuid) for uuid in uuids)],
    )
    return {
        UUID(normal(row["run_uuid"], "run")): (row["from_hour"], row["to_hour"]) for row in rows
    }
