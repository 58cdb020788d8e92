"""Test data that services create once per process. Later tests copy the rows, in a tenth of the
time.
"""

import pickle
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from django.apps import apps
from django.db import connection
from django.db.models import Count, Max, Model

from apps.carbon.models import EmissionFactor
from tests.shipped_data import SHIPPED_ROWS, quote_columns, table_rows

T = TypeVar("T")
Rows = list[tuple[Any, ...]]


@dataclass
class _Copy:
    """The pickled result, and the rows of each table."""

    created: bytes
    rows: dict[str, Rows]


_COPIES: dict[Hashable, _Copy] = {}  # per process, whose tests share a database


def copy_or_create(key: Hashable, make: Callable[[], T], models: Sequence[type[Model]] = ()) -> T:
    """Return the result of ``make``. The first call per key runs it; later calls copy its rows,
    with primary keys.

    ``make`` writes only to ``models`` (default: any, without changing shipped rows). It reads only
    what ``key`` describes and the emission factors. If other rows exist already, ``make`` runs.
    """
    tables = {
        model._meta.db_table: [field.column for field in model._meta.concrete_fields]
        for model in models or _project_models()
    }
    if not _are_empty(tables.keys() - SHIPPED_ROWS.keys()):
        return make()
    # a test may have loaded other factors first
    key = (key, *EmissionFactor.objects.aggregate(Count("pk"), Max("pk")).values())
    if key not in _COPIES:
        created = make()
        rows = {table: _added_rows(table, columns) for table, columns in tables.items()}
        _COPIES[key] = _Copy(
            pickle.dumps(created), {table: added for table, added in rows.items() if added}
        )
        return created
    copy = _COPIES[key]
    with connection.cursor() as cursor:
        for table, rows in copy.rows.items():
            names, places = quote_columns(tables[table]), ", ".join(["%s"] * len(tables[table]))
            cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", rows)
    return cast("T", pickle.loads(copy.created))


@cache
def _project_models() -> tuple[type[Model], ...]:
    """Return all models of this project that have a table."""
    models = apps.get_models(include_auto_created=True)
    return tuple(
        model for model in models if model.__module__.startswith("apps.") and model._meta.managed
    )


def _added_rows(table: str, columns: Sequence[str]) -> Rows:
    """Return the rows of a table that were not shipped."""
    load_shipped_data = {row[0] for row in SHIPPED_ROWS.get(table, ())}
    return [row for row in table_rows(table, columns) if row[0] not in load_shipped_data]


def _are_empty(tables: Iterable[str]) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in tables)
        )
        return not cursor.fetchone()[0]
