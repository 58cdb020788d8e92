"""Books of many assets, summed, sorted and counted by the database: the same integers as :func:`books.books_of`."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

from django.db.models import Max, Min, QuerySet

from apps.accounts.models import Lab
from apps.assets.balances import SETTLED, charged_sql, columns_sql, lived_before, open_sql
from apps.assets.lifecycle_summary import Lived
from apps.assets.models import Asset
from apps.core.sql import as_int, rows, square_sum_sql

YEAR_HOURS = 8_760
# By what books are sorted: what of a life it needs, and its value.
COLUMNS = {
    "age": ("bought_hour", "-b.bought_hour"),
    "embodied": ("brought_ug", "b.brought_ug"),
    "charged": ("brought_ug", "CASE WHEN b.brought_ug IS NULL THEN NULL ELSE b.charged_ug END"),
    "balance": ("brought_ug", "b.brought_ug - b.charged_ug - b.written_off_ug"),
    "end": ("life_end_hour", "b.life_end_hour"),
}


@dataclass(frozen=True)
class Sums:
    """Sums over ``assets`` assets, of which ``known`` have known embodied carbon: µg of these alone. ``begun`` were put to
    use, of these ``past`` serve longer than was planned and ``soon`` are planned to end within a year of 8 760 h.
    ``largest_ug``: the most that one of them brought."""

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
    """Books of ``assets`` of a lab up to ``hour``, that stay in the database. One query to begin with; two more where an
    entry of any of the lab's holds from ``hour`` on or later."""

    def __init__(self, lab: Lab, assets: QuerySet[Asset], hour: int) -> None:
        self._hour = int(hour)
        self._assets = assets
        bounds = Asset.objects.filter(lab=lab).aggregate(
            first=Min("settled_hour"), last=Max("settled_hour"), told=Max("told_to_hour")
        )
        since = int(bounds["first"]) if bounds["last"] is not None and bounds["last"] <= hour else 0
        self._open = f"c.lab_id = {int(lab.pk)} AND c.to_hour > {since} AND "
        late = assets.order_by().filter(told_to_hour__gt=hour).values_list("pk", flat=True)
        self._earlier = lived_before(list(late) if (bounds["told"] or 0) > hour else [], hour)

    def whole(self) -> Sums:
        """Return the sums of all. One query."""
        return self._by()[()]

    def _by(self, *heads: str) -> dict[tuple[Any, ...], Sums]:
        names = [f"g{i}" for i in range(len(heads))]
        known = "CASE WHEN b.brought_ug IS NULL THEN NULL ELSE {} END"
        sums = {
            "assets": "COUNT(*)", "known": "COUNT(b.brought_ug)", "begun": "COUNT(b.life_end_hour)",
            "past": f"COUNT(CASE WHEN {_ends(0, self._hour)} THEN 1 END)",
            "soon": f"COUNT(CASE WHEN {_ends(self._hour, self._hour + YEAR_HOURS)} THEN 1 END)",
            "total_ug": "SUM(b.brought_ug)",
            "charged_ug": f"SUM({known.format('b.charged_ug')})",
            "written_off_ug": f"SUM({known.format('b.written_off_ug')})", "largest_ug": "MAX(b.brought_ug)",
        }  # fmt: skip
        told = [f"{sql} AS {name}" for name, sql in [*zip(names, heads, strict=True), *sums.items()]]
        source, params = self._source("brought_ug", "bought_hour", "life_end_hour", plain=("kind",), charged=True)
        grouped = f" GROUP BY {', '.join(heads)}" if heads else ""
        return {
            tuple(row[name] for name in names): Sums(**{name: as_int(row[name]) for name in sums})
            for row in rows(f"SELECT {', '.join(told)} FROM ({source}) b{grouped}", params)
        }

    def spread(self) -> tuple[int, int]:
        """Return by how much the embodied carbon of all may be less and more than its sum, µg. One query.

        What rests on one figure of the catalogue errs together and adds; different sources combine in quadrature.
        """
        source, params = self._source("brought_ug", "brought_low_ug", "brought_high_ug", "figure_id")
        found = next(
            rows(
                f"SELECT {square_sum_sql('d.less')} AS less, {square_sum_sql('d.more')} AS more FROM ("
                "SELECT SUM(b.brought_ug - b.brought_low_ug) AS less, SUM(b.brought_high_ug - b.brought_ug) AS more "
                f"FROM ({source}) b WHERE b.brought_ug IS NOT NULL "
                "AND (b.brought_low_ug <> b.brought_ug OR b.brought_high_ug <> b.brought_ug) "
                "GROUP BY COALESCE(b.figure_id, -b.id)) d",
                params,
            )
        )
        return isqrt(as_int(found["less"])), isqrt(as_int(found["more"]))

    def sorted(self, column: str, *, falling: bool, limit: int, offset: int) -> list[int]:
        """Return ids in the order of one of COLUMNS, what has no value last, by name. One query."""
        (needed, value), way = COLUMNS[column], " DESC" if falling else ""
        source, params = self._source(needed, plain=("name",), charged=column in ("charged", "balance"))
        empty = f"CASE WHEN ({value}) IS NULL THEN {{}} END"
        found = rows(
            f"SELECT b.id FROM ({source}) b ORDER BY ({value}) IS NULL, {value}{way}, {empty.format('b.name')}, "
            f"{empty.format('b.id')}, b.id{way} LIMIT {int(limit)} OFFSET {int(offset)}",
            params,
        )
        return [row["id"] for row in found]

    def by_kind_and_year(self, starts: Sequence[int]) -> dict[tuple[str, int | None], Sums]:
        """Return the sums by kind and by when they were bought: the number of the piece of time, cut at the hours ``starts``
        (rising); None: not bought yet. One query."""
        cases = " ".join(f"WHEN b.bought_hour < {int(hour)} THEN {i}" for i, hour in enumerate(starts))
        piece = f"CASE WHEN b.bought_hour IS NULL THEN NULL {cases} ELSE {len(starts)} END"
        return {(kind, place): sums for (kind, place), sums in self._by("b.kind", piece).items()}

    def bought(self) -> tuple[int, int] | None:
        """Return the hours of the first purchase and the last; None: nothing was bought. One query."""
        source, params = self._source("bought_hour")
        found = next(rows(f"SELECT MIN(b.bought_hour) AS low, MAX(b.bought_hour) AS high FROM ({source}) b", params))
        return None if found["low"] is None else (found["low"], found["high"])

    def ending(self, from_hour: int, to_hour: int, limit: int) -> list[int]:
        """Return ids of lives with their planned end in ``[from_hour, to_hour)``, the first first. One query."""
        source, params = self._source("life_end_hour")
        found = rows(
            f"SELECT b.id FROM ({source}) b WHERE {_ends(from_hour, to_hour)} ORDER BY b.life_end_hour, b.id "
            f"LIMIT {int(limit)}",
            params,
        )
        return [row["id"] for row in found]

    def _source(self, *names: str, plain: Sequence[str] = (), charged: bool = False) -> tuple[str, tuple[Any, ...]]:
        """Return SQL for the books (id, ``names`` of what entries told, ``plain`` columns of the asset, and if asked for
        what was charged), and its parameters. No more is read than is needed: 20 000 rows fit the database's memory."""
        columns, joined = [f"a.{name}" for name in ("id", *plain)], ""
        if charged:
            columns.append(charged_sql(self._hour))
            joined = f" LEFT JOIN ({open_sql('w', self._hour, self._open)}) o ON o.asset_id = a.id"
        one = "a.{0}"
        if self._earlier:
            values = ", ".join(_values(pk, told, names) for pk, told in self._earlier.items())
            joined += f" LEFT JOIN (VALUES {values}) v ON v.column1 = a.id"
            one = "CASE WHEN v.column1 IS NULL THEN a.{0} ELSE CAST(v.column{1} AS bigint) END AS {0}"
        columns += [one.format(name, i) for i, name in enumerate(names, start=2)]
        assets, params = columns_sql(self._assets, "id", *plain, *(SETTLED if charged else ()), *names)
        return f"WITH w AS ({assets}) SELECT {', '.join(columns)} FROM w a{joined}", params


def _ends(from_hour: int, to_hour: int) -> str:
    return f"b.life_end_hour >= {int(from_hour)} AND b.life_end_hour < {int(to_hour)}"


def _values(pk: int, told: Lived, names: Sequence[str]) -> str:
    values: Sequence[int | None] = [pk, *(getattr(told, name) for name in names)]
    return f"({', '.join('NULL' if value is None else str(int(value)) for value in values)})"
