"""SQL of the table of runs (run_table): one statement for its sums, groups and rows.

Sums read each run once, with its total beside it. What the totals lack is added as rows of its own,
so that no run is joined with it. The order is found with the columns of its key only. All other
columns are read for the rows of the page.
"""

from typing import Any

from django.db.models import CharField, QuerySet, Value
from django.db.models.functions import Cast

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.figures.run_table_query import ALL_HOURS, FIGURE_SORTS, TableQuery
from apps.carbon.figures.sql import FACTOR, PRICE, PRICED
from apps.carbon.rollups.reader import SUMS, USE_SUMS, rows_in_spans_sql, spans_sql
from apps.core.sql import cost_sql, emission_sql, facility_sql, filter_sql, placeholders
from apps.fleet.choices import CURRENCIES
from apps.runs.models import Run

TOTAL, GROUP, ROW, APART = 0, 1, 2, 3  # parts of the result
FEW, VERY_FEW = 5_000, 100  # runs
_NO_CURRENCY = "-"
_COSTS = ("cost_ucurrency", "priced_mj")
# Table and column of a total: energy by price is its own column.
_STORED = {
    **{name: f"k.{name}" for name in SUMS},
    "cost_ucurrency": "m.cost_ucurrency",
    "priced_mj": "m.energy_mj",
}
_COUNTS = ("runs", "measured", "unpriced", "duration_us")
_FIGURE = (*SUMS, *_COSTS)


def statement(lab: Lab, runs: QuerySet[Run], query: TableQuery) -> tuple[str, list[Any]]:
    """Return the statement of a table and its parameters. Columns: part, place, id, grp, currency,
    _COUNTS, _FIGURE.
    """
    table = _Table(lab, query)
    filtered, params = _filtered_sql(runs, query)
    figures, figure_params = _figures_sql(lab, query)
    params += figure_params
    tables, parts = [], []
    if query.with_sums or query.group is not None:
        tables += table.sums()
        parts += table.total()
    if query.group is not None:
        parts += table.groups()
    if query.with_rows and (query.group is None or query.open_groups):
        tables.append(table.listed())
        params += query.open_groups
        parts += table.rows()
    # Of few runs, the filter costs most; of many, a copy of them.
    is_few = query.number is not None and query.number <= FEW
    copy = "MATERIALIZED" if is_few else "NOT MATERIALIZED"
    sql = (
        f"WITH q(id, uuid, started_us, duration_us, sort_key, grp) AS {copy} ({filtered}), "
        f"{figures}, {', '.join(tables)} {' UNION ALL '.join(parts)}"
    )
    return sql, params


class _Table:
    """Parts of the statement. The total of a run is ``k``, its cost ``m``, what they lack ``x``,
    costs in other currencies ``o``.
    """

    def __init__(self, lab: Lab, query: TableQuery) -> None:
        self.query, self.is_whole = query, query.hours is None
        self.way = "DESC" if query.descending else "ASC"
        key = FIGURE_SORTS[query.sort][0] if isinstance(query.sort, str) else "sort_key"
        self.order = f"{key} {self.way} NULLS LAST, started_us DESC, id DESC"
        self.key = key
        lab_id = int(lab.pk)
        self.stored = {
            "k": f"LEFT JOIN carbon_runtotal k ON k.lab_id = {lab_id} AND k.run_uuid = q.uuid",
            "m": f"LEFT JOIN carbon_runcost m ON m.lab_id = {lab_id} "
            f"AND m.currency = '{currency_of(lab)}' AND m.run_uuid = q.uuid",
        }
        if not self.is_whole:
            self.stored = {"k": "", "m": ""}
        if not query.with_costs:
            self.stored["m"] = ""

    def _value(self, name: str) -> str:
        """Return SQL for a sum of a run ``q``, joined with all of its parts."""
        if name in _COSTS and not self.query.with_costs:
            return "0"
        if not self.is_whole:
            return f"COALESCE(x.{name}, 0)"
        return f"COALESCE({_STORED[name]}, 0) + COALESCE(x.{name}, 0)"

    def _is_positive(self, name: str, *, stored_only: bool = False) -> str:
        value = _STORED[name] if stored_only else self._value(name)
        return f"CASE WHEN {value} > 0 THEN 1 ELSE 0 END"

    def sums(self) -> list[str]:
        """Return tables ``h`` (sums by group) and ``c`` (costs in other currencies by group)."""
        query, whole, costs = self.query, self.is_whole, self.query.with_costs
        names = _FIGURE if costs else SUMS
        stored = ", ".join(f"{_STORED[name] if whole else 0} AS {name}" for name in names)
        flags = [
            self._is_positive(name, stored_only=True) if whole else "0"
            for name in ("entries", "without_factor_mj")
        ]
        changes = [
            f"{self._is_positive(name)}{f' - {flag}' if whole else ''}"
            for name, flag in zip(("entries", "without_factor_mj"), flags, strict=True)
        ]
        sums = ", ".join(f"COALESCE(SUM({name}), 0) AS {name}" for name in (*_COUNTS, *names))
        zero = "" if costs else ", 0 AS cost_ucurrency, 0 AS priced_mj"
        is_grouped = query.group is not None
        tables = [
            (
                f"h AS MATERIALIZED (SELECT {'grp' if is_grouped else chr(39) * 2 + ' AS grp'}, "
                f"{sums}{zero} FROM (SELECT q.grp, 1 AS runs, {flags[0]} AS measured, "
                f"{flags[1]} AS unpriced, q.duration_us, "
                f"{stored} "
                f"FROM q {self.stored['k']} {self.stored['m']} UNION ALL "
                f"SELECT q.grp, 0, {changes[0]}, {changes[1]}, 0, "
                f"{', '.join(f'x.{name}' for name in names)} FROM x JOIN q ON q.uuid = x.run_uuid "
                f"{self.stored['k']}) v {'GROUP BY grp' if is_grouped else ''})"
            )
        ]
        if costs:
            tables.append(
                "c AS MATERIALIZED (SELECT q.grp, o.currency, SUM(o.cost_ucurrency) AS "
                "cost_ucurrency FROM o JOIN q ON q.uuid = o.run_uuid GROUP BY q.grp, o.currency "
                "HAVING SUM(o.energy_mj) <> 0)"
            )
        if is_grouped:
            key = FIGURE_SORTS.get(query.group_sort, ("", "duration_us"))[1]
            tables.append(
                # the runs without a value of their own are last
                "p AS MATERIALIZED (SELECT h.*, ROW_NUMBER() OVER (ORDER BY "
                f"CASE grp WHEN '' THEN 1 ELSE 0 END, {key} {self.way}, grp) AS place "
                f"FROM h ORDER BY place{self._page()})"
            )
        return tables

    def total(self) -> list[str]:
        """Return SELECTs of the sums of all runs."""
        sums = ", ".join(f"SUM({name}) AS {name}" for name in (*_COUNTS, *_FIGURE))
        parts = [
            f"SELECT {TOTAL} AS part, 0 AS place, 0 AS id, '' AS grp, '' AS currency, {sums} FROM h"
        ]
        if self.query.with_costs:
            amount = "SUM(cost_ucurrency)"
            parts.append(f"{_apart(TOTAL, '0', _EMPTY, amount)} FROM c GROUP BY currency")
        return parts

    def groups(self) -> list[str]:
        """Return SELECTs of the sums of each group of the page."""
        names = ", ".join((*_COUNTS, *_FIGURE))
        parts = [f"SELECT {GROUP}, place, 0, grp, '', {names} FROM p"]
        if self.query.with_costs:
            apart = _apart(GROUP, "0", "c.grp", "c.cost_ucurrency")
            parts.append(f"{apart} FROM p JOIN c ON c.grp = p.grp")
        return parts

    def listed(self) -> str:
        """Return table ``s``: the runs of the page, or the first ones of the open groups."""
        query, x = self.query, "LEFT JOIN x ON x.run_uuid = q.uuid"
        joins = {
            "energy_key": f"{self.stored['k']} {x}",
            "emission_key": f"{self.stored['k']} {x}",
            "cost_key": f"{self.stored['k']} {self.stored['m']} {x}",
            "sort_key": "",
        }[self.key]
        keyed = f"SELECT q.id, q.started_us, {self._key()} AS {self.key} FROM q {joins}"
        place = f"ROW_NUMBER() OVER (ORDER BY {self.order})"
        if query.group is None:
            page = f"SELECT * FROM ({keyed}) v ORDER BY {self.order}{self._page()}"
            listed = f"SELECT id, {place} AS place FROM ({page}) w"
        else:
            place = f"ROW_NUMBER() OVER (PARTITION BY grp ORDER BY {self.order})"
            opened = placeholders(query.open_groups)
            keyed = f"{keyed.replace('q.id', 'q.id, q.grp', 1)} WHERE q.grp IN ({opened})"
            listed = (
                f"SELECT id, place FROM (SELECT w.*, {place} AS place FROM ({keyed}) w) v "
                f"WHERE place <= {int(query.group_rows)}"
            )
        return (
            "s AS MATERIALIZED (SELECT q.id, q.uuid, q.grp, q.duration_us, l.place FROM "
            f"({listed}) l JOIN q ON q.id = l.id)"
        )

    def _key(self) -> str:
        """Return SQL for the key of the order of runs: null is unknown."""
        energy, emission, cost = map(self._value, ("energy_mj", "emission_ug", "cost_ucurrency"))
        is_measured = f"{self._value('entries')} > 0"
        return {
            "energy_key": f"CASE WHEN {is_measured} THEN {energy} END",
            "emission_key": f"CASE WHEN {is_measured} AND ({self._value('without_factor_mj')} = 0 "
            f"OR {emission} <> 0) THEN {emission} END",
            "cost_key": f"CASE WHEN {is_measured} AND ({energy} = 0 OR {self._value('priced_mj')} "
            f"<> 0) THEN {cost} END",
            "sort_key": "q.sort_key",
        }[self.key]

    def rows(self) -> list[str]:
        """Return SELECTs of the runs of the page."""
        values = ", ".join(f"{self._value(name)} AS {name}" for name in _FIGURE)
        parts = [
            (
                f"SELECT {ROW} AS part, place, q.id, q.grp, '' AS currency, 1 AS runs, "
                f"0 AS measured, 0 AS unpriced, q.duration_us, {values} FROM s q "
                f"{self.stored['k']} {self.stored['m']} LEFT JOIN x ON x.run_uuid = q.uuid"
            )
        ]
        if self.query.with_costs:
            parts.append(
                f"{_apart(ROW, 's.id', _EMPTY, 'SUM(o.cost_ucurrency)')} FROM s JOIN o ON "
                "o.run_uuid = s.uuid GROUP BY s.id, o.currency HAVING SUM(o.energy_mj) <> 0"
            )
        return parts

    def _page(self) -> str:
        query = self.query
        return f" LIMIT {int(query.limit)} OFFSET {int(query.offset)}" if query.limit else ""


_EMPTY = "''"


def _apart(part: int, run_id: str, group: str, amount: str) -> str:
    """Return the SELECT of a cost in another currency: of what it is stands in its place."""
    figures = ", ".join(amount if name == "cost_ucurrency" else "0" for name in _FIGURE)
    return f"SELECT {APART}, {part}, {run_id}, {group}, currency, 0, 0, 0, 0, {figures}"


def currency_of(lab: Lab) -> str:
    """Return the lab's currency for SQL."""
    return lab.currency if lab.currency in CURRENCIES else _NO_CURRENCY


def _filtered_sql(runs: QuerySet[Run], query: TableQuery) -> tuple[str, list[Any]]:
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
    return sql, list(params)


def _figures_sql(lab: Lab, query: TableQuery) -> tuple[str, list[Any]]:
    """Return tables of a WITH clause: sums ``x`` (run_uuid, _FIGURE) and costs in other currencies
    ``o`` of the period, or what the totals of runs lack (negative for stale days).
    """
    spans, params = spans_sql(lab, RollupKind.USE, *(query.hours or ALL_HOURS))
    spans = spans.strip().removeprefix("WITH ")
    ledger = (
        "SELECT c.run_uuid, COALESCE(pr.currency, '') AS currency, e.energy_mj, "
        f"COALESCE({facility_sql('e.energy_mj', 'a.pue_ppm')}, 0) AS facility_energy_mj, "
        f"COALESCE({emission_sql('e.energy_mj', 'a.pue_ppm', FACTOR)}, 0) AS emission_ug, "
        "CASE WHEN f.id IS NULL THEN e.energy_mj ELSE 0 END AS without_factor_mj, 1 AS entries, "
        f"COALESCE({cost_sql('e.energy_mj', 'a.pue_ppm', PRICE)}, 0) "
        f"AS cost_ucurrency FROM {rows_in_spans_sql(lab, 'g', 'energy_ledgerentry', 'e')} {PRICED} "
        "WHERE e.lab_id = %s AND e.hour >= g.from_hour AND e.hour < g.to_hour "
        f"AND c.run_uuid IS NOT NULL{_of_runs('e', query)}"
    )
    source, sign, stored = "b", "", ""
    if query.hours is None:  # totals contain all days: those that are not valid are subtracted
        source, sign = "n", "-"
        spans += (
            ", n AS (SELECT d.id FROM carbon_rolledday d WHERE d.lab_id = %s AND d.what = %s "
            "AND d.id NOT IN (SELECT id FROM b))"
        )
        params += [lab.pk, RollupKind.USE.value]
        stored = (
            "SELECT run_uuid, currency, energy_mj, cost_ucurrency FROM carbon_runcost "
            f"WHERE lab_id = {int(lab.pk)} AND currency <> '{currency_of(lab)}' UNION ALL "
        )
    params += [lab.basis, lab.pk]
    days = (
        f"SELECT c.run_uuid, u.currency, {', '.join(f'{sign}u.{name}' for name in USE_SUMS)} "
        f"FROM {source} CROSS JOIN carbon_useday u CROSS JOIN ingest_consumer c "
        f"WHERE u.day_id = {source}.id AND c.id = u.consumer_id AND c.run_uuid IS NOT NULL"
        f"{_of_runs('u', query)}"
    )
    use = f"({ledger} UNION ALL {days}) w"
    # Sums of a run are integers of 64 bits, as in its total. PostgreSQL's SUM returns numeric, with
    # which the keys of all runs would be computed.
    if not query.with_costs:
        sums = ", ".join(f"CAST(SUM({name}) AS bigint) AS {name}" for name in SUMS)
        x = f"SELECT run_uuid, {sums}, 0 AS cost_ucurrency, 0 AS priced_mj FROM {use}"
        return f"{spans}, x AS MATERIALIZED ({x} GROUP BY run_uuid)", params
    is_own = f"currency = '{currency_of(lab)}'"
    own = {
        **{name: name for name in SUMS},
        "cost_ucurrency": f"CASE WHEN {is_own} THEN cost_ucurrency ELSE 0 END",
        "priced_mj": f"CASE WHEN {is_own} THEN energy_mj ELSE 0 END",
    }
    sums = ", ".join(f"SUM({name}) AS {name}" for name in USE_SUMS)
    sums_of_run = ", ".join(f"CAST(SUM({sql}) AS bigint) AS {name}" for name, sql in own.items())
    others = (
        f"{stored}SELECT run_uuid, currency, energy_mj, cost_ucurrency FROM r "
        f"WHERE NOT {is_own} AND currency <> ''"
    )
    return (
        f"{spans}, r AS MATERIALIZED (SELECT run_uuid, currency, {sums} FROM {use} "
        f"GROUP BY run_uuid, currency), x AS MATERIALIZED (SELECT run_uuid, {sums_of_run} FROM r "
        f"GROUP BY run_uuid), o AS MATERIALIZED ({others})"
    ), params


def _of_runs(table: str, query: TableQuery) -> str:
    """Return SQL that limits use to very few runs before it is priced. It is still found by hour:
    a run of a year has more use than all runs have on a day.
    """
    if query.number is None or query.number > VERY_FEW:
        return ""
    consumers = "SELECT c.id FROM q JOIN ingest_consumer c ON c.run_uuid = q.uuid"
    return f" AND {filter_sql(f'{table}.consumer_id', consumers)}"
