"""Shipped factors and hardware for every test database: loaded by services once, later copied row
by row.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Model

from apps.carbon.models import EmissionFactor
from apps.carbon.services import load_factors
from apps.catalog.models import EmbodiedFigure, HardwareAlias, HardwareModel
from apps.catalog.services import load_catalogue

T0 = 1_793_606_400_000_000  # 2026-11-02 08:00 UTC
SHIPPED_ROWS: dict[str, list[tuple[Any, ...]]] = {}  # by table, of this process


def load_shipped_data(**_signal: Any) -> None:
    """Load the shipped emission factors and hardware as of T0."""
    _load_or_copy((EmissionFactor,), lambda: load_factors(now=T0))
    _load_or_copy((HardwareModel, HardwareAlias, EmbodiedFigure), lambda: load_catalogue(now=T0))


def empty_catalogue() -> None:
    """Delete the catalogue for this test."""
    for model in (EmbodiedFigure, HardwareAlias, HardwareModel):
        model._default_manager.all().delete()


def _load_or_copy(models: Sequence[type[Model]], load: Callable[[], object]) -> None:
    if models[0]._default_manager.exists():
        return
    tables = {
        model._meta.db_table: [field.column for field in model._meta.concrete_fields]
        for model in models
    }
    if not tables.keys() <= SHIPPED_ROWS.keys():
        load()
        for table, columns in tables.items():
            SHIPPED_ROWS[table] = table_rows(table, columns)
        return
    for table, columns in tables.items():
        _write(table, columns, SHIPPED_ROWS[table])


def quote_columns(columns: Sequence[str]) -> str:
    """Return quoted column names for SQL; some are reserved words."""
    return ", ".join(f'"{column}"' for column in columns)


def table_rows(table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return all rows of a table, ordered by the first column (oldest first)."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {quote_columns(columns)} FROM {table} ORDER BY {columns[0]}")
        return [
            tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
            for row in cursor.fetchall()
        ]


def _write(table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    names = quote_columns(columns)
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            cursor.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})", rows
            )
            return
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        sequence = f"pg_get_serial_sequence('{table}', 'id')"
        highest = max(row[0] for row in rows)
        cursor.execute(
            f"SELECT setval({sequence}, GREATEST({highest}, nextval({sequence})))"
        )  # never back
