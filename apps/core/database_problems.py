"""Names what is wrong with the database from the error of its driver. Pure.

SQLite's result codes: https://www.sqlite.org/rescode.html. PostgreSQL's codes:
https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""

from dataclasses import dataclass
from enum import StrEnum

from django.db import DatabaseError, InterfaceError, OperationalError

from apps.core.errors import LabCarbonError

RESTORE_COMMAND = "python manage.py restore FILE"


class Problem(StrEnum):
    """The codes of the API."""

    UNAVAILABLE = "unavailable"
    DISK_FULL = "disk_full"
    DISK_ERROR = "disk_error"
    READ_ONLY = "database_read_only"
    NO_ACCESS = "database_no_access"
    DAMAGED = "database_damaged"
    MISSING = "database_missing"
    TABLES_MISSING = "database_tables_missing"


@dataclass(frozen=True)
class _Text:
    message: str
    hint: str
    retry_after_s: int


_RESTORE = (
    "Stop LabCarbon, move the database to another folder (keep it), and restore the last backup: "
    f"{RESTORE_COMMAND}. Collectors then upload again what the backup does not contain, up to "
    "three days."
)
_TEXTS = {
    Problem.UNAVAILABLE: _Text(
        "The database does not respond or is busy. Nothing was changed.",
        "Try again in a few seconds. Collectors and trackers repeat their requests automatically.",
        5,
    ),
    Problem.DISK_FULL: _Text(
        "The disk of the database is full. Nothing was changed.",
        "Free space on the disk of the database. LabCarbon then continues without a restart, and "
        "collectors upload what they have stored.",
        60,
    ),
    Problem.DISK_ERROR: _Text(
        "The disk of the database reports read or write errors.",
        "Check the disk and the system log of the server, and use another disk if they report "
        f"errors. If the database is damaged: {_RESTORE}",
        60,
    ),
    Problem.READ_ONLY: _Text(
        "The database is read-only. Nothing was changed.",
        "Let the server's user write to the database and its folder, and check that the disk is "
        "not mounted read-only.",
        60,
    ),
    Problem.NO_ACCESS: _Text(
        "The database exists, but the server's user has no access to it.",
        "Make the server's user the owner of the database and its folder.",
        60,
    ),
    Problem.DAMAGED: _Text(
        "The database is damaged: some of its content was overwritten or lost.",
        _RESTORE,
        300,
    ),
    Problem.MISSING: _Text(
        "The database is missing. LabCarbon creates no new one in its place.",
        "For a new installation, run python manage.py migrate. If the file was moved, move it back "
        "with its -wal file. Otherwise stop LabCarbon and restore the last backup: "
        f"{RESTORE_COMMAND}",
        60,
    ),
    Problem.TABLES_MISSING: _Text(
        "Tables of the database are missing.",
        "If this is a new installation or a new version, run python manage.py migrate. Otherwise "
        f"content was lost. {_RESTORE}",
        60,
    ),
}

_SQLITE = {
    3: Problem.NO_ACCESS,  # SQLITE_PERM
    5: Problem.UNAVAILABLE,  # SQLITE_BUSY
    6: Problem.UNAVAILABLE,  # SQLITE_LOCKED
    7: Problem.UNAVAILABLE,  # SQLITE_NOMEM
    8: Problem.READ_ONLY,  # SQLITE_READONLY
    9: Problem.UNAVAILABLE,  # SQLITE_INTERRUPT
    10: Problem.DISK_ERROR,  # SQLITE_IOERR
    11: Problem.DAMAGED,  # SQLITE_CORRUPT
    13: Problem.DISK_FULL,  # SQLITE_FULL
    14: Problem.NO_ACCESS,  # SQLITE_CANTOPEN
    15: Problem.UNAVAILABLE,  # SQLITE_PROTOCOL
    23: Problem.NO_ACCESS,  # SQLITE_AUTH
    26: Problem.DAMAGED,  # SQLITE_NOTADB
}
# SQLITE_IOERR_SHMSIZE: the disk has no room for the index of the write-ahead log.
_SQLITE_EXTENDED = {10 | 19 << 8: Problem.DISK_FULL}
_SQLITE_ERROR = 1
# By code, or by class (the first two characters).
_POSTGRESQL = {
    "08": Problem.UNAVAILABLE,  # connection exceptions
    "3D000": Problem.MISSING,  # invalid_catalog_name: there is no such database
    "42P01": Problem.TABLES_MISSING,  # undefined_table
    "25006": Problem.READ_ONLY,  # read_only_sql_transaction
    "25P03": Problem.UNAVAILABLE,  # idle_in_transaction_session_timeout
    "40": Problem.UNAVAILABLE,  # deadlocks and other rollbacks that a repetition resolves
    "53": Problem.UNAVAILABLE,  # insufficient resources
    "53100": Problem.DISK_FULL,
    "55P03": Problem.UNAVAILABLE,  # lock_not_available
    "57": Problem.UNAVAILABLE,  # operator intervention: shut down, starting, statement timeout
    "58030": Problem.DISK_ERROR,  # io_error
    "58P01": Problem.DAMAGED,  # undefined_file: a file of a table is missing
    "58P02": Problem.DAMAGED,  # duplicate_file
    "XX001": Problem.DAMAGED,  # data_corrupted
    "XX002": Problem.DAMAGED,  # index_corrupted
}


class DatabaseUnavailable(LabCarbonError):
    """The database cannot serve the request now. ``detail``: what was observed. It is for logs, the
    console and managers, and never part of a response to others.
    """

    status = 503

    def __init__(self, problem: Problem, detail: str = "") -> None:
        text = _TEXTS[problem]
        super().__init__(text.message, hint=text.hint, code=problem)
        self.problem, self.detail = problem, detail
        self.retry_after_s = text.retry_after_s

    def explain(self) -> str:
        """Return all that an administrator needs, in one line."""
        return f"{self.message} {self.explain_hint()}"

    def explain_hint(self) -> str:
        """Return what was observed and what to do."""
        return f"Observed: {self.detail}. {self.hint}" if self.detail else self.hint


def problem_of(error: BaseException | None) -> Problem | None:
    """Return the problem behind Django's database error. None: a fault of a query, or no database
    error.
    """
    if not isinstance(error, (DatabaseError, InterfaceError)):
        return None
    cause = error.__cause__
    named = getattr(cause, "problem", None)  # by the backend, apps/core/database/sqlite
    if isinstance(named, Problem):
        return named
    sqlite_code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(sqlite_code, int):
        if sqlite_code == _SQLITE_ERROR and str(cause).startswith("no such table:"):
            return Problem.TABLES_MISSING
        return _SQLITE_EXTENDED.get(sqlite_code) or _SQLITE.get(sqlite_code & 0xFF)
    sqlstate = getattr(cause, "sqlstate", None)
    if isinstance(sqlstate, str):
        return _POSTGRESQL.get(sqlstate) or _POSTGRESQL.get(sqlstate[:2])
    # without a code: no connection, or it was lost
    is_connection = isinstance(error, (OperationalError, InterfaceError))
    return Problem.UNAVAILABLE if is_connection else None
