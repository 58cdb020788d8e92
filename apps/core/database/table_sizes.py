"""Bytes, rows and growth of each table, and when the disk is full.

Growth is estimated from the rows of the last 30 days, by a time column of the table or of the table
that a foreign key names. A table without one has an unknown growth.
"""

import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import DatabaseError, connection, models
from django.db.backends.utils import CursorWrapper

from apps.core.clock import utc
from apps.core.units import US_PER_HOUR

_DAY_US = 24 * US_PER_HOUR
_PERIOD_US = 30 * _DAY_US
_YEAR_US = 365 * _DAY_US
# Columns with the time of a row, best first, and their unit in µs.
_TIME_COLUMNS = {
    **dict.fromkeys(
        (
            "received_us", "created_us", "made_us", "recorded_us", "registered_us", "start_us",
            "started_us", "at_us", "claimed_us", "detected_us", "found_us", "told_us", "added_us",
            "placed_us", "enrolled_us", "first_us", "from_us", "checked_us",
            "dismissed_us",
        ),
        1,
    ),
    **dict.fromkeys(("hour", "from_hour"), US_PER_HOUR),
}  # fmt: skip
_SAMPLE = 2000
# Their rows are shipped with a version.
_SHIPPED = frozenset({"carbon_emissionfactor", "catalog_embodiedfigure", "catalog_hardwaremodel"})


@dataclass(frozen=True)
class TableSize:
    """``total_bytes`` includes indexes. ``index_bytes`` None: unknown. ``yearly_bytes`` None:
    unknown.
    """

    name: str
    rows: int
    total_bytes: int
    index_bytes: int | None
    yearly_bytes: int | None


@dataclass(frozen=True)
class DatabaseSize:
    """``is_measured``: table sizes are measured, else estimated. ``free_bytes`` None: the disk
    cannot be seen from here. ``full_in_days`` None: unknown, or the database does not grow.
    """

    tables: list[TableSize]
    total_bytes: int
    is_measured: bool
    free_bytes: int | None
    observed_days: float
    yearly_bytes: int
    full_in_days: int | None


def database_size(now: int) -> DatabaseSize:
    """Measure all tables. Counts every row, which can take minutes."""
    with connection.cursor() as cursor:
        names = sorted(connection.introspection.table_names(cursor))
        is_measured = connection.vendor == "postgresql" or _has_dbstat(cursor)
        if connection.vendor == "postgresql":
            bytes_by_table = _postgresql_bytes(cursor, names)
            cursor.execute("SELECT pg_database_size(current_database())")
        else:
            bytes_by_table = _dbstat_bytes(cursor) if is_measured else _sampled_bytes(cursor, names)
            cursor.execute(
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            )
        total_bytes = int(cursor.fetchone()[0])
        rows = {name: _count(cursor, name) for name in names}
        first_us = _first_row_us(cursor, now)
        observed_us = min(_PERIOD_US, max(now - first_us, _DAY_US))
        recent = {name: _recent_rows(cursor, name, now - observed_us, now) for name in names}
    tables = [
        TableSize(
            name,
            rows[name],
            *bytes_by_table[name],
            _yearly(bytes_by_table[name][0], rows[name], recent[name], observed_us),
        )
        for name in names
    ]
    yearly = sum(table.yearly_bytes or 0 for table in tables)
    free = _free_bytes()
    return DatabaseSize(
        tables=sorted(tables, key=lambda table: (-table.total_bytes, table.name)),
        total_bytes=total_bytes,
        is_measured=is_measured,
        free_bytes=free,
        observed_days=observed_us / _DAY_US,
        yearly_bytes=yearly,
        full_in_days=free * 365 // yearly if free is not None and yearly else None,
    )


def _yearly(table_bytes: int, rows: int, recent: int | None, observed_us: int) -> int | None:
    if recent is None:
        return None
    return table_bytes * recent * _YEAR_US // (rows * observed_us) if rows else 0


def _count(cursor: CursorWrapper, name: str) -> int:
    cursor.execute(f"SELECT COUNT(*) FROM {connection.ops.quote_name(name)}")
    return int(cursor.fetchone()[0])


def _has_dbstat(cursor: CursorWrapper) -> bool:
    try:
        cursor.execute("SELECT 1 FROM dbstat LIMIT 1")
    except DatabaseError as error:
        if "no such table" not in str(error):
            raise
        return False
    return True


def _dbstat_bytes(cursor: CursorWrapper) -> dict[str, tuple[int, int | None]]:
    cursor.execute(
        "SELECT tbl_name, SUM(pgsize), SUM(CASE WHEN type = 'index' THEN pgsize ELSE 0 END) "
        "FROM (SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE) sizes "
        "JOIN sqlite_master USING (name) GROUP BY tbl_name"
    )
    return {name: (total, index) for name, total, index in cursor.fetchall()}


def _sampled_bytes(cursor: CursorWrapper, names: list[str]) -> dict[str, tuple[int, int | None]]:
    """Divide the file by the lengths of the values of some rows, times the number of rows."""
    weights = {}
    for name in names:
        quote = connection.ops.quote_name
        description = connection.introspection.get_table_description(cursor, name)
        columns = [column.name for column in description]
        length = " + ".join(
            f"COALESCE(LENGTH(CAST({quote(column)} AS BLOB)), 0)" for column in columns
        )
        cursor.execute(
            f"SELECT AVG({length}) FROM (SELECT * FROM {quote(name)} LIMIT {_SAMPLE}) rows"
        )
        mean = cursor.fetchone()[0]
        weights[name] = _count(cursor, name) * (float(mean) + len(columns)) if mean else 0.0
    cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
    total, whole = cursor.fetchone()[0], sum(weights.values()) or 1.0
    return {name: (int(total * weight / whole), None) for name, weight in weights.items()}


def _postgresql_bytes(cursor: CursorWrapper, names: list[str]) -> dict[str, tuple[int, int | None]]:
    sizes: dict[str, tuple[int, int | None]] = {}
    for name in names:
        quoted = connection.ops.quote_name(name)
        cursor.execute(
            "SELECT pg_total_relation_size(%s::regclass), pg_indexes_size(%s::regclass)",
            [quoted, quoted],
        )
        sizes[name] = cursor.fetchone()
    return sizes


# Growth


def _options(model: type[models.Model]) -> Any:
    return model._meta  # noqa: SLF001 - the documented API of models


def _model_of(name: str) -> type[models.Model] | None:
    for model in apps.get_models(include_auto_created=True):
        if _options(model).db_table == name:
            return model
    return None


def _first_row_us(cursor: CursorWrapper, now: int) -> int:
    """Return when this installation began: its first lab."""
    cursor.execute("SELECT MIN(created_us) FROM accounts_lab")
    first = cursor.fetchone()[0]
    return now if first is None else int(first)


def _recent_rows(cursor: CursorWrapper, name: str, since_us: int, now: int) -> int | None:
    """Return the number of rows of the period. None: no column says when a row was written."""
    model = _model_of(name)
    if model is None or name in _SHIPPED:
        return None
    quote, table = connection.ops.quote_name, connection.ops.quote_name(name)
    if own := _time_column(model):
        column, unit = own
        cursor.execute(
            f"SELECT COUNT(*) FROM {table} WHERE {quote(column)} >= %s AND {quote(column)} <= %s",
            [since_us // unit, now // unit],
        )
        return int(cursor.fetchone()[0])
    if join := _joined_time(model):
        on, column, unit = join
        cursor.execute(
            f"SELECT COUNT(*) FROM {table} rows {on} WHERE parent.{quote(column)} >= %s "
            f"AND parent.{quote(column)} <= %s",
            [since_us // unit, now // unit],
        )
        return int(cursor.fetchone()[0])
    if name == "django_session":
        cursor.execute(
            f"SELECT COUNT(*) FROM {table} WHERE expire_date >= %s",
            [connection.ops.adapt_datetimefield_value(utc(since_us) + timedelta(days=14))],
        )
        return int(cursor.fetchone()[0])
    return None


def _time_column(model: type[models.Model]) -> tuple[str, int] | None:
    columns = {field.column for field in _options(model).concrete_fields}
    for column, unit in _TIME_COLUMNS.items():
        if column in columns:
            return column, unit
    return None


def _joined_time(model: type[models.Model]) -> tuple[str, str, int] | None:
    """Return a join with the table of a foreign key, or with the windows of shares, that has a time
    column.
    """
    quote = connection.ops.quote_name
    columns = {field.column for field in _options(model).concrete_fields}
    if {"epoch_id", "sequence"} <= columns:
        window = apps.get_model("ingest", "EnergyWindow")
        on = "parent.epoch_id = rows.epoch_id AND parent.sequence = rows.sequence"
        return f"JOIN {quote(_options(window).db_table)} parent ON {on}", "start_us", 1
    for field in _options(model).concrete_fields:
        parent = field.related_model
        if not isinstance(field, models.ForeignKey) or not isinstance(parent, type):
            continue
        if issubclass(parent, models.Model) and _options(parent).label in _PARENTS:
            time_column = _time_column(parent)
            assert time_column is not None
            key = _options(parent).pk.column
            table = quote(_options(parent).db_table)
            on = f"parent.{quote(key)} = rows.{quote(field.column)}"
            return f"JOIN {table} parent ON {on}", *time_column
    return None


# Tables whose rows are written together with those of the table that refers to them.
_PARENTS = frozenset({
    "runs.Run", "carbon.RolledDay", "artifacts.Artifact", "artifacts.CleanupPlan", "assets.Asset",
    "ingest.Batch", "preflight.Preflight",
})  # fmt: skip


def _free_bytes() -> int | None:
    """Return the free space on the database's disk. None: it is on another machine, or PostgreSQL
    does not reveal its folder.
    """
    path: Path | None = getattr(connection, "file_path", None)
    if path is None:
        return None
    return shutil.disk_usage(path.parent).free


def as_dict(size: DatabaseSize) -> dict[str, Any]:
    """Return all as JSON-compatible values. Unknown is null."""
    return {
        "total_bytes": size.total_bytes,
        "measured": size.is_measured,
        "free_bytes": size.free_bytes,
        "observed_days": round(size.observed_days, 3),
        "yearly_bytes": size.yearly_bytes,
        "full_in_days": size.full_in_days,
        "tables": [
            {
                "name": table.name,
                "rows": table.rows,
                "total_bytes": table.total_bytes,
                "index_bytes": table.index_bytes,
                "yearly_bytes": table.yearly_bytes,
            }
            for table in size.tables
        ],
    }
