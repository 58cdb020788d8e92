"""Query book values per asset, and charges of a period per party. The database sums.

Every sum ends at the latest with the current hour, because later charges are not due yet.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Max, Min, QuerySet

from apps.accounts.models import Lab
from apps.assets.amortisation import Account
from apps.assets.lifecycle_summary import LifecycleSummary, summarise_lifecycle
from apps.assets.models import Asset
from apps.assets.services.charges import events_of
from apps.core.sql import as_int, fetch_rows, prorated_inline_sql, square_sum_sql
from apps.core.units import hour_of

_SUMMARY_COLUMNS = (
    "embodied_total_ug",
    "embodied_low_ug",
    "embodied_high_ug",
    "embodied_at_least",
    "figure_id",
    "bought_hour",
    "in_use_hour",
    "life_end_hour",
    "disposed_hour",
)


SETTLED = ("settled_hour", "settled_ug", "written_off_to_date_ug")


class Book(NamedTuple):
    """Book value of an asset at an hour: embodied carbon in µg, and the hours of its service life.

    ``total_ug`` None: embodied carbon is unknown. ``at_least``: the initial embodied carbon is
    unknown, later amounts are known. ``figure_id``: catalogue figure of the embodied carbon.
    ``bought_hour`` None: not purchased at that hour. ``in_use_hour``, ``life_end_hour`` None: not
    put into use.
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
    disposed_hour: int | None = None

    @property
    def account(self) -> Account:
        return Account(self.total_ug or 0, self.charged_ug, self.written_off_ug)

    @property
    def balance_ug(self) -> int:
        return (self.total_ug or 0) - self.charged_ug - self.written_off_ug


def through(now: int) -> int:
    """Return the end hour of sums to date. The current hour is included."""
    return hour_of(now) + 1


def books_of(assets: QuerySet[Asset], hour: int) -> dict[int, Book]:
    """Return the book of each of ``assets`` at ``hour``.

    One query for any number of assets. Two queries if an asset has an event at ``hour`` or later.
    """
    columns, params = columns_sql(assets, "id", "complete_until_hour", *SETTLED, *_SUMMARY_COLUMNS)
    selected = ", ".join(f"a.{name}" for name in _SUMMARY_COLUMNS)
    rows = _fetched(
        f"WITH w AS ({columns}) SELECT a.id, a.complete_until_hour, {charged_sql(hour)}, "
        f"{selected} "
        f"FROM w a LEFT JOIN ({open_sql('w', hour)}) o ON o.asset_id = a.id",
        params,
    )
    earlier = summaries_before([row[0] for row in rows if row[1] > hour], hour)
    books = {}
    for pk, _, charged_ug, off_ug, *stored_values in rows:
        summary_values = (
            [getattr(earlier[pk], name) for name in _SUMMARY_COLUMNS]
            if pk in earlier
            else stored_values
        )
        books[pk] = _book(summary_values, charged_ug, off_ug)
    return {pk: book for pk, book in books.items() if book.bought_hour is not None}


def _book(summary_values: Sequence[Any], charged_ug: int, written_off_ug: int) -> Book:
    total, low, high, at_least, figure, bought, in_use, end, disposed = summary_values
    return Book(
        total,
        low,
        high,
        charged_ug,
        written_off_ug,
        bool(at_least),
        figure,
        bought,
        in_use,
        end,
        disposed,
    )


def columns_sql(assets: QuerySet[Asset], *names: str) -> tuple[str, tuple[Any, ...]]:
    """Return SQL for fields of assets, as columns with the names of the fields, and its
    parameters.
    """
    try:
        sql, params = assets.order_by().values(*names).query.sql_with_params()
    except EmptyResultSet:  # the filter matches no asset: no query needed
        return f"SELECT {', '.join(f'0 AS {name}' for name in names)} WHERE 1 = 0", ()
    return str(sql), tuple(params)


def summaries_before(asset_ids: Sequence[int], hour: int) -> dict[int, LifecycleSummary]:
    """Return summaries of the events before ``hour``, by asset.

    Needed for assets with later events, since their stored summary includes those. One query, none
    if ``asset_ids`` is empty.
    """
    if not asset_ids:
        return {}
    return {
        pk: summarise_lifecycle([event for event in events if event.hour < hour])
        for pk, events in events_of(asset_ids).items()
    }


def charged_sql(hour: int) -> str:
    """Return SQL for amounts charged and written off up to ``hour``.

    ``a`` is the asset, ``o`` its open charges (see :func:`open_sql`).
    """
    settled = f"CASE WHEN a.settled_hour <= {int(hour)} THEN {{}} ELSE 0 END"
    return (
        f"{settled.format('a.settled_ug')} + COALESCE(o.charged_ug, 0) AS charged_ug, "
        f"{settled.format('a.written_off_to_date_ug')} + COALESCE(o.written_off_ug, 0) AS "
        "written_off_ug"
    )


def open_sql(assets: str, hour: int, before: str = "") -> str:
    """Return SQL for (asset_id, charged_ug, written_off_ug) of unsettled charges up to ``hour``.

    ``assets`` names the rows with asset ids and SETTLED. ``before`` is a condition on charges
    ``c``, ending in AND.
    """
    return (
        "SELECT asset_id, CAST(SUM(CASE WHEN kind = 'written_off' THEN 0 ELSE part END) AS "
        "bigint) AS charged_ug, "
        "CAST(SUM(CASE WHEN kind = 'written_off' THEN part ELSE 0 END) AS bigint) AS "
        "written_off_ug "
        f"FROM (SELECT c.asset_id, c.kind, {_part_sql(0, hour)} AS part "
        f"FROM assets_embodiedcharge c JOIN {assets} s ON s.id = c.asset_id WHERE "
        f"{before}c.from_hour < {int(hour)} "
        f"AND (c.to_hour > s.settled_hour OR s.settled_hour > {int(hour)})) due GROUP BY asset_id"
    )


def _fetched(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        return list(cursor.fetchall())


def _part_sql(from_hour: int | str, to_hour: int | str) -> str:
    """Return SQL for the part of a charge in a period.

    A charge inside the period is not divided.
    """
    return prorated_inline_sql(
        "c.amount_ug", "c.from_hour", "c.to_hour", str(from_hour), str(to_hour)
    )


def accounts_of(asset_ids: Iterable[int], hour: int) -> dict[int, Account]:
    """Return the account of each asset at ``hour``: charged + balance + written off = total."""
    books = books_of(Asset.objects.filter(pk__in=list(asset_ids)), hour)
    return {asset_id: book.account for asset_id, book in books.items()}


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
    """Return µg charged in ``[from_hour, to_hour)``, by ``group_by`` (keys of GROUPS).

    The period ends at the latest with the hour of ``now`` (µs). ``edges`` (ascending whole hours)
    divide it: the index of the part is then the first element of each key. Projects are ids. None
    is the lab or an unknown project. ``written_off`` True: return written-off amounts instead. One
    query.
    """
    stop = min(to_hour, through(now))
    cuts = (
        sorted({from_hour, *(hour for hour in edges if from_hour < hour < stop), stop})
        if edges
        else [from_hour, stop]
    )
    if from_hour >= stop:
        return {}
    pieces = ", ".join(
        f"({i}, {int(low)}, {int(high)})" for i, (low, high) in enumerate(pairwise(cuts))
    )
    heads = [("piece", "p.i")] if edges else []
    heads += [(name, GROUPS[name]) for name in group_by]
    ids, params = ("", ()) if assets is None else columns_sql(assets, "id")
    sql = (
        f"WITH piece(i, low, high) AS (VALUES {pieces}) "
        "SELECT "
        f"{''.join(f'{column} AS {name}, ' for name, column in heads)}SUM("
        f"{_part_sql('p.low', 'p.high')}) "
        "AS part "
        "FROM assets_embodiedcharge c JOIN piece p ON c.from_hour < p.high AND c.to_hour > p.low "
        f"WHERE c.lab_id = %s AND c.from_hour < {int(stop)} AND c.to_hour > {int(from_hour)} "
        f"AND c.kind {'=' if written_off else '<>'} 'written_off' "
        f"{f'AND c.asset_id IN ({ids})' if ids else ''}"
        + (f" GROUP BY {', '.join(column for _, column in heads)}" if heads else "")
    )
    rows = fetch_rows(sql, [lab.pk, *params])
    return {
        tuple(row[name] for name, _ in heads): as_int(row["part"])
        for row in rows
        if row["part"] is not None
    }


YEAR_HOURS = 8_760
# Sort columns of books: column of the lifecycle summary, and SQL of the sort value.
COLUMNS = {
    "age": ("bought_hour", "-b.bought_hour"),
    "embodied": ("embodied_total_ug", "b.embodied_total_ug"),
    "charged": (
        "embodied_total_ug",
        "CASE WHEN b.embodied_total_ug IS NULL THEN NULL ELSE b.charged_ug END",
    ),
    "balance": ("embodied_total_ug", "b.embodied_total_ug - b.charged_ug - b.written_off_ug"),
    "end": ("life_end_hour", "b.life_end_hour"),
}


@dataclass(frozen=True)
class Sums:
    """Sums over ``assets`` assets. Amounts are sums over the ``known`` ones, in µg.

    ``known``: assets with known embodied carbon. ``begun``: assets put into use. ``past``: those of
    them past their planned end. ``soon``: those with their planned end within a year of 8 760 h.
    ``largest_ug``: largest embodied carbon of one asset.
    """

    assets: int = 0
    known: int = 0
    begun: int = 0
    past: int = 0
    soon: int = 0
    total_ug: int = 0
    charged_ug: int = 0
    written_off_ug: int = 0
    largest_ug: int = 0

    @property
    def balance_ug(self) -> int:
        return self.total_ug - self.charged_ug - self.written_off_ug

    def __add__(self, other: "Sums") -> "Sums":
        added = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return Sums(**{**added, "largest_ug": max(self.largest_ug, other.largest_ug)})


class Books:
    """Books of ``assets`` of a lab at ``hour``, queried in the database.

    Construction takes one query. It takes two more if an asset of the lab has an event at ``hour``
    or later.
    """

    def __init__(self, lab: Lab, assets: QuerySet[Asset], hour: int) -> None:
        self._hour = int(hour)
        self._assets = assets
        bounds = Asset.objects.filter(lab=lab).aggregate(
            first=Min("settled_hour"), last=Max("settled_hour"), complete=Max("complete_until_hour")
        )
        since = int(bounds["first"]) if bounds["last"] is not None and bounds["last"] <= hour else 0
        self._open = f"c.lab_id = {int(lab.pk)} AND c.to_hour > {since} AND "
        late = assets.order_by().filter(complete_until_hour__gt=hour).values_list("pk", flat=True)
        self._earlier = summaries_before(
            list(late) if (bounds["complete"] or 0) > hour else [], hour
        )

    def whole(self) -> Sums:
        """Return the sums over all assets. One query."""
        return self._by()[()]

    def _by(self, *heads: str) -> dict[tuple[Any, ...], Sums]:
        names = [f"g{i}" for i in range(len(heads))]
        known = "CASE WHEN b.embodied_total_ug IS NULL THEN NULL ELSE {} END"
        sums = {
            "assets": "COUNT(*)",
            "known": "COUNT(b.embodied_total_ug)",
            "begun": "COUNT(b.life_end_hour)",
            "past": f"COUNT(CASE WHEN {_ends(0, self._hour)} THEN 1 END)",
            "soon": f"COUNT(CASE WHEN {_ends(self._hour, self._hour + YEAR_HOURS)} THEN 1 END)",
            "total_ug": "SUM(b.embodied_total_ug)",
            "charged_ug": f"SUM({known.format('b.charged_ug')})",
            "written_off_ug": f"SUM({known.format('b.written_off_ug')})",
            "largest_ug": "MAX(b.embodied_total_ug)",
        }
        selected = [
            f"{sql} AS {name}" for name, sql in [*zip(names, heads, strict=True), *sums.items()]
        ]
        source, params = self._source(
            "embodied_total_ug", "bought_hour", "life_end_hour", plain=("kind",), charged=True
        )
        grouped = f" GROUP BY {', '.join(heads)}" if heads else ""
        return {
            tuple(row[name] for name in names): Sums(**{name: as_int(row[name]) for name in sums})
            for row in fetch_rows(
                f"SELECT {', '.join(selected)} FROM ({source}) b{grouped}", params
            )
        }

    def spread(self) -> tuple[int, int]:
        """Return the uncertainty of the total embodied carbon, µg: (below, above). One query.

        Errors of assets with the same catalogue figure add. Errors of different figures combine in
        quadrature.
        """
        source, params = self._source(
            "embodied_total_ug", "embodied_low_ug", "embodied_high_ug", "figure_id"
        )
        row = next(
            fetch_rows(
                f"SELECT {square_sum_sql('d.less')} AS less, {square_sum_sql('d.more')} AS more "
                "FROM ("
                "SELECT SUM(b.embodied_total_ug - b.embodied_low_ug) AS less, "
                "SUM(b.embodied_high_ug - b.embodied_total_ug) AS more "
                f"FROM ({source}) b WHERE b.embodied_total_ug IS NOT NULL "
                "AND (b.embodied_low_ug <> b.embodied_total_ug OR b.embodied_high_ug <> "
                "b.embodied_total_ug) "
                "GROUP BY COALESCE(b.figure_id, -b.id)) d",
                params,
            )
        )
        return isqrt(as_int(row["less"])), isqrt(as_int(row["more"]))

    def sorted(self, column: str, *, falling: bool, limit: int, offset: int) -> list[int]:
        """Return ids sorted by one of COLUMNS.

        Assets without a value follow, by name. One query.
        """
        (needed, value), way = COLUMNS[column], " DESC" if falling else ""
        source, params = self._source(
            needed, plain=("name",), charged=column in ("charged", "balance")
        )
        empty = f"CASE WHEN ({value}) IS NULL THEN {{}} END"
        rows = fetch_rows(
            f"SELECT b.id FROM ({source}) b ORDER BY ({value}) IS NULL, {value}{way}, "
            f"{empty.format('b.name')}, "
            f"{empty.format('b.id')}, b.id{way} LIMIT {int(limit)} OFFSET {int(offset)}",
            params,
        )
        return [row["id"] for row in rows]

    def by_kind_and_year(self, starts: Sequence[int]) -> dict[tuple[str, int | None], Sums]:
        """Return the sums by kind and purchase period. One query.

        ``starts`` (ascending hours) divide time. The key holds the index of the period, or None for
        assets that are not purchased yet.
        """
        cases = " ".join(
            f"WHEN b.bought_hour < {int(hour)} THEN {i}" for i, hour in enumerate(starts)
        )
        piece = f"CASE WHEN b.bought_hour IS NULL THEN NULL {cases} ELSE {len(starts)} END"
        return {(kind, place): sums for (kind, place), sums in self._by("b.kind", piece).items()}

    def bought(self) -> tuple[int, int] | None:
        """Return the hours of the first and last purchase, or None without purchases. One query."""
        source, params = self._source("bought_hour")
        row = next(
            fetch_rows(
                f"SELECT MIN(b.bought_hour) AS low, MAX(b.bought_hour) AS high FROM ({source}) b",
                params,
            )
        )
        return None if row["low"] is None else (row["low"], row["high"])

    def ending(self, from_hour: int, to_hour: int, limit: int) -> list[int]:
        """Return ids of assets whose planned end is in ``[from_hour, to_hour)``.

        Earliest first. One query.
        """
        source, params = self._source("life_end_hour")
        rows = fetch_rows(
            f"SELECT b.id FROM ({source}) b WHERE {_ends(from_hour, to_hour)} ORDER BY "
            "b.life_end_hour, b.id "
            f"LIMIT {int(limit)}",
            params,
        )
        return [row["id"] for row in rows]

    def _source(
        self, *names: str, plain: Sequence[str] = (), charged: bool = False
    ) -> tuple[str, tuple[Any, ...]]:
        """Return SQL for the books and its parameters.

        Columns: id, ``names`` of the lifecycle summary, ``plain`` columns of the asset, and with
        ``charged`` the charged and written-off amounts. Unused columns are left out, so that 20 000
        rows fit the database's memory.
        """
        columns, joined = [f"a.{name}" for name in ("id", *plain)], ""
        if charged:
            columns.append(charged_sql(self._hour))
            joined = f" LEFT JOIN ({open_sql('w', self._hour, self._open)}) o ON o.asset_id = a.id"
        one = "a.{0}"
        if self._earlier:
            values = ", ".join(_values(pk, summary, names) for pk, summary in self._earlier.items())
            joined += f" LEFT JOIN (VALUES {values}) v ON v.column1 = a.id"
            one = (
                "CASE WHEN v.column1 IS NULL THEN a.{0} ELSE CAST(v.column{1} AS bigint) END AS {0}"
            )
        columns += [one.format(name, i) for i, name in enumerate(names, start=2)]
        assets, params = columns_sql(
            self._assets, "id", *plain, *(SETTLED if charged else ()), *names
        )
        return f"WITH w AS ({assets}) SELECT {', '.join(columns)} FROM w a{joined}", params


def _ends(from_hour: int, to_hour: int) -> str:
    return f"b.life_end_hour >= {int(from_hour)} AND b.life_end_hour < {int(to_hour)}"


def _values(pk: int, summary: LifecycleSummary, names: Sequence[str]) -> str:
    values: Sequence[int | None] = [pk, *(getattr(summary, name) for name in names)]
    return f"({', '.join('NULL' if value is None else str(int(value)) for value in values)})"
