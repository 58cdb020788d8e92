"""Writing of columns of many rows at once."""

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import Model


def update_columns(rows: Sequence[Model], names: Sequence[str]) -> None:
    """Write columns of saved rows of one model, with the values that the rows have.

    ``bulk_update`` writes a CASE of each row for each column, which takes minutes for thousands of
    rows with many columns.
    """
    if not rows or not names:
        return
    meta: Any = rows[0]._meta  # noqa: SLF001 - the documented API of models
    fields = [meta.get_field(name) for name in names]
    quoted = connection.ops.quote_name
    columns = ", ".join(f"{quoted(field.column)} = %s" for field in fields)
    key = quoted(meta.pk.column)
    values = [
        (
            *(field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields),
            row.pk,
        )
        for row in rows
    ]
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {quoted(meta.db_table)} SET {columns} WHERE {key} = %s", values)
