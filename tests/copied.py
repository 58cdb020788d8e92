"""What many tests begin with: made by services once in a process, then copied row by row in a tenth of the time."""

import pickle
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from django.db import connection
from django.db.models import Model

T = TypeVar("T")
Rows = list[tuple[Any, ...]]


@dataclass
class _Copy:
    """``made`` as it was returned, and the rows of each table."""

    made: bytes
    rows: dict[str, Rows]


_COPIES: dict[Hashable, _Copy] = {}  # of this process, whose tests share a database


def copied(key: Hashable, make: Callable[[], T], models: Sequence[type[Model]]) -> T:
    """Return what ``make`` does, which writes to nothing but ``models``.

    If all of them are empty it is copied from the first time, primary keys included: later rows have greater ones, as ever.
    """
    tables = [model._meta.db_table for model in models]
    if not _are_empty(tables):
        return make()
    if key not in _COPIES:
        made = make()
        _COPIES[key] = _Copy(pickle.dumps(made), {table: _read(table) for table in tables})
        return made
    copy = _COPIES[key]
    with connection.cursor() as cursor:
        for table, rows in copy.rows.items():
            if rows:
                places = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
    return cast("T", pickle.loads(copy.made))


def _are_empty(tables: Sequence[str]) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in tables))
        return not cursor.fetchone()[0]


def _read(table: str) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")
        return [tuple(bytes(each) if isinstance(each, memoryview) else each for each in row) for row in cursor.fetchall()]
