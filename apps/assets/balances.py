"""What became of embodied carbon, summed by the database: a book per asset, and who bore how much of a period.

Every sum ends with the hour at hand at the latest: what is to come is not charged yet.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.assets.amortisation import Account
from apps.assets.lifecycle_summary import Lived, lived
from apps.assets.models import Asset
from apps.assets.services.charges import events_of
from apps.core.sql import as_int, prorated_inline_sql, rows
from apps.core.units import hour_of

_LIVED = ("brought_ug", "brought_low_ug", "brought_high_ug", "brought_at_least", "figure_id", "bought_hour",
          "in_use_hour", "life_end_hour", "gone_hour")  # fmt: skip


SETTLED = ("settled_hour", "settled_ug", "settled_off_ug")


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
    """Return the book of each of ``assets`` up to ``hour``. One query, whatever the number of assets; two where an entry of
    any of them holds from ``hour`` on or later."""
    wanted, params = columns_sql(assets, "id", "told_to_hour", *SETTLED, *_LIVED)
    told = ", ".join(f"a.{name}" for name in _LIVED)
    found = _fetched(
        f"WITH w AS ({wanted}) SELECT a.id, a.told_to_hour, {charged_sql(hour)}, {told} "
        f"FROM w a LEFT JOIN ({open_sql('w', hour)}) o ON o.asset_id = a.id",
        params,
    )
    earlier = lived_before([row[0] for row in found if row[1] > hour], hour)
    books = {}
    for pk, _, charged_ug, off_ug, *kept in found:
        held = [getattr(earlier[pk], name) for name in _LIVED] if pk in earlier else kept
        books[pk] = _book(held, charged_ug, off_ug)
    return {pk: book for pk, book in books.items() if book.bought_hour is not None}


def _book(told: Sequence[Any], charged_ug: int, written_off_ug: int) -> Book:
    total, low, high, at_least, figure, bought, in_use, end, gone = told
    return Book(total, low, high, charged_ug, written_off_ug, bool(at_least), figure, bought, in_use, end, gone)


def columns_sql(assets: QuerySet[Asset], *columns: str) -> tuple[str, tuple[Any, ...]]:
    """Return SQL for columns of assets, and its parameters."""
    try:
        sql, params = assets.order_by().values(*columns).query.sql_with_params()
    except EmptyResultSet:  # the database need not be asked: none fits
        return f"SELECT {', '.join(f'0 AS {name}' for name in columns)} WHERE 1 = 0", ()
    return str(sql), tuple(params)


def lived_before(asset_ids: Sequence[int], hour: int) -> dict[int, Lived]:
    """Return what entries before ``hour`` come to, of assets with an entry that is later: what is kept with them does not
    hold then. One query, none for none."""
    if not asset_ids:
        return {}
    return {pk: lived([event for event in events if event.hour < hour]) for pk, events in events_of(asset_ids).items()}


def charged_sql(hour: int) -> str:
    """Return SQL for what was charged and written off up to ``hour``, of an asset ``a`` with its open charges ``o``."""
    settled = f"CASE WHEN a.settled_hour <= {int(hour)} THEN {{}} ELSE 0 END"
    return (
        f"{settled.format('a.settled_ug')} + COALESCE(o.charged_ug, 0) AS charged_ug, "
        f"{settled.format('a.settled_off_ug')} + COALESCE(o.written_off_ug, 0) AS written_off_ug"
    )


def open_sql(assets: str, hour: int, before: str = "") -> str:
    """Return SQL for (asset_id, charged_ug, written_off_ug): what the charges that are not settled put into the time up to
    ``hour``. ``assets`` names the rows with their ids and SETTLED, ``before`` is a condition on charges ``c`` with AND."""
    return (
        "SELECT asset_id, CAST(SUM(CASE WHEN kind = 'written_off' THEN 0 ELSE part END) AS bigint) AS charged_ug, "
        "CAST(SUM(CASE WHEN kind = 'written_off' THEN part ELSE 0 END) AS bigint) AS written_off_ug "
        f"FROM (SELECT c.asset_id, c.kind, {_part_sql(0, hour)} AS part "
        f"FROM assets_embodiedcharge c JOIN {assets} s ON s.id = c.asset_id WHERE {before}c.from_hour < {int(hour)} "
        f"AND (c.to_hour > s.settled_hour OR s.settled_hour > {int(hour)})) borne GROUP BY asset_id"
    )


def _fetched(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        return list(cursor.fetchall())


def _part_sql(from_hour: int | str, to_hour: int | str) -> str:
    """Return SQL for the part of a charge in a period; one that lies in it whole is not divided."""
    return prorated_inline_sql("c.amount_ug", "c.from_hour", "c.to_hour", str(from_hour), str(to_hour))


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
    ids, params = ("", ()) if assets is None else columns_sql(assets, "id")
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
