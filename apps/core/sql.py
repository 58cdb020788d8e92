"""SQL that differs between SQLite and PostgreSQL, and the conversion of sums to Python integers."""

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection

_INT64_MAX = 2**63 - 1


def emission_sql(energy: str, pue: str, factor: str) -> str:
    """Return SQL for µg CO2e of three columns: exact, rounded half up. Equal to
    :func:`units.emission_ug`.
    """
    if connection.vendor == "postgresql":
        # div() truncates towards zero. Negative energies (overhead findings) need floor, which is
        # three times slower.
        parts = f"({energy}::numeric * {pue} * {factor} + 1800000000000000, 3600000000000000)"
        return f"CASE WHEN {energy} >= 0 THEN div{parts} ELSE floor_div{parts} END"
    return f"emission_ug({energy}, {pue}, {factor})"


def cost_sql(energy: str, pue: str, price: str) -> str:
    """Return SQL for the cost of energy: as :func:`emission_sql`, with prices below zero too."""
    if connection.vendor == "postgresql":
        parts = f"({energy}::numeric * {pue} * {price} + 1800000000000000, 3600000000000000)"
        return f"CASE WHEN {energy} >= 0 AND {price} >= 0 THEN div{parts} ELSE floor_div{parts} END"
    return f"emission_ug({energy}, {pue}, {price})"


def facility_sql(energy: str, pue: str) -> str:
    """Return SQL for facility energy in mJ. Equal to :func:`units.facility_mj`."""
    if connection.vendor == "postgresql":
        fits = f"{energy} BETWEEN 0 AND {_INT64_MAX - 500_000} / {pue}"
        exact = f"floor_div({energy}::numeric * {pue} + 500000, 1000000)"
        return f"CASE WHEN {fits} THEN ({energy} * {pue} + 500000) / 1000000 ELSE {exact} END"
    return f"facility_mj({energy}, {pue})"


def json_int_sql(column: str, key: str) -> str:
    """Return SQL for the integer under ``key`` (a constant) of a JSON column. NULL if it is
    missing.
    """
    if connection.vendor == "postgresql":
        return f"({column}->>'{key}')::bigint"
    return f"json_extract({column}, '$.{key}')"


def second_sum_sql(column: str) -> str:
    """Return SQL for the sum of the second integers of a JSON column of pairs. 0 for an empty
    list.
    """
    if connection.vendor == "postgresql":
        return (
            f"(SELECT COALESCE(SUM((pair->>1)::bigint), 0) FROM jsonb_array_elements({column}) "
            "pair)"
        )
    return (
        f"(SELECT COALESCE(SUM(json_extract(pair.value, '$[1]')), 0) FROM json_each({column}) pair)"
    )


@dataclass(frozen=True)
class IntPairs:
    """SQL for the entries of a JSON text object with integer keys and values.

    ``join`` follows the table of the column; ``left_join`` does too, and keeps rows without
    entries. ``key`` and ``value`` are expressions.
    """

    join: str
    left_join: str
    key: str
    value: str


def int_pairs_sql(column: str, alias: str) -> IntPairs:
    """Return SQL that joins each row with the entries of its JSON object ``{"7": 250, …}``."""
    if connection.vendor == "postgresql":
        return IntPairs(
            f"CROSS JOIN LATERAL json_each_text({column}::json) AS {alias}(key, value)",
            f"LEFT JOIN LATERAL json_each_text({column}::json) AS {alias}(key, value) ON TRUE",
            f"{alias}.key::bigint",
            f"{alias}.value::bigint",
        )
    return IntPairs(
        f"JOIN json_each({column}) {alias}",
        f"LEFT JOIN json_each({column}) {alias}",
        f"CAST({alias}.key AS INTEGER)",
        f"{alias}.value",
    )


def square_sum_sql(column: str) -> str:
    """Return SQL for the sum of squares of integers of any size. NULL for no rows. Convert it with
    int().
    """
    if connection.vendor == "postgresql":
        return f"SUM(({column})::numeric * ({column}))"
    return f"square_sum({column})"


def split_sql(value: str, low: str, high: str, total: str) -> str:
    """Return SQL for the part ``[low, high)`` of ``total`` of an integer. The parts of a value sum
    to it exactly.
    """
    if connection.vendor == "postgresql":
        return (
            f"(div(({value})::numeric * {high}, {total}) - div(({value})::numeric * {low}, "
            f"{total}))"
        )
    return f"(({value}) * {high} / {total} - ({value}) * {low} / {total})"


def least_sql(a: str, b: str) -> str:
    """Return SQL for the smaller of two values."""
    return f"{'LEAST' if connection.vendor == 'postgresql' else 'MIN'}({a}, {b})"


def greatest_sql(a: str, b: str) -> str:
    """Return SQL for the greater of two values."""
    return f"{'GREATEST' if connection.vendor == 'postgresql' else 'MAX'}({a}, {b})"


def prorated_sql(
    amount: str, from_hour: str, to_hour: str, start: str = "%s", end: str = "%s"
) -> str:
    """Return SQL for the part of an amount, spread evenly over ``[from_hour, to_hour)``, that falls
    in ``[start, end)``.

    Equal to :func:`units.prorated` for any size: an amount times hours may exceed 64 bits.
    ``start`` and ``end`` occur once each, in this order, so that they can be parameters. ``start``
    must not be after ``end``.
    """
    if connection.vendor == "postgresql":
        low, high = (
            f"({least_sql(greatest_sql(hour, from_hour), to_hour)} - {from_hour})"
            for hour in (start, end)
        )
        whole = f"({to_hour} - {from_hour})"
        parts = (f"floor_div(({amount})::numeric * {part}, {whole})" for part in (low, high))
        return "(0 - {} + {})".format(*parts)
    return f"prorated({amount}, {from_hour}, {to_hour}, {start}, {end})"


def prorated_inline_sql(amount: str, from_hour: str, to_hour: str, start: str, end: str) -> str:
    """Return SQL with the result of :func:`prorated_sql`, ten times as fast if the product fits
    into 64 bits. No argument may be a parameter, because each occurs several times.
    """
    low, high = (
        f"({least_sql(greatest_sql(hour, from_hour), to_hour)} - {from_hour})"
        for hour in (start, end)
    )
    whole = f"({to_hour} - {from_hour})"
    return (
        f"CASE WHEN {start} <= {from_hour} AND {to_hour} <= {end} THEN {amount} "
        f"WHEN {amount} BETWEEN 0 AND {_INT64_MAX} / {whole} THEN {amount} * {high} / {whole} - "
        f"{amount} * {low} / {whole} "
        f"ELSE CAST({prorated_sql(amount, from_hour, to_hour, start, end)} AS bigint) END"
    )


def uuid_param(value: UUID | str) -> UUID | str:
    """Return a UUID in the form that the database stores."""
    uuid = value if isinstance(value, UUID) else UUID(value)
    return uuid if connection.features.has_native_uuid_field else uuid.hex


def as_int(value: int | Decimal | None) -> int:
    """Return a database sum as int. PostgreSQL returns Decimal; an empty sum is NULL and becomes
    0.
    """
    return 0 if value is None else int(value)


def fetch_rows(sql: str, params: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Run ``sql`` and yield each row as a dict. Decimals become int: all numeric columns are
    integers.
    """
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            yield {
                name: int(value) if isinstance(value, Decimal) else value
                for name, value in zip(names, row, strict=True)
            }


def fetch_tuples(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Run ``sql`` and return its rows as the driver does."""
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        return list(cursor.fetchall())


def placeholders(values: Sized) -> str:
    """Return SQL for a list of as many parameters as there are values."""
    return ", ".join(["%s"] * len(values))


def filter_sql(column: str, select: str) -> str:
    """Return SQL for whether a column is among the rows of ``select``, as a filter of rows that
    another condition finds: no index of the column is used, and no join is planned.
    """
    if connection.vendor == "postgresql":
        return f"+{column} = ANY(ARRAY({select}))"
    return f"+{column} IN ({select})"


def for_update() -> str:
    """Return the SQL suffix that locks selected rows. SQLite has one writer, which holds the write
    lock already.
    """
    return " FOR UPDATE" if connection.features.has_select_for_update else ""


def lock_rows(table: str, ids: Sequence[int]) -> None:
    """Lock rows by id, in ascending order, until this transaction ends. Their keys stay readable
    for foreign keys. SQLite has one writer, which holds the write lock already.
    """
    if connection.features.has_select_for_update:
        marks = placeholders(ids)
        sql = f"SELECT id FROM {table} WHERE id IN ({marks}) ORDER BY id FOR NO KEY UPDATE"
        fetch_tuples(sql, ids)


# Namespaces of advisory locks.
ATTRIBUTION = 1
ROLLUPS = 2


def lock_shared(space: int, number: int) -> None:
    """Take a shared lock of (space, number) until this transaction ends. SQLite has a single writer
    anyway.
    """
    _advisory("pg_advisory_xact_lock_shared", space, number)


def lock_exclusive(space: int, number: int) -> None:
    """Wait until no transaction holds a lock of (space, number), and take it until this transaction
    ends.
    """
    _advisory("pg_advisory_xact_lock", space, number)


def try_lock_exclusive(space: int, number: int) -> bool:
    """Take :func:`lock_exclusive` if it is free. Returns whether it was taken. Never waits."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [space, number])
        return bool(cursor.fetchone()[0])


def _advisory(function: str, space: int, number: int) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s, %s)", [space, number])


def bulk_insert(
    table: str, columns: Mapping[str, tuple[str, Sequence[Any]]], *, on_conflict: str = ""
) -> None:
    """Insert columns of equal length into ``table`` in one statement.

    ``columns`` maps a name to (PostgreSQL type, values). PostgreSQL gets a binary COPY, or binary
    arrays and ``unnest`` with ``on_conflict``. SQLite gets ``executemany`` in the current
    transaction.
    """
    names = ", ".join(columns)
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        with connection.wrap_database_errors:
            if on_conflict:
                _insert_arrays(table, columns, on_conflict)
            else:
                _copy(table, columns)
        return
    marks = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} ({names}) VALUES ({marks}) {on_conflict}",
            list(zip(*(values for _, values in columns.values()), strict=True)),
        )


def _copy(table: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
    import psycopg

    sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with psycopg.Cursor(connection.connection) as cursor, cursor.copy(sql.encode()) as copy:
        copy.set_types([kind for kind, _ in columns.values()])
        for row in zip(*(values for _, values in columns.values()), strict=True):
            copy.write_row(row)


def _insert_arrays(
    table: str, columns: Mapping[str, tuple[str, Sequence[Any]]], on_conflict: str
) -> None:
    import psycopg

    arrays = ", ".join(f"%b::{kind}[]" for kind, _ in columns.values())
    sql = f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays}) {on_conflict}"
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(sql.encode(), [list(values) for _, values in columns.values()])
