"""What became of embodied carbon, summed by the database: a book per asset, and who bore how much of a period.

Every sum ends with the hour at hand at the latest: what is to come is not charged yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import isqrt
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.assets.calc import Account
from apps.assets.models import Asset
from apps.core.sql import as_int, prorated_inline_sql, rows
from apps.core.units import hour_of

_FIRST = "e.kind IN ('purchase', 'second_hand')"
_BRINGS = "e.kind IN ('purchase', 'second_hand', 'repair')"
_FACTS = f"""SELECT e.asset_id,
MIN(CASE WHEN {_FIRST} THEN e.hour END), MIN(CASE WHEN {_FIRST} THEN e.life_hours END),
MIN(CASE WHEN e.kind = 'deploy' THEN e.hour END), MIN(CASE WHEN e.kind = 'dispose' THEN e.hour END),
CAST(SUM(CASE WHEN {_FIRST} THEN e.total_ug END) AS bigint),
CAST(SUM(CASE WHEN e.kind = 'repair' THEN e.total_ug END) AS bigint),
CAST(SUM(CASE WHEN {_BRINGS} THEN COALESCE(e.low_ug, e.total_ug) END) AS bigint),
CAST(SUM(CASE WHEN {_BRINGS} THEN COALESCE(e.high_ug, e.total_ug) END) AS bigint),
MIN(CASE WHEN {_FIRST} THEN e.figure_id END)"""


class Book(NamedTuple):
    """An asset at an hour: its embodied carbon in µg and the hours of its life.

    ``total_ug`` None: nobody knows what it brought. ``at_least``: what it brought first is not known, a repair's is.
    ``figure_id``: the catalogue's figure behind it. ``bought_hour`` None: not bought yet at that hour; ``in_use_hour``,
    ``life_end_hour`` None: not put to use yet.
    """

    total_ug: int | None = None
    low_ug: int = 0
    high_ug: int = 0
    charged_ug: int = 0
    written_off_ug: int = 0
    at_least: bool = False
    figure_id: int | None = None
    bought_hour: int | None = None
    in_use_hour: int | None = None
    life_end_hour: int | None = None
    gone_hour: int | None = None

    @property
    def account(self) -> Account:
        return Account(self.total_ug or 0, self.charged_ug, self.written_off_ug)

    @property
    def balance_ug(self) -> int:
        return (self.total_ug or 0) - self.charged_ug - self.written_off_ug


def through(now: int) -> int:
    """Return the hour up to which sums run now: the one that goes on is in them."""
    return hour_of(now) + 1


def books_of(assets: QuerySet[Asset], hour: int) -> dict[int, Book]:
    """Return the book of each of ``assets`` up to ``hour``. Four queries, whatever the number of assets."""
    wanted, params = assets.order_by().values("pk").query.sql_with_params()
    standing = _standing(wanted, params, hour)
    facts = _fetched(f"{_FACTS} {standing} GROUP BY e.asset_id", params)
    changes = _fetched(
        f"SELECT e.asset_id, e.hour, e.life_end_hour {standing} AND e.kind IN ('life_change', 'repurpose') "
        "AND e.life_end_hour IS NOT NULL ORDER BY e.hour, e.id",
        params,
    )
    ends = {asset_id: (said, end) for asset_id, said, end in changes}
    borne = {asset_id: (used, off, actual) for asset_id, used, off, actual in _fetched(_borne_sql(wanted, hour), params)}
    return {row[0]: _book(row, ends.get(row[0]), borne.get(row[0], (0, 0, 0))) for row in facts}


def _fetched(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        return list(cursor.fetchall())


def _standing(wanted: str, params: Sequence[Any], hour: int) -> str:
    """Return the FROM and WHERE of the entries ``e`` that hold. One query: which entries reverse which.

    An entry is undone where the entries that reverse one another behind it are odd in number.
    """
    found = _fetched(
        "SELECT r.reverses_id, r.id FROM assets_lifecycleevent r "
        f"WHERE r.reverses_id IS NOT NULL AND r.asset_id IN ({wanted})",
        params,
    )
    reversal_of, undone = dict(found), []
    for first in reversal_of.keys() - set(reversal_of.values()):
        last, times = first, 0
        while last in reversal_of:
            last, times = reversal_of[last], times + 1
        if times % 2:
            undone.append(str(int(first)))
    without = f" AND e.id NOT IN ({', '.join(undone)})" if undone else ""
    return (
        f"FROM assets_lifecycleevent e WHERE e.asset_id IN ({wanted}) AND e.reverses_id IS NULL "
        f"AND e.hour < {int(hour)}{without}"
    )


def _borne_sql(wanted: str, hour: int) -> str:
    return (
        "SELECT asset_id, CAST(SUM(CASE WHEN kind = 'written_off' THEN 0 ELSE part END) AS bigint), "
        "CAST(SUM(CASE WHEN kind = 'written_off' THEN part ELSE 0 END) AS bigint), "
        "CAST(SUM(CASE WHEN kind = 'end_of_life' THEN part ELSE 0 END) AS bigint) "
        f"FROM (SELECT c.asset_id, c.kind, {_part_sql(0, hour)} AS part FROM assets_embodiedcharge c "
        f"WHERE c.asset_id IN ({wanted}) AND c.from_hour < {int(hour)}) borne GROUP BY asset_id"
    )


def _part_sql(from_hour: int | str, to_hour: int | str) -> str:
    """Return SQL for the part of a charge in a period; one that lies in it whole is not divided."""
    return prorated_inline_sql("c.amount_ug", "c.from_hour", "c.to_hour", str(from_hour), str(to_hour))


def _book(row: tuple[Any, ...], change: tuple[int, int] | None, borne: tuple[int, int, int]) -> Book:
    _, bought, life_hours, in_use, gone, first, later, low, high, figure = row
    charged, written_off, actual = borne  # actual: the end of life as it was, against the estimate
    known = first is not None or later is not None or actual != 0
    return Book(
        (first or 0) + (later or 0) + actual if known else None,
        (low or 0) + actual,
        (high or 0) + actual,
        charged,
        written_off,
        first is None and known,
        figure,
        bought,
        in_use,
        planned_end(in_use, life_hours, change),
        gone,
    )


def planned_end(in_use_hour: int | None, life_hours: int | None, change: tuple[int, int] | None) -> int | None:
    """Return the planned end of a life put to use in ``in_use_hour``; ``change`` is the last (hour, new end) said of it.

    Said before its first use, an end tells how long it will serve from then on, not when it ends.
    """
    if in_use_hour is None:
        return None
    if change is None:
        return in_use_hour + max(1, life_hours or 0)
    said, end = change
    return end if in_use_hour <= said else in_use_hour + max(1, end - said)


def spread_of(books: Mapping[int, Book]) -> tuple[int, int]:
    """Return by how much the embodied carbon of assets together may be less and more than its sum, µg.

    What rests on one figure of the catalogue errs together and adds; different sources combine in quadrature.
    """
    less: dict[int, int] = defaultdict(int)
    more: dict[int, int] = defaultdict(int)
    for asset_id, book in books.items():
        if book.total_ug is not None:
            source = book.figure_id or -asset_id
            less[source] += book.total_ug - book.low_ug
            more[source] += book.high_ug - book.total_ug
    return isqrt(sum(part * part for part in less.values())), isqrt(sum(part * part for part in more.values()))


def accounts_of(asset_ids: Iterable[int], hour: int) -> dict[int, Account]:
    """Return what became of each asset's embodied carbon up to ``hour``: charged + balance + written off = total."""
    found = books_of(Asset.objects.filter(pk__in=list(asset_ids)), hour)
    return {asset_id: book.account for asset_id, book in found.items()}


GROUPS = {
    "project": "c.project_id",
    "kind": "c.kind",
    "asset": "c.asset_id",
    "hardware": "(SELECT a.kind FROM assets_asset a WHERE a.id = c.asset_id)",
}


def charged_by(
    lab: Lab,
    *,
    from_hour: int,
    to_hour: int,
    now: int,
    group_by: Sequence[str] = ("project",),
    assets: QuerySet[Asset] | None = None,
    edges: Sequence[int] = (),
    written_off: bool = False,
) -> dict[tuple[Any, ...], int]:
    """Return µg borne in ``[from_hour, to_hour)``, clipped at the hour of ``now`` (µs), by ``group_by`` (keys of GROUPS).

    ``edges`` (rising whole hours) cut the period: the number of the piece is then the first part of each key. A project is
    its id, None where the lab bears it or nobody is known. ``written_off`` True: what was written off, instead. One query.
    """
    stop = min(to_hour, through(now))
    cuts = sorted({from_hour, *(hour for hour in edges if from_hour < hour < stop), stop}) if edges else [from_hour, stop]
    if from_hour >= stop:
        return {}
    pieces = ", ".join(f"({i}, {int(low)}, {int(high)})" for i, (low, high) in enumerate(pairwise(cuts)))
    heads = [("piece", "p.i")] if edges else []
    heads += [(name, GROUPS[name]) for name in group_by]
    ids, params = ("", ()) if assets is None else assets.order_by().values("pk").query.sql_with_params()
    sql = (
        f"WITH piece(i, low, high) AS (VALUES {pieces}) "
        f"SELECT {''.join(f'{column} AS {name}, ' for name, column in heads)}SUM({_part_sql('p.low', 'p.high')}) AS part "
        "FROM assets_embodiedcharge c JOIN piece p ON c.from_hour < p.high AND c.to_hour > p.low "
        f"WHERE c.lab_id = %s AND c.from_hour < {int(stop)} AND c.to_hour > {int(from_hour)} "
        f"AND c.kind {'=' if written_off else '<>'} 'written_off' {f'AND c.asset_id IN ({ids})' if ids else ''}"
        + (f" GROUP BY {', '.join(column for _, column in heads)}" if heads else "")
    )
    found = rows(sql, [lab.pk, *params])
    return {tuple(row[name] for name, _ in heads): as_int(row["part"]) for row in found if row["part"] is not None}
