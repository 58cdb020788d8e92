"""Checks each table of the database for damage once a day, outside of requests.

SQLite: ``PRAGMA quick_check`` of one table and its indexes at a time. PostgreSQL: ``amcheck`` if
the extension is installed and permitted; without it only a missing or unreadable first page of a
table is noticed.
"""

import time
from contextlib import AbstractContextManager, nullcontext

from django.db import DatabaseError, connection, transaction

from apps.core.clock import now_us
from apps.core.database_problems import Problem, problem_of
from apps.core.jobs import enqueue
from apps.core.models import Job, TableCheck

CHECK_JOB = "core.check_tables"
DAY_US = 24 * 3_600_000_000
_SLICE_S = 5.0
_PAUSE_US = 5_000_000
_HEAP_BLOCKS = 16_384
_MAX_CHARS = 500
_TABLE = "core_tablecheck"


def check_due_tables(*, now: int, limit_s: float = _SLICE_S) -> int:
    """Check tables that were not checked today, for about ``limit_s``. Returns when the next check
    is due.
    """
    names = set(connection.introspection.table_names())
    TableCheck.objects.exclude(name__in=names).delete()
    checked = dict(TableCheck.objects.values_list("name", "checked_us"))
    due = [
        name
        for name in sorted(names, key=lambda name: (checked.get(name, 0), name))
        if checked.get(name, 0) <= now - DAY_US
    ]
    deadline = time.monotonic() + limit_s
    for position, name in enumerate(due):
        if position and time.monotonic() > deadline:
            return now_us() + _PAUSE_US
        TableCheck.objects.update_or_create(
            name=name, defaults={"problem": check_table(name)[:_MAX_CHARS], "checked_us": now_us()}
        )
    oldest = TableCheck.objects.order_by("checked_us").values_list("checked_us", flat=True).first()
    return (oldest or now) + DAY_US


def check_table(name: str) -> str:
    """Return what is damaged in a table or its indexes, or ''."""
    try:
        with _savepoint():
            return _check_sqlite(name) if connection.vendor == "sqlite" else _check_postgresql(name)
    except DatabaseError as error:
        if problem_of(error) not in {Problem.DAMAGED, Problem.MISSING, Problem.TABLES_MISSING}:
            raise
        return " ".join(str(error).split())


def _savepoint() -> AbstractContextManager[object]:
    """On SQLite a transaction would lock out writers."""
    return nullcontext() if connection.vendor == "sqlite" else transaction.atomic()


def _check_sqlite(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA quick_check({connection.ops.quote_name(name)})")
        rows = [str(row[0]) for row in cursor.fetchall()]
    return "" if rows == ["ok"] else " ".join(" ".join(rows).split())


def _check_postgresql(name: str) -> str:
    quoted = connection.ops.quote_name(name)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {quoted} LIMIT 1")
        if not can_use_amcheck():
            return ""
        cursor.execute("SELECT pg_relation_size(%s) / current_setting('block_size')::int", [quoted])
        blocks = cursor.fetchone()[0]
        for first in range(0, blocks, _HEAP_BLOCKS):
            cursor.execute(
                "SELECT blkno, msg FROM verify_heapam(%s, startblock => %s, endblock => %s) "
                "LIMIT 1",
                [quoted, first, min(first + _HEAP_BLOCKS, blocks) - 1],
            )
            if row := cursor.fetchone():
                return f"block {row[0]}: {row[1]}"
        cursor.execute(
            "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid "
            "JOIN pg_am ON pg_am.oid = relam "
            "WHERE indrelid = %s::regclass AND indisvalid AND amname = 'btree'",
            [quoted],
        )
        for (index,) in cursor.fetchall():
            cursor.execute("SELECT bt_index_check(%s::regclass)", [index])
    return ""


def can_use_amcheck() -> bool:
    """Return whether the extension is installed and this user may call its functions."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) = 2 FROM pg_proc JOIN pg_depend ON objid = pg_proc.oid "
            "JOIN pg_extension ON refobjid = pg_extension.oid AND extname = 'amcheck' "
            "WHERE deptype = 'e' AND has_function_privilege(pg_proc.oid, 'EXECUTE') AND "
            "(proname = 'verify_heapam' OR (proname = 'bt_index_check' AND pronargs = 1))"
        )
        return bool(cursor.fetchone()[0])


def damaged_tables() -> list[tuple[str, str]]:
    """Return (table, what is damaged) of the last checks. One query of a small table."""
    return list(
        TableCheck.objects.exclude(problem="").order_by("name").values_list("name", "problem")
    )


def forget_checks() -> None:
    """Delete the results of checks, which a restored backup contains. It may be older than their
    table.
    """
    if _TABLE in connection.introspection.table_names():
        TableCheck.objects.all().delete()


def check_soon() -> None:
    """Repeat all checks now, because a query met damage."""
    TableCheck.objects.filter(problem="").update(checked_us=0)
    if not Job.objects.filter(kind=CHECK_JOB).update(due_us=0):
        enqueue(kind=CHECK_JOB, key="")
