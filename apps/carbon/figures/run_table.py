"""The table of runs: order, one page, groups and sums of any number of runs with their energy.

One statement, whose time does not depend on the length of the period: totals of runs over rolled
days (RunTotal) less stale days, and the ledger of all other hours. With a period, its days and
hours only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db.models import CharField, Expression, F, QuerySet, Subquery, Value
from django.db.models.functions import Cast

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.figures.energy import Figure, figure_of, normal
from apps.carbon.figures.sql import PRICED
from apps.carbon.rollups.reader import SUMS, spans_sql
from apps.core.sql import (
    emission_sql,
    facility_sql,
    fetch_rows,
    placeholders,
    uuid_param,
)
from apps.runs.models import Run

ENERGY, EMISSION = "energy", "emission"  # sort orders by a figure
FIGURE_SORTS = (ENERGY, EMISSION)
ALL_HOURS = (0, 10**7)  # beyond every hour of a ledger
_TOTAL, _GROUP, _ROW = 0, 1, 2


@dataclass(frozen=True)
class TableQuery:
    """The requested part of a table.

    ``sort``: ENERGY, EMISSION, or an expression over runs; unknown values are last in both
    directions. ``hours``: period of the energy, None for whole runs. ``limit`` None: all runs.
    ``group``: an expression for the key of a run's group as text. With it there are no rows except
    the first ``group_rows`` of the groups in ``open_groups``; ``limit`` and ``offset`` are of
    groups. ``group_sort``: ENERGY, EMISSION or 'duration'.
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
    ``without_factor``: measured runs whose emissions are unknown or incomplete.
    """

    runs: int
    measured: int
    without_factor: int
    duration_us: int
    figure: Figure

    @property
    def unmeasured(self) -> int:
        return self.runs - self.measured


@dataclass(frozen=True)
class TableRow:
    """A run of a page. ``figure`` None: no energy in the ledger."""

    run_id: int
    group: str
    figure: Figure | None


@dataclass(frozen=True)
class RunTable:
    """``total``: of all filtered runs. ``groups``: in order, by key. ``rows``: of the page, or of
    the open groups.
    """

    total: TableSums
    groups: dict[str, TableSums]
    rows: list[TableRow]


def run_table(lab: Lab, runs: QuerySet[Run], query: TableQuery) -> RunTable:
    """Return the requested part of the table of ``runs``. One query."""
    try:
        sql, params = _statement(lab, runs, query)
    except EmptyResultSet:  # a filter that no run can match
        return RunTable(TableSums(0, 0, 0, 0, Figure()), {}, [])
    total, groups, rows = TableSums(0, 0, 0, 0, Figure()), dict[str, TableSums](), []
    for row in sorted(fetch_rows(sql, params), key=lambda row: (row["part"], row["place"])):
        if row["part"] == _TOTAL:
            total = _sums(row)
        elif row["part"] == _GROUP:
            groups[row["grp"]] = _sums(row)
        else:
            figure = figure_of(row) if row["entries"] else None
            rows.append(TableRow(row["id"], row["grp"], figure))
    return RunTable(total, groups, rows)


def _sums(row: dict[str, Any]) -> TableSums:
    return TableSums(
        runs=row["runs"],
        measured=row["measured"] or 0,
        without_factor=row["unpriced"] or 0,
        duration_us=row["duration_us"] or 0,
        figure=figure_of(row),
    )


def _statement(lab: Lab, runs: QuerySet[Run], query: TableQuery) -> tuple[str, list[Any]]:
    filtered, filter_params = _filtered_sql(runs, query)
    figures, figure_params = _figures_sql(lab, query.hours)
    columns = ", ".join(SUMS)
    key = {ENERGY: "energy_key", EMISSION: "emission_key"}.get(str(query.sort), "sort_key")
    way = "DESC" if query.descending else "ASC"
    order = f"CASE WHEN {key} IS NULL THEN 1 ELSE 0 END, {key} {way}, started_us DESC, id DESC"
    sums = (
        "COUNT(*) AS runs, SUM(CASE WHEN entries > 0 THEN 1 ELSE 0 END) AS measured, "
        "SUM(CASE WHEN without_factor_mj > 0 THEN 1 ELSE 0 END) AS unpriced, "
        f"SUM(duration_us) AS duration_us, {', '.join(f'SUM({name}) AS {name}' for name in SUMS)}"
    )
    parts = [f"SELECT {_TOTAL} AS part, 0 AS place, 0 AS id, '' AS grp, {sums} FROM t"]
    params = [*figure_params, *filter_params, *([lab.pk] if query.hours is None else [])]
    page = f" LIMIT {int(query.limit)} OFFSET {int(query.offset)}" if query.limit else ""
    row_columns = f"id, grp, 1, 0, 0, duration_us, {columns}"
    if query.group is not None:
        group_key = {ENERGY: "energy_mj", EMISSION: "emission_ug"}.get(
            query.group_sort, "duration_us"
        )
        parts.append(
            f"SELECT {_GROUP}, ROW_NUMBER() OVER (ORDER BY {group_key} {way}, grp), 0, grp, runs, "
            f"measured, unpriced, duration_us, {columns} FROM (SELECT grp, {sums} FROM t GROUP BY "
            f"grp ORDER BY {group_key} {way}, grp{page}) h"
        )
        if query.open_groups:
            parts.append(
                f"SELECT {_ROW}, place, {row_columns} FROM (SELECT t.*, ROW_NUMBER() OVER "
                f"(PARTITION BY grp ORDER BY {order}) AS place FROM t WHERE grp IN "
                f"({placeholders(query.open_groups)})) s WHERE place <= {int(query.group_rows)}"
            )
            params += query.open_groups
    else:
        parts.append(
            f"SELECT {_ROW}, ROW_NUMBER() OVER (ORDER BY {order}), {row_columns} FROM "
            f"(SELECT * FROM t ORDER BY {order}{page}) s"
        )
    is_whole = query.hours is None
    values = ", ".join(
        f"COALESCE(k.{name}, 0) + COALESCE(x.{name}, 0) AS {name}"
        if is_whole
        else f"COALESCE(x.{name}, 0) AS {name}"
        for name in SUMS
    )
    totals = "LEFT JOIN carbon_runtotal k ON k.lab_id = %s AND k.run_uuid = q.uuid"
    sql = (
        f"{figures}, q(id, uuid, started_us, duration_us, sort_key, grp) AS ({filtered}), "
        "t AS MATERIALIZED (SELECT v.*, CASE WHEN entries > 0 THEN energy_mj END AS energy_key, "
        "CASE WHEN entries > 0 AND (without_factor_mj = 0 OR emission_ug <> 0) THEN emission_ug "
        "END AS emission_key FROM (SELECT q.id, q.grp, q.started_us, q.duration_us, q.sort_key, "
        f"{values} FROM q {totals if is_whole else ''} LEFT JOIN x ON x.run_uuid = q.uuid) v) "
        f"{' UNION ALL '.join(parts)}"
    )
    return sql, params


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
    """Return a WITH clause with sums ``x`` (run_uuid, SUMS): of the period, or what the totals of
    runs lack (negative for stale days).
    """
    spans, params = spans_sql(lab, RollupKind.USE, *(hours or ALL_HOURS))
    added = ", ".join(f"u.{name}" for name in SUMS)
    ledger = (
        "SELECT e.consumer_id, e.energy_mj, "
        f"COALESCE({facility_sql('e.energy_mj', 'a.pue_ppm')}, 0) AS facility_energy_mj, "
        f"COALESCE({emission_sql('e.energy_mj', 'a.pue_ppm', 'f.ug_per_kwh')}, 0) AS emission_ug, "
        "CASE WHEN f.id IS NULL THEN e.energy_mj ELSE 0 END AS without_factor_mj, 1 AS entries "
        f"FROM g CROSS JOIN energy_ledgerentry e {PRICED} "
        "WHERE e.lab_id = %s AND e.hour >= g.from_hour AND e.hour < g.to_hour "
        "AND c.run_uuid IS NOT NULL"
    )
    params += [lab.basis, lab.pk]
    if hours is not None:
        days = (
            f"SELECT u.consumer_id, {added} FROM b CROSS JOIN carbon_useday u WHERE u.day_id = b.id"
        )
    else:  # RunTotal contains all days: those that are not valid are subtracted
        less = ", ".join(f"-u.{name}" for name in SUMS)
        spans += (
            ", n AS (SELECT d.id FROM carbon_rolledday d WHERE d.lab_id = %s AND d.what = %s "
            "AND d.id NOT IN (SELECT id FROM b))"
        )
        params[4:4] = [lab.pk, RollupKind.USE.value]
        days = (
            f"SELECT u.consumer_id, {less} FROM n CROSS JOIN carbon_useday u WHERE u.day_id = n.id"
        )
    changed = (
        f"SELECT c.run_uuid, {', '.join(f'SUM(w.{name}) AS {name}' for name in SUMS)} "
        f"FROM ({ledger} UNION ALL {days}) w JOIN ingest_consumer c ON c.id = w.consumer_id "
        "WHERE c.run_uuid IS NOT NULL GROUP BY c.run_uuid"
    )
    return f"{spans}, x AS MATERIALIZED ({changed})", params


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
