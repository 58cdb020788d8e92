"""Creates the tables of a new database, and never those of one that existed and is now missing or
empty.

The file ``databases-created`` in the data directory lists the databases that were migrated.
"""

import logging
import os
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError
from django.db.backends.base.base import BaseDatabaseWrapper

from apps.core.database.sqlite.base import DatabaseWrapper as SQLiteWrapper
from apps.core.database.sqlite_file import create_file, file_problem
from apps.core.database_problems import RESTORE_COMMAND, DatabaseUnavailable

log = logging.getLogger(__name__)

RECORD = "databases-created"
_HEAD = (
    "# Databases of this installation. If one of them is missing or empty, LabCarbon reports it\n"
    "# and creates no new one. Delete this file only to begin with an empty database.\n"
)


def prepare_database(connection: BaseDatabaseWrapper) -> None:
    """Create the file of a new SQLite database. Raises CommandError for a database that cannot be
    used, or that lost its tables.
    """
    path = connection.file_path if isinstance(connection, SQLiteWrapper) else None
    if path is not None:
        if not _exists(path):
            _refuse_if_recorded(connection, f"{path} is missing")
            _refuse_leftovers(path)
            try:
                create_file(path)
            except OSError as error:
                raise CommandError(f"{path} cannot be created: {error.strerror}.") from error
        if cause := file_problem(path):
            reason = DatabaseUnavailable(cause.problem, cause.detail)
            raise CommandError(f"{reason.explain()} The database is {path}.")
    if not connection.introspection.table_names():
        _refuse_if_recorded(connection, "The database has no tables")


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read: {error.strerror}. Make the server's user the owner of the "
            "folder and its files."
        ) from error
    return True


def _refuse_if_recorded(connection: BaseDatabaseWrapper, observed: str) -> None:
    evidence = settings.DATA_DIR / RECORD
    if _name_of(connection) not in _recorded(evidence):
        # `make run` of a version without this record
        log_path = settings.DATA_DIR / "logs" / "web.log"
        if connection.vendor != "sqlite" or evidence.exists() or not log_path.exists():
            return
        evidence = log_path
    raise CommandError(
        f"{observed}, but LabCarbon used this database before ({evidence}). No new one was "
        "created in its place.\n"
        "If it was moved, move it back with its -wal file. Otherwise restore the last backup: "
        f"{RESTORE_COMMAND}\n"
        "To begin with an empty database instead, use another data directory, or delete "
        f"{evidence}."
    )


def _refuse_leftovers(path: Path) -> None:
    """A write-ahead log without its database contains the last committed rows."""
    log_path = path.with_name(f"{path.name}-wal")
    if log_path.exists():
        raise CommandError(
            f"{path} is missing, but {log_path.name} exists. No new database was created in its "
            "place.\n"
            "If the database was moved, move it back: its last rows are in that file. Otherwise "
            f"move {log_path.name} to another folder, and restore the last backup: "
            f"{RESTORE_COMMAND}"
        )


def record_database(connection: BaseDatabaseWrapper) -> None:
    """Record that this database exists, once."""
    if isinstance(connection, SQLiteWrapper) and connection.file_path is None:
        return  # in memory
    record, name = settings.DATA_DIR / RECORD, _name_of(connection)
    if name in _recorded(record):
        return
    try:
        descriptor = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{_HEAD if file.tell() == 0 else ''}{name}\n")
    except OSError as error:
        log.warning(
            "%s cannot be written (%s): a missing database would not be noticed at start.",
            record,
            error.strerror,
        )


def _recorded(record: Path) -> set[str]:
    try:
        return set(record.read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise CommandError(f"{record} cannot be read: {error.strerror}.") from error


def _name_of(connection: BaseDatabaseWrapper) -> str:
    parts = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite {Path(parts['NAME']).name}"
    return f"postgresql {parts.get('HOST') or 'local'}:{parts.get('PORT') or 5432}/{parts['NAME']}"
