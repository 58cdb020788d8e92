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
from django.db.models import F, QuerySet

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure, figure_of, normal
from apps.carbon.figures.run_table_query import TableQuery
from apps.carbon.figures.run_table_sql import APART, GROUP, ROW, TOTAL, statement
from apps.core.sql import fetch_rows, placeholders, uuid_param
from apps.runs.models import Run


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
    """``runs``: number of all filtered runs. ``total``: their sums, None if they were not read.
    ``groups``: in order, by key. ``rows``: of the page, or of the open groups.
    """

    runs: int
    total: TableSums | None
    groups: dict[str, TableSums]
    rows: list[TableRow]


def run_table(lab: Lab, runs: QuerySet[Run], query: TableQuery) -> RunTable:
    """Return the requested part of the table of ``runs``. One query."""
    try:
        sql, params = statement(lab, runs, query)
    except EmptyResultSet:  # a filter that no run can match
        return RunTable(0, TableSums(0, 0, 0, 0, Figure()), {}, [])
    total, groups, rows = None, dict[str, TableSums](), []
    apart: dict[tuple[int, int, str], dict[str, int]] = defaultdict(dict)
    listed = sorted(fetch_rows(sql, params), key=lambda row: (-row["part"], row["place"]))
    for row in listed:
        if row["part"] == APART:
            key = (row["place"], row["id"], row["grp"])
            apart[key][row["currency"]] = int(row["cost_ucurrency"])
        elif row["part"] == TOTAL:
            total = _sums(row, apart[TOTAL, 0, ""])
        elif row["part"] == GROUP:
            groups[row["grp"]] = _sums(row, apart[GROUP, 0, row["grp"]])
        else:
            figure = _figure(row) if row["entries"] else None
            rows.append(TableRow(row["id"], row["grp"], figure, apart[ROW, row["id"], ""]))
    return RunTable(total.runs if total else len(rows), total, groups, rows)


def run_table_page(lab: Lab, runs: QuerySet[Run], query: TableQuery, number: int) -> RunTable:
    """Return a page of ``runs`` without sums, for many runs (``number``). At most two queries: in
    an order of their own columns, figures are read of the page only.
    """
    query = replace(query, with_sums=False)
    if isinstance(query.sort, str):
        return replace(run_table(lab, runs, query), runs=number)
    order = F("sort_key").desc if query.descending else F("sort_key").asc
    is_last = {} if query.sort == F("started_us") else {"nulls_last": True}
    ordered = runs.annotate(sort_key=query.sort).order_by(order(**is_last), "-started_us", "-id")
    stop = None if query.limit is None else query.offset + query.limit
    ids = list(ordered.values_list("id", flat=True)[query.offset : stop])
    listed = Run.objects.filter(lab=lab, pk__in=ids)
    return replace(
        run_table(lab, listed, replace(query, offset=0, limit=None, number=len(ids))), runs=number
    )


def _figure(row: dict[str, Any]) -> Figure:
    return figure_of({**row, "without_price_mj": row["energy_mj"] - row["priced_mj"]})


def _sums(row: dict[str, Any], apart: dict[str, int]) -> TableSums:
    row = {name: 0 if value is None else value for name, value in row.items()}
    return TableSums(
        runs=row["runs"],
        measured=row["measured"],
        without_factor=row["unpriced"],
        duration_us=row["duration_us"],
        figure=_figure(row),
        apart=apart,
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
