"""Read daily rollups: figures of long periods for pages, equal to the sums of the ledgers.

One statement reads the valid rollups of a period, and the ledger for all other hours. Missing and
stale days are therefore read from the ledger.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from django.db import connection

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.figures.figure_query import ANY_WASTE, FigureQuery
from apps.carbon.figures.sql import (
    CHARGED,
    FACTOR,
    KIND,
    PRICED,
    PROJECT,
    charge_sql,
    idle_sql,
    in_currency_sql,
    metrics_sql,
    narrowed_sql,
    waste_sql,
    wasted_consumers_sql,
)
from apps.core.sql import (
    emission_sql,
    facility_sql,
    fetch_rows,
    greatest_sql,
    least_sql,
    prorated_inline_sql,
    uuid_param,
)

SHORTEST_HOURS = 23  # shortest day: shorter periods contain none
GROUPS = {
    "charge": charge_sql("x.kind"),
    "project": "p.slug",
    "node": "n.uuid",
    "quality": "x.energy_quality",
    "person": "x.person_id",
    "factor": "x.factor_id",
    "pue": "x.pue_ppm",
    "price": "pr.id",
    "consumer": "c.key",
    "run": "r.uuid",
    "os_user": "x.os_user",
    "program": "x.program",
    "stretch": "x.from_hour",
    "waste": waste_sql("x.kind"),
}
_SUBJECTS = {
    "project": (
        "x.project_id = (SELECT id FROM accounts_project WHERE lab_id = {lab} AND slug = %s)"
    ),
    "node": "x.node_id = (SELECT id FROM fleet_node WHERE lab_id = {lab} AND uuid = %s)",
    "person": "x.person_id = %s",
}
METERED = "d.kind NOT IN ('host', 'declared', 'meter')"  # devices of which windows are expected
# Groups without nodes and consumers.
_CHARGE_GROUPS = {
    name: GROUPS[name]
    for name in ("charge", "project", "quality", "person", "factor", "pue", "price", "stretch")
} | {"waste": "x.waste"}
CHARGE_KEYS = "project_id, person_id, kind, energy_quality, factor_id, pue_ppm, price_id, currency"
KEYS = f"node_id, consumer_id, os_user, program, {CHARGE_KEYS}"
SUMS = ("energy_mj", "facility_energy_mj", "emission_ug", "without_factor_mj", "entries")
USE_SUMS = (*SUMS, "cost_ucurrency")  # the cost is by price, so devices have none


def spans_sql(
    lab: Lab, what: RollupKind, from_hour: int, to_hour: int, cuts: str = ""
) -> tuple[str, list[Any]]:
    """Return a WITH clause and its parameters.

    ``b`` (id, from_hour, to_hour) are the valid rollups in the period. ``g`` (from_hour, to_hour)
    are the intervals between them. ``cuts`` is SQL for rows of (from, to) hours: a day across a cut
    is not used.
    """
    start, end = int(from_hour), int(to_hour)
    over = f"(SELECT 1 FROM {cuts} v WHERE d.from_hour < v.column1 AND v.column1 < d.to_hour)"
    sql = f"""
WITH b AS (
  SELECT d.id, d.from_hour, d.to_hour FROM carbon_rolledday d
  WHERE d.lab_id = %s AND d.what = %s AND d.basis = %s AND d.time_zone = %s
    AND d.from_hour >= {start} AND d.to_hour <= {end}
    AND NOT EXISTS (SELECT 1 FROM carbon_stalespan z WHERE z.lab_id = d.lab_id AND z.what = d.what
      AND z.from_hour < d.to_hour AND z.to_hour > d.from_hour)
    {f"AND NOT EXISTS {over}" if cuts else ""}
), g AS (
  SELECT from_hour, to_hour FROM (
    SELECT COALESCE(LAG(to_hour) OVER (ORDER BY from_hour), {start}) AS from_hour,
      from_hour AS to_hour FROM b
    UNION ALL SELECT COALESCE(MAX(to_hour), {start}), {end} FROM b
  ) q WHERE from_hour < to_hour
)"""
    return sql, [lab.pk, what.value, lab.basis, lab.time_zone]


def rows_in_spans_sql(lab: Lab, span: str, table: str, alias: str, node: str = "") -> str:
    """Return SQL for FROM: the spans ``g`` of table ``span`` with the rows of a table of hours, of
    all nodes or the one whose id is the SQL ``node``.

    The caller states the same condition in WHERE. PostgreSQL expects many long spans and would
    read the table of all times; LATERAL with OFFSET reads it by span.
    """
    if connection.vendor != "postgresql":
        return f"{span} g CROSS JOIN {table} {alias}"
    return (
        f"{span} g CROSS JOIN LATERAL (SELECT o.* FROM {table} o WHERE o.lab_id = {int(lab.pk)} "
        f"AND o.hour >= g.from_hour AND o.hour < g.to_hour{_of_node('o', node)} OFFSET 0) {alias}"
    )


def _of_node(alias: str, node: str) -> str:
    return f" AND {alias}.node_id = {node}" if node else ""


def use_sql(lab: Lab, span: str, first: str, node: str = "") -> str:
    """Return SQL for the use of each ledger entry in the spans ``g`` of table ``span``, of all
    nodes or the one whose id is the SQL ``node``.

    Columns: ``first`` and those of :class:`UseDay`. Parameters: basis, lab.
    """
    metrics = metrics_sql()
    columns = ", ".join(f"COALESCE({sql}, 0) AS {name}" for name, sql in metrics.items())
    return (
        f"SELECT {first}, e.node_id, e.consumer_id, {PROJECT} AS project_id, t.person_id, "
        "COALESCE(t.os_user, '') AS os_user, COALESCE(t.program, '') AS program, "
        f"{KIND} AS kind, e.energy_quality, f.id AS factor_id, a.pue_ppm, pr.id AS price_id, "
        "COALESCE(pr.currency, '') AS currency, "
        f"{columns}, CASE WHEN f.id IS NULL THEN {metrics['energy_mj']} ELSE 0 END AS "
        "without_factor_mj, 1 AS entries "
        f"FROM {rows_in_spans_sql(lab, span, 'energy_ledgerentry', 'e', node)} {CHARGED} "
        "WHERE e.lab_id = %s AND e.hour >= g.from_hour AND e.hour < g.to_hour"
        f"{_of_node('e', node)}"
    )


def answers(query: FigureQuery, group_by: Sequence[str], *, basis: str) -> bool:
    """Return whether rollups can serve a query.

    They have no hours, devices or single runs as subject. The period must contain a whole day.
    """
    return (
        query.basis == basis
        and query.to_hour - query.from_hour >= SHORTEST_HOURS
        and (query.subject_kind == "lab" or query.subject_kind in _SUBJECTS)
        and set(group_by) <= GROUPS.keys()
    )


def _is_by_charge(query: FigureQuery, group_by: Sequence[str]) -> bool:
    """Return whether neither nodes nor consumers matter to a query, but for the waste of runs."""
    return (
        query.subject_kind in {"lab", "project", "person"}
        and not (query.use or query.os_user or query.program)
        and set(group_by) <= _CHARGE_GROUPS.keys()
        and (query.waste != "" or "waste" not in group_by)
    )


def _where(lab: Lab, query: FigureQuery, groups: dict[str, str]) -> tuple[str, list[Any]]:
    clauses, params = ["1 = 1"], list[Any]()
    if query.subject_kind in _SUBJECTS:
        clauses.append(_SUBJECTS[query.subject_kind].format(lab=int(lab.pk)))
        params.append(
            uuid_param(query.subject_key) if query.subject_kind == "node" else query.subject_key
        )
        if query.subject_kind == "person":
            params[-1] = int(query.subject_key)
    more, values = narrowed_sql(query, groups, idle_share="x.kind = 'idle_share'")
    return " AND ".join([*clauses, *more]), [*params, *values]


def use_by(lab: Lab, query: FigureQuery, group_by: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield rows of (g0, g1, …, fields of Figure) for a query that :func:`answers` accepts.

    Without groups, one row.
    """
    by_charge = _is_by_charge(query, group_by)
    groups = _CHARGE_GROUPS if by_charge else GROUPS
    columns = ", ".join(groups[name] for name in group_by)
    selected = [f"{groups[name]} AS g{i}" for i, name in enumerate(group_by)] + [
        f"SUM(x.{name}) AS {name}" for name in SUMS
    ]
    priced = in_currency_sql(query.currency or lab.currency)
    selected += [
        f"SUM(CASE WHEN {priced} THEN x.cost_ucurrency END) AS cost_ucurrency",
        f"SUM(CASE WHEN {priced} THEN 0 ELSE x.energy_mj END) AS without_price_mj",
    ]
    where, more = _where(lab, query, groups)
    source = _by_charge_source if by_charge else _by_consumer_source
    before, use, params = source(lab, query)
    yield from fetch_rows(
        f"{before} SELECT {', '.join(selected)} FROM ({use}) x "
        "LEFT JOIN fleet_siteprice pr ON pr.id = x.price_id "
        "LEFT JOIN accounts_project p ON p.id = x.project_id "
        f"{_consumer_joins_sql(lab, f'{columns} {where}')}"
        f"WHERE {where}" + (f" GROUP BY {columns} ORDER BY {columns}" if columns else ""),
        [*params, *more],
    )


def _consumer_joins_sql(lab: Lab, used: str) -> str:
    """Return SQL that joins the node, consumer and run of a use, each only if the SQL ``used``
    has its columns: they are half of the time of a page of nodes.
    """
    joins = {
        "n.": "LEFT JOIN fleet_node n ON n.id = x.node_id ",
        "c.": "LEFT JOIN ingest_consumer c ON c.id = x.consumer_id ",
        "r.": f"LEFT JOIN runs_run r ON r.uuid = c.run_uuid AND r.lab_id = {int(lab.pk)} ",
    }
    aliases = set(re.findall(r"\b[ncr]\.", used))
    if "r." in aliases:
        aliases.add("c.")
    return "".join(sql for alias, sql in joins.items() if alias in aliases)


def _by_consumer_source(lab: Lab, query: FigureQuery) -> tuple[str, str, list[Any]]:
    """Return SQL before SELECT, SQL of the use by day and hour, and the parameters of both.

    Columns: from_hour, KEYS and USE_SUMS.
    """
    spans, params = spans_sql(lab, RollupKind.USE, query.from_hour, query.to_hour)
    columns = f"{KEYS}, {', '.join(USE_SUMS)}"
    node = ""
    if query.subject_kind == "node":  # else SQLite prices the entries of all nodes
        uuid = uuid_param(query.subject_key)
        node = f"(SELECT id FROM fleet_node WHERE lab_id = {int(lab.pk)} AND uuid = '{uuid}')"
    use = (
        f"SELECT b.from_hour, {columns} FROM b CROSS JOIN carbon_useday u WHERE u.day_id = b.id"
        f"{_of_node('u', node)} UNION ALL SELECT from_hour, {columns} "
        f"FROM ({use_sql(lab, 'g', 'e.hour AS from_hour', node)}) y"
    )
    return spans, use, [*params, query.basis, lab.pk]


def _by_charge_source(lab: Lab, query: FigureQuery) -> tuple[str, str, list[Any]]:
    """Return the same with columns from_hour, waste, CHARGE_KEYS and USE_SUMS. The waste of runs
    is read by run, other use by charged party: a large lab has thousands of consumers a day.
    """
    spans, params = spans_sql(lab, RollupKind.USE, query.from_hour, query.to_hour)
    columns = f"{CHARGE_KEYS}, {', '.join(USE_SUMS)}"
    of_day = f"{columns} FROM b CROSS JOIN carbon_chargeday u WHERE u.day_id = b.id"
    if not query.waste:
        days = [f"SELECT b.from_hour, '' AS waste, {of_day}"]
        hours = use_sql(lab, "g", "e.hour AS from_hour, '' AS waste")
    else:
        days = []
        spans += f", w AS ({wasted_consumers_sql(lab.pk)})"
        waste = (
            "CASE c.kind WHEN 'idle' THEN 'idle' ELSE "
            "(SELECT w.waste FROM w WHERE w.id = e.consumer_id) END AS waste"
        )
        hours = use_sql(lab, "g", f"e.hour AS from_hour, {waste}")
        hours += " AND (c.kind = 'idle' OR e.consumer_id IN (SELECT id FROM w))"
    if query.waste in {"idle", ANY_WASTE}:
        days.append(f"SELECT b.from_hour, 'idle' AS waste, {of_day} AND {idle_sql('u.kind')}")
    if query.waste and query.waste != "idle":
        days.append(
            f"SELECT b.from_hour, w.waste, {columns} FROM w CROSS JOIN carbon_useday u "
            "CROSS JOIN b WHERE u.consumer_id = w.id AND b.id = u.day_id"
        )
    days.append(f"SELECT from_hour, waste, {columns} FROM ({hours}) y")
    return spans, " UNION ALL ".join(days), [*params, query.basis, lab.pk]


def cover_sql(lab: Lab, span: str, first: str) -> str:
    """Return SQL for the measured time of devices in each hour ``h`` of the spans of ``span``.

    Columns: ``first``, device_id, node_id, covered_us, measured_us, estimated_us. Parameter: lab.
    """
    return (
        f"SELECT {first}, h.device_id, h.node_id, h.covered_us, "
        "CASE WHEN h.quality <= 2 THEN h.covered_us ELSE 0 END AS measured_us, "
        "CASE WHEN h.quality > 2 THEN h.covered_us ELSE 0 END AS estimated_us FROM ("
        "SELECT g.*, w.device_id, w.node_id, w.hour, w.covered_us, (SELECT MAX(e.energy_quality) "
        "FROM energy_ledgerentry e WHERE e.device_id = w.device_id AND e.hour = w.hour AND "
        "e.node_id = w.node_id) "
        f"AS quality FROM {rows_in_spans_sql(lab, span, 'energy_devicehour', 'w')} "
        "WHERE w.lab_id = %s AND w.hour >= g.from_hour AND w.hour < g.to_hour) h"
    )


def meter_sums() -> str:
    """Return SQL for sums of priced entries ``e`` of all parties.

    Columns: those of Figure, and idle energy.
    """
    return (
        "SUM(e.energy_mj) AS energy_mj, "
        f"COALESCE(SUM({facility_sql('e.energy_mj', 'a.pue_ppm')}), 0) AS facility_energy_mj, "
        f"COALESCE(SUM({emission_sql('e.energy_mj', 'a.pue_ppm', FACTOR)}), 0) AS "
        "emission_ug, "
        "SUM(CASE WHEN f.id IS NULL THEN e.energy_mj ELSE 0 END) AS without_factor_mj, "
        "SUM(CASE WHEN c.kind = 'idle' THEN e.energy_mj ELSE 0 END) AS idle_mj, COUNT(*) AS entries"
    )


def cover_source(lab: Lab, from_hour: int, to_hour: int) -> tuple[str, str, list[Any]]:
    """Return SQL before SELECT, SQL of measured time by day or hour, and the parameters of both.

    Columns: from_hour, device_id, node_id, covered_us, measured_us, estimated_us.
    """
    spans, params = spans_sql(lab, RollupKind.USE, from_hour, to_hour)
    rolled = (
        "SELECT b.from_hour, u.device_id, u.node_id, u.covered_us, u.measured_us, u.estimated_us "
        "FROM b CROSS JOIN carbon_meterday u WHERE u.day_id = b.id"
    )
    return (
        spans,
        f"{rolled} UNION ALL {cover_sql(lab, 'g', 'h.hour AS from_hour')}",
        [*params, lab.pk],
    )


def lab_by_stretch(lab: Lab, from_hour: int, to_hour: int) -> Iterator[dict[str, Any]]:
    """Yield a row of (from_hour, SUMS) of the whole lab for each valid day, and for each other hour
    with energy.
    """
    spans, params = spans_sql(lab, RollupKind.USE, from_hour, to_hour)
    names = ", ".join(SUMS)
    yield from fetch_rows(
        f"{spans} SELECT b.from_hour, {names} FROM b CROSS JOIN carbon_labday u "
        "WHERE u.day_id = b.id AND u.entries > 0 "
        f"UNION ALL SELECT q.from_hour, {names} FROM (SELECT e.hour AS from_hour, "
        f"{meter_sums()} FROM {rows_in_spans_sql(lab, 'g', 'energy_ledgerentry', 'e')} {PRICED} "
        "WHERE e.lab_id = %s AND e.hour >= g.from_hour AND e.hour < g.to_hour GROUP BY e.hour) q",
        [*params, lab.basis, lab.pk],
    )


def covered_by_stretch(lab: Lab, from_hour: int, to_hour: int) -> Iterator[dict[str, Any]]:
    """Yield a row of (from_hour, covered_us) of the metered devices of the lab for each valid day,
    and for each other hour with data.
    """
    spans, params = spans_sql(lab, RollupKind.USE, from_hour, to_hour)
    yield from fetch_rows(
        f"{spans} SELECT b.from_hour, u.covered_us FROM b CROSS JOIN carbon_labday u "
        "WHERE u.day_id = b.id AND u.covered_us > 0 UNION ALL "
        "SELECT w.hour, SUM(w.covered_us) FROM "
        f"{rows_in_spans_sql(lab, 'g', 'energy_devicehour', 'w')} "
        "JOIN fleet_device d ON d.id = w.device_id WHERE w.lab_id = %s AND w.hour >= g.from_hour "
        f"AND w.hour < g.to_hour AND {METERED} GROUP BY w.hour",
        [*params, lab.pk],
    )


def meters_by_place(
    lab: Lab, column: str, spans: Sequence[tuple[int, int, int, int]]
) -> Iterator[dict[str, Any]]:
    """Yield a row of (place, columns of :func:`meter_sums`) for each span with any use.

    Spans are (place, device or node id, from hour, to hour). Whole days inside a span are read from
    rollups, the rest from the ledger.
    """
    rows_sql = spans_sql(
        lab, RollupKind.USE, min(span[2] for span in spans), max(span[3] for span in spans)
    )
    values = ", ".join(f"({int(a)}, {int(b)}, {int(c)}, {int(d)})" for a, b, c, d in spans)
    sums = ", ".join(f"SUM(x.{name}) AS {name}" for name in (*SUMS, "idle_mj"))
    names = ", ".join(f"u.{name}" for name in (*SUMS, "idle_mj"))
    yield from fetch_rows(
        f"{rows_sql[0]}, m(place, of_id, from_hour, to_hour) AS (VALUES {values}), l AS ("
        f"SELECT m.place, m.of_id, {greatest_sql('m.from_hour', 's.from_hour')} AS from_hour, "
        f"{least_sql('m.to_hour', 's.to_hour')} AS to_hour FROM m CROSS JOIN ("
        "SELECT from_hour, to_hour, 0 AS whole FROM g UNION ALL SELECT from_hour, to_hour, 1 FROM "
        "b) s "
        "WHERE s.from_hour < m.to_hour AND s.to_hour > m.from_hour "
        "AND (s.whole = 0 OR s.from_hour < m.from_hour OR s.to_hour > m.to_hour)) "
        f"SELECT x.place, {sums} FROM (SELECT m.place, {names} FROM m CROSS JOIN b CROSS JOIN "
        "carbon_meterday u "
        f"WHERE u.day_id = b.id AND u.{column} = m.of_id AND b.from_hour >= m.from_hour AND "
        "b.to_hour <= m.to_hour "
        f"UNION ALL SELECT q.place, {', '.join(f'q.{name}' for name in (*SUMS, 'idle_mj'))} FROM ("
        f"SELECT l.place, {meter_sums()} FROM l CROSS JOIN energy_ledgerentry e {PRICED} "
        # The plus keeps SQLite from walking all entries of the lab for each span; the two bounds
        # that do not depend on the span let PostgreSQL look at the end of a device's entries only,
        # where the gap usually is.
        f"WHERE e.{column} = l.of_id AND e.hour >= l.from_hour AND e.hour < l.to_hour AND "
        "+e.lab_id = %s "
        "AND e.hour >= (SELECT MIN(from_hour) FROM l) AND e.hour < (SELECT MAX(to_hour) FROM l) "
        "GROUP BY l.place) q) x GROUP BY x.place",
        [*rows_sql[1], lab.basis, lab.pk],
    )


def embodied_sql(span: str, first: str) -> str:
    """Return SQL for the part of each charge in each span ``g`` of table ``span``.

    Columns: ``first`` and those of :class:`EmbodiedDay`. Parameter: lab.
    """
    part = prorated_inline_sql(
        "c.amount_ug", "c.from_hour", "c.to_hour", "g.from_hour", "g.to_hour"
    )
    return (
        f"SELECT {first}, c.kind, c.project_id, {part} AS part_ug, 1 AS entries "
        f"FROM {span} g CROSS JOIN assets_embodiedcharge c "
        "WHERE c.lab_id = %s AND c.from_hour < g.to_hour AND c.to_hour > g.from_hour"
    )


def embodied_source(lab: Lab, edges: Sequence[int]) -> tuple[str, str, list[Any]]:
    """Return SQL before SELECT, SQL of charges divided at ``edges``, and the parameters of both.

    Columns: from_hour, kind, project_id, part_ug, entries. ``edges`` are ascending hours.
    ``from_hour`` is the edge at or before the row. No row crosses the next edge.
    """
    cuts = (
        "(VALUES " + ", ".join(f"({int(low)}, {int(high)})" for low, high in pairwise(edges)) + ")"
    )
    spans, params = spans_sql(lab, RollupKind.HARDWARE, edges[0], edges[-1], cuts)
    pieces = (
        f"(SELECT v.column1 AS edge, {greatest_sql('g.from_hour', 'v.column1')} AS from_hour, "
        f"{least_sql('g.to_hour', 'v.column2')} AS to_hour "
        f"FROM g CROSS JOIN {cuts} v WHERE g.from_hour < v.column2 AND g.to_hour > v.column1)"
    )
    rolled = (
        "SELECT v.column1 AS from_hour, u.kind, u.project_id, u.embodied_ug AS part_ug, u.entries "
        f"FROM b CROSS JOIN {cuts} v CROSS JOIN carbon_embodiedday u "
        "WHERE u.day_id = b.id AND v.column1 <= b.from_hour AND b.from_hour < v.column2"
    )
    return (
        spans,
        f"{rolled} UNION ALL {embodied_sql(pieces, 'g.edge AS from_hour')}",
        [*params, lab.pk],
    )
