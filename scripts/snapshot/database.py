"""Tables and rows of the database by their names there: names in Python may change."""

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection

# Tables that are not compared, and why.
LEFT_OUT = {
    "django_migrations": "names of migrations are compared by the tests of migrations",
    "django_content_type": "names of Python classes",
    "auth_permission": "names of Python classes",
    "django_session": "sessions of the visits",
    "labcarbon_cache": "counts of requests",
}
# Columns whose values are random or secret, as table.column.
MASKED = {
    "accounts_user.password": "salted hash",
    "accounts_token.digest": "hash of a random secret",
}


def tables() -> list[str]:
    """Return the names of all tables."""
    with connection.cursor() as cursor:
        return sorted(
            name for name in connection.introspection.table_names(cursor) if name not in LEFT_OUT
        )


def schema() -> dict[str, Any]:
    """Return columns, constraints and indexes of all tables."""
    description: dict[str, Any] = {}
    with connection.cursor() as cursor:
        for table in tables():
            columns = {
                column.name: [
                    str(connection.introspection.get_field_type(column.type_code, column)),
                    str(column.type_code),
                    column.internal_size,
                    column.precision,
                    column.scale,
                    column.null_ok,
                    str(column.default),
                    column.collation,
                ]
                for column in connection.introspection.get_table_description(cursor, table)
            }
            constraints = {
                name: {key: str(value) for key, value in facts.items()}
                for name, facts in connection.introspection.get_constraints(cursor, table).items()
            }
            description[table] = {"columns": columns, "constraints": constraints}
        return {"tables": description, "statements": statements(cursor)}


def statements(cursor: Any) -> dict[str, str]:
    """Return the SQL of checks and indexes by their names."""
    if connection.vendor == "postgresql":
        cursor.execute(
            "SELECT c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t "
            "ON t.oid = c.conrelid "
            "JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = 'public' "
            "UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        )
        return {name: text for name, text in sorted(cursor.fetchall())}  # noqa: C416 - rows are tuples of text
    cursor.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    texts = {}
    for kind, name, text in cursor.fetchall():
        if kind == "table":
            texts |= {f"{name}.{check}": condition for check, condition in checks_in(text)}
        else:
            texts[name] = text
    return texts


def checks_in(statement: str) -> list[tuple[str, str]]:
    """Return (name, condition) of each named check in a CREATE TABLE."""
    checks = []
    for part in statement.split('CONSTRAINT "')[1:]:
        name, _, rest = part.partition('" ')
        if rest.startswith("CHECK ("):
            depth, end = 0, 0
            for end, letter in enumerate(rest):  # noqa: B007 - used after the loop
                depth += (letter == "(") - (letter == ")")
                if letter == ")" and depth == 0:
                    break
            checks.append((name, rest[6 : end + 1]))
    return checks


def rows_of(table: str) -> dict[str, dict[str, Any]]:
    """Return all rows of a table by their primary keys."""
    with connection.cursor() as cursor:
        keys = sorted(connection.introspection.get_primary_key_columns(cursor, table))
        quote = connection.ops.quote_name
        cursor.execute(f"SELECT * FROM {quote(table)} ORDER BY {', '.join(map(quote, keys))}")
        names = [column[0] for column in cursor.description]
        rows: dict[str, dict[str, Any]] = {}
        for row in cursor.fetchall():
            values = {name: plain(value) for name, value in zip(names, row, strict=True)}
            masked = {
                name: "(masked)"
                for name in names
                if f"{table}.{name}" in MASKED and values[name] is not None
            }
            name = " ".join(str(values[key]) for key in keys)
            assert name not in rows, f"{table}: {name} twice"
            rows[name] = {**values, **masked}
        return rows


def sums_of(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return the number of rows and the sum of each column of energy or emission: the same on
    every database.
    """
    sums = {"rows": len(rows)}
    for row in rows.values():
        for name, value in row.items():
            if name.endswith(("_mj", "_ug", "_wh")) and isinstance(value, int):
                sums[name] = sums.get(name, 0) + value
    return sums


def plain(value: Any) -> Any:
    """Return a value of a column in one form on both databases."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if value is None or isinstance(value, int | float | str | dict | list):
        return value
    return str(value.normalize() if isinstance(value, Decimal) else value)
