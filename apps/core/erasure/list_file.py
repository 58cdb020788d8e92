"""The list of erasures beside the database: ``erasures.jsonl`` in the data directory.

It survives the restore of a backup that was made before an erasure. It contains keyed hashes, never
names. Lines are only added.
"""

import json
import os
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from apps.core.backup import BackupError
from apps.core.erasure.names import as_line, from_line
from apps.core.erasure.signals import erasures_missing
from apps.core.models import ErasedName

FILE = "erasures.jsonl"


def list_path() -> Path:
    """Return the path of the list of this installation."""
    return Path(settings.DATA_DIR) / FILE


def has_table() -> bool:
    """Return whether the database is of a version that stores erasures."""
    return "core_erasedname" in connection.introspection.table_names()


def read_list(path: Path) -> list[ErasedName]:
    """Return the rows of a list, none if it does not exist. Raises BackupError."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        return [from_line(json.loads(line)) for line in lines if line]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackupError(f"The list of erasures {path} cannot be read: {error}.") from error


def write_list(path: Path) -> int:
    """Add the erasures of the database to a list. Return the number of its lines."""
    stored = list(ErasedName.objects.order_by("pk")) if has_table() else []
    return _write(path, [*read_list(path), *stored])


def _write(path: Path, listed: list[ErasedName]) -> int:
    rows = {(row.lab_id, row.digest): row for row in listed}
    if not rows:
        return 0
    lines = [json.dumps(as_line(row), sort_keys=True) for row in rows.values()]
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise BackupError(f"The list of erasures {path} cannot be written: {error}.") from error
    return len(lines)


def is_current() -> bool:
    """Return whether all migrations are applied, so that all tables can be read."""
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


def merge_lists(paths: list[Path]) -> None:
    """Add the lines of lists to the list of this installation, for the next ``migrate``."""
    _write(list_path(), [row for path in paths for row in read_list(path)])


def apply_missing(paths: list[Path], now: int) -> int:
    """Apply the erasures of lists that the database does not have, and write them to the list of
    this installation. Return the number of erased names.
    """
    if not has_table():
        return 0
    rows = missing_erasures(paths)
    if rows:
        erasures_missing.send(sender=ErasedName, rows=rows, now=now)
    write_list(list_path())
    return len(rows)


def missing_erasures(paths: list[Path]) -> list[ErasedName]:
    """Return the rows of lists that the database does not have: it is a backup of before."""
    known = set(ErasedName.objects.values_list("lab_id", "digest"))
    rows = {(row.lab_id, row.digest): row for path in paths for row in read_list(path)}
    return [row for key, row in rows.items() if key not in known]
