"""Figures of hardware: embodied carbon of a subject over a period. Exact integers, summed in SQL.

There are two ledgers, which are never added. **Allocation** (``embodied_ug``): the part of charges
in the period, up to the end of the current hour. The part of ``[a, b)`` is ``amount × (b − from)
div (to − from)`` less the same term for ``a``. **Inventory** (``embodied_inventory_ug``): embodied
carbon of lifecycle events, each counted in full in its hour. Both leave out assets without a
figure: see :func:`coverage`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from apps.accounts.models import Lab
from apps.assets.choices import OPENING, ChargeKind, EventKind
from apps.assets.models import LifecycleEvent
from apps.carbon.figures.embodied_placements import AssetStay, asset_stays
from apps.carbon.figures.figure_query import HIDDEN, INVENTORY, FigureQuery
from apps.carbon.figures.scopes import EMBODIED, LEASED, WASTE, roles_within
from apps.carbon.rollups.reader import embodied_source
from apps.core.sql import fetch_rows, prorated_inline_sql
from apps.core.units import hour_of

_OPENINGS = ", ".join(f"'{kind.value}'" for kind in OPENING)
# Reversed events: those with an odd chain of reversals.
_UNDONE = """
WITH RECURSIVE chain(event_id, tip_id, depth) AS (
  SELECT r.reverses_id, r.id, 1 FROM assets_lifecycleevent r JOIN assets_asset v
    ON v.id = r.asset_id
  WHERE v.lab_id = %s AND r.reverses_id IS NOT NULL
  UNION ALL
  SELECT c.event_id, r.id, c.depth + 1 FROM chain c JOIN assets_lifecycleevent r
    ON r.reverses_id = c.tip_id
), undone AS (SELECT event_id FROM chain GROUP BY event_id HAVING MAX(depth) %% 2 = 1)
"""
_HOLDS = "{0}.kind <> 'reversal' AND {0}.id NOT IN (SELECT event_id FROM undone)"
# Amount of an event as in apps.assets.amortisation.embodied_total_ug. At disposal: the actual
# end-of-life amount less the modelled part.
_EMBODIED_TOTAL = f"""
CASE WHEN e.kind <> '{EventKind.DISPOSE.value}' THEN e.total_ug ELSE (
  SELECT CASE WHEN o.includes_end_of_life IS NULL OR (o.includes_end_of_life
    AND COALESCE(o.end_of_life_ug, 0) = 0) THEN 0
    ELSE e.total_ug - COALESCE(o.end_of_life_ug, 0) END
  FROM assets_lifecycleevent o WHERE o.asset_id = e.asset_id AND o.kind IN ({_OPENINGS})
    AND {_HOLDS.format("o")}) END
"""
_OWNER = f"""
(SELECT t.project_id FROM assets_lifecycleevent t WHERE t.asset_id = e.asset_id
  AND t.kind IN ({_OPENINGS}, '{EventKind.TRANSFER.value}') AND {_HOLDS.format("t")}
  AND (t.hour < e.hour OR (t.hour = e.hour AND (t.kind IN ({_OPENINGS}) OR t.id <= e.id)))
  ORDER BY t.hour DESC, CASE WHEN t.kind IN ({_OPENINGS}) THEN 1 ELSE 0 END, t.id DESC LIMIT 1)
"""
# Assets whose first event is a lease. A correction of that event reverses it.
_LEASED = f"""
x.asset_id IN (SELECT o.asset_id FROM assets_lifecycleevent o WHERE o.kind =
  '{EventKind.LEASE.value}' AND NOT EXISTS (SELECT 1 FROM assets_lifecycleevent r
  WHERE r.reverses_id = o.id))
"""
_CHARGE = (
    "CASE WHEN p.id IS NOT NULL THEN p.slug WHEN x.kind = 'used' THEN '~unattributed' "
    "WHEN x.kind IN ({events}) THEN '~lab' ELSE '~' || x.kind END"
).format(
    events=", ".join(f"'{kind.value}'" for kind in (*OPENING, EventKind.REPAIR, EventKind.DISPOSE))
)
GROUPS = {"charge": _CHARGE, "project": "p.slug", "asset": "x.asset_id", "kind": "x.kind"}


@dataclass(frozen=True)
class Embodied:
    """The sum of a set of charges, or of entries of the inventory, µg CO2e."""

    embodied_ug: int = 0
    entries: int = 0

    def __add__(self, other: "Embodied") -> "Embodied":
        return Embodied(self.embodied_ug + other.embodied_ug, self.entries + other.entries)


@dataclass(frozen=True)
class Coverage:
    """Number of assets with a known figure.

    The other assets are in no sum, which does not mean zero.
    """

    known: int
    assets: int


def end_hour(query: FigureQuery, now: int) -> int:
    """Return the end of the period.

    It is at most the end of the current hour, because charges can end later.
    """
    return max(query.from_hour, min(query.to_hour, hour_of(now) + 1))


def _allocation(
    lab: Lab, query: FigureQuery, now: int, places: Sequence[AssetStay] | None
) -> tuple[str, list[Any]]:
    """Return SQL for the charges of a period, and its parameters.

    Columns: id, asset_id, kind, project_id, from_hour, to_hour, amount_ug, part_ug.
    """
    start, end = str(query.from_hour), str(end_hour(query, now))
    lasting = "SELECT c.id, c.asset_id, c.kind, c.project_id, c.from_hour, c.to_hour, c.amount_ug, "
    where = (
        f"FROM assets_embodiedcharge c {{}} WHERE c.lab_id = %s AND c.from_hour < {end} AND "
        f"c.to_hour > {start}"
    )
    if places is None:
        part = prorated_inline_sql("c.amount_ug", "c.from_hour", "c.to_hour", start, end)
        return f"{lasting}{part} AS part_ug {where.format('')}", [lab.pk]
    clipped = [place.within(query.from_hour, end_hour(query, now)) for place in places]
    listed = ", ".join(
        f"({int(s.asset_id)}, {int(s.from_hour)}, {int(s.to_hour)})"
        for s in clipped
        if s is not None
    )
    joined = f"JOIN (VALUES {listed or '(0, 0, 0)'}) s ON s.column1 = c.asset_id"
    part = prorated_inline_sql("c.amount_ug", "c.from_hour", "c.to_hour", "s.column2", "s.column3")
    overlap = "AND c.from_hour < s.column3 AND c.to_hour > s.column2"
    return f"{lasting}{part} AS part_ug {where.format(joined)} {overlap}", [lab.pk]


def _inventory(
    lab: Lab, query: FigureQuery, now: int, places: Sequence[AssetStay] | None
) -> tuple[str, list[Any]]:
    """Return SQL for lifecycle events with embodied carbon in a period, and its parameters.

    Columns are those of :func:`_allocation`. Each event counts in full in its hour.
    """
    at = ""
    if places is not None:
        listed = ", ".join(
            f"({int(s.asset_id)}, {int(s.from_hour)}, {int(s.to_hour)})" for s in places
        )
        at = (
            f"AND EXISTS (SELECT 1 FROM (VALUES {listed or '(0, 0, 0)'}) s "
            "WHERE s.column1 = e.asset_id AND s.column2 <= e.hour AND e.hour < s.column3)"
        )
    bringing = f"{_OPENINGS}, '{EventKind.REPAIR.value}', '{EventKind.DISPOSE.value}'"
    sql = (
        f"SELECT e.id, e.asset_id, e.kind, {_OWNER} AS project_id, e.hour AS from_hour, e.hour + "
        "1 AS to_hour, "
        f"{_EMBODIED_TOTAL} AS amount_ug, {_EMBODIED_TOTAL} AS part_ug "
        "FROM assets_lifecycleevent e JOIN assets_asset v ON v.id = e.asset_id "
        f"WHERE v.lab_id = %s AND e.hour >= {query.from_hour} AND e.hour < {end_hour(query, now)} "
        f"AND e.total_ug IS NOT NULL AND e.kind IN ({bringing}) AND {_HOLDS.format('e')} {at}"
    )
    return sql, [lab.pk]


def _from(lab: Lab, query: FigureQuery, now: int) -> tuple[str, str, list[Any]]:
    """Return SQL before SELECT, SQL of rows with assets and projects, and all parameters."""
    places = (
        asset_stays(lab, query.subject_kind, query.subject_key)
        if query.subject_kind in {"node", "device"}
        else None
    )
    inventory = query.metric == INVENTORY
    inner, params = (_inventory if inventory else _allocation)(lab, query, now, places)
    where, more = _where(query)
    before = _UNDONE if inventory else ""
    source = (
        f"FROM ({inner}) x JOIN assets_asset a ON a.id = x.asset_id "
        f"LEFT JOIN accounts_project p ON p.id = x.project_id WHERE {where}"
    )
    return before, source, [*([lab.pk] if inventory else []), *params, *more]


def has_leases(lab: Lab) -> bool:
    """Return whether a lab leases an asset."""
    return LifecycleEvent.objects.filter(asset__lab=lab, kind=EventKind.LEASE).exists()


def _where(query: FigureQuery, *, by_asset: bool = True) -> tuple[str, list[Any]]:
    """Return the condition of a query and its parameters.

    ``by_asset`` False: rows have no asset, and none of them is leased.
    """
    clauses, params = ["x.part_ug <> 0"], list[Any]()
    if query.subject_kind == "project":
        clauses.append("p.slug = %s")
        params.append(query.subject_key)
    elif query.subject_kind == "asset":
        clauses.append("x.asset_id = %s")
        params.append(int(query.subject_key))
    if query.project:
        clauses.append("p.id IS NULL" if query.project == HIDDEN else "p.slug = %s")
        params += [] if query.project == HIDDEN else [query.project]
    if query.consumer:
        unknown = query.consumer == "unattributed"
        clauses.append("x.kind = 'used' AND p.id IS NULL" if unknown else "x.kind = %s")
        params += [] if unknown else [query.consumer]
    if query.scope:
        roles = roles_within(query.profile, query.scope, (EMBODIED, WASTE, LEASED))
        leased = _LEASED if by_asset else "1 = 0"
        ending = f"x.kind IN ('{ChargeKind.END_OF_LIFE.value}', '{EventKind.DISPOSE.value}')"
        conditions = {
            EMBODIED: f"(NOT {ending} AND NOT {leased})",
            WASTE: ending,
            LEASED: f"(NOT {ending} AND {leased})",
        }
        clauses.append(f"({' OR '.join(conditions[role] for role in sorted(roles)) or '1 = 0'})")
    return " AND ".join(clauses), params


def _embodied(row: dict[str, Any]) -> Embodied:
    return Embodied(int(row["embodied_ug"] or 0), int(row["entries"]))


def embodied(lab: Lab, query: FigureQuery, now: int) -> Embodied:
    """Return the sum of ``query`` from the ledger of its metric."""
    before, source, params = _from(lab, query, now)
    return _embodied(
        next(
            fetch_rows(
                f"{before} SELECT SUM(x.part_ug) AS embodied_ug, COUNT(*) AS entries {source}",
                params,
            )
        )
    )


def embodied_by(
    lab: Lab, query: FigureQuery, group_by: Sequence[str], now: int
) -> dict[tuple[Any, ...], Embodied]:
    """Return the sums of ``query`` per group (names of GROUPS).

    They add up to :func:`embodied` exactly. Values of group charge: a project's slug,
    '~unattributed', '~idle', '~held', …. In the inventory, '~lab' is hardware without a project.
    """
    columns = ", ".join(GROUPS[name] for name in group_by)
    names = ", ".join(f"{GROUPS[name]} AS g{i}" for i, name in enumerate(group_by))
    before, source, params = _from(lab, query, now)
    rows = fetch_rows(
        f"{before} SELECT {names}, SUM(x.part_ug) AS embodied_ug, COUNT(*) AS entries {source} "
        f"GROUP BY {columns} ORDER BY {columns}",
        params,
    )
    return {tuple(row[f"g{i}"] for i in range(len(group_by))): _embodied(row) for row in rows}


def embodied_in(
    lab: Lab, query: FigureQuery, edges: Sequence[int], now: int, *, by: str = "charge"
) -> dict[tuple[int, str], Embodied]:
    """Return the allocation of a lab or project by interval, and by charge, project or kind.

    The key holds the index of the interval in ``edges``. The intervals add up to the whole period.
    ``entries`` counts a charge once per day. One query.
    """
    ended = [hour for hour in edges if hour <= hour_of(now)]
    if not ended:
        return {}
    ended.append(min(edges[-1], hour_of(now) + 1))
    if query.scope and has_leases(lab):  # days are not rolled up by asset
        return {
            (edges.index(low), key): part
            for low, high in pairwise(sorted(set(ended)))
            for (key,), part in embodied_by(
                lab, query.replace(from_hour=low, to_hour=high), [by], now
            ).items()
        }
    before, source, params = embodied_source(lab, sorted(set(ended)))
    where, more = _where(query, by_asset=False)
    rows = fetch_rows(
        f"{before} SELECT x.from_hour, {GROUPS[by]} AS group_key, SUM(x.part_ug) AS embodied_ug, "
        "SUM(x.entries) AS entries "
        f"FROM ({source}) x LEFT JOIN accounts_project p ON p.id = x.project_id "
        f"WHERE {where} GROUP BY x.from_hour, {GROUPS[by]}",
        [*params, *more],
    )
    return {(edges.index(row["from_hour"]), row["group_key"]): _embodied(row) for row in rows}


def charge_rows(
    lab: Lab, query: FigureQuery, now: int, *, limit: int | None = None, offset: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the charges or inventory events of a figure, newest first.

    Their ``part_ug`` sum to it.
    """
    before, source, params = _from(lab, query, now)
    page = f" LIMIT {int(limit)} OFFSET {int(offset)}" if limit is not None else ""
    yield from fetch_rows(
        f"{before} SELECT x.id, x.asset_id, a.name AS asset, a.kind AS asset_kind, x.kind, p.slug "
        "AS project, x.from_hour, "
        f"x.to_hour, x.amount_ug, x.part_ug {source} "
        f"ORDER BY x.from_hour DESC, a.name, x.asset_id, x.kind, p.id, x.id, x.part_ug{page}",
        params,
    )


def coverage(lab: Lab, query: FigureQuery, now: int) -> Coverage:
    """Return the number of assets held in the period, and of those with a known figure.

    Assets are those of the subject. For a lab or project they are those of the lab.
    """
    start, end = query.from_hour, end_hour(query, now)
    only, params = "", [lab.pk]
    if query.subject_kind == "asset":
        only = "AND v.id = %s"
        params.append(int(query.subject_key))
    elif query.subject_kind in {"node", "device"}:
        stays = asset_stays(lab, query.subject_kind, query.subject_key)
        ids = sorted({s.asset_id for s in stays if s.within(start, end) is not None})
        only = f"AND v.id IN ({', '.join(str(int(pk)) for pk in ids) or '0'})"
    row = next(
        fetch_rows(
            "SELECT COUNT(*) AS assets, "
            "SUM(CASE WHEN v.brought_ug IS NULL OR v.brought_at_least THEN 0 ELSE 1 END) AS known "
            f"FROM assets_asset v WHERE v.lab_id = %s AND v.bought_hour < {end} {only} "
            f"AND (v.gone_hour IS NULL OR v.gone_hour >= {start})",
            params,
        )
    )
    return Coverage(int(row["known"] or 0), int(row["assets"]))
