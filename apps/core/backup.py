"""Consistent copies of the database, for ``manage.py backup`` and ``manage.py restore``.

A backup is made beside a running server, from one snapshot. It is read back and its rows are
counted before it gets its name.
"""

import hashlib
import os
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.backends.postgresql.client import DatabaseClient
from django.db.migrations.loader import MigrationLoader

_SQLITE_MAGIC = b"SQLite format 3\x00"
_POSTGRESQL_MAGIC = b"PGDMP"
_OWN_APP = "ingest"  # each database of LabCarbon has migrations of this app


class BackupError(Exception):
    """A backup or restore that was not done. The text says why and what to do."""


def write_private_file(path: Path, content: bytes) -> None:
    """Create ``path`` with mode 0600. Never replaces a file."""
    descriptor = _create_private(path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _create_private(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError as error:
        raise BackupError(f"{path} exists. Choose another name, or move it away.") from error
    except OSError as error:
        raise BackupError(f"{path} cannot be created: {error.strerror}.") from error


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def back_up_database(target: Path) -> dict[str, int]:
    """Write a verified backup to the new file ``target``. Returns the number of rows by table."""
    if target.exists() or target.is_symlink():
        raise BackupError(f"{target} exists. Choose another name, or move it away.")
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    os.close(_create_private(partial))
    try:
        counts = (
            _back_up_sqlite(partial)
            if connection.vendor == "sqlite"
            else _back_up_postgresql(partial)
        )
        _sync(partial)
        try:
            os.link(partial, target)  # unlike a rename, this never replaces a file
        except OSError as error:
            raise BackupError(f"{target} cannot be created: {error.strerror}.") from error
        _sync(target.parent)
    finally:
        _remove_partial(partial)
    return counts


def restore_database(source: Path) -> dict[str, int]:
    """Restore a backup into a database that does not exist (SQLite) or is empty (PostgreSQL).
    Returns the number of rows by table.
    """
    try:
        with source.open("rb") as file:
            magic = file.read(len(_SQLITE_MAGIC))
    except OSError as error:
        raise BackupError(f"{source} cannot be read: {error.strerror}.") from error
    is_sqlite = connection.vendor == "sqlite"
    if not (magic == _SQLITE_MAGIC if is_sqlite else magic.startswith(_POSTGRESQL_MAGIC)):
        raise BackupError(
            f"{source} is not a backup of {'SQLite' if is_sqlite else 'PostgreSQL'}, the database "
            "of this installation. Set LABCARBON_DATABASE_URL for the other one."
        )
    return _restore_sqlite(source) if is_sqlite else _restore_postgresql(source)


# SQLite


def _back_up_sqlite(target: Path) -> dict[str, int]:
    source_path = Path(str(connection.settings_dict["NAME"]))
    if not source_path.is_file():
        raise BackupError(f"There is no database in {source_path.parent}.")
    with closing(
        sqlite3.connect(f"{source_path.resolve().as_uri()}?mode=rw", uri=True, timeout=20)
    ) as source:
        source.isolation_level = None
        try:
            source.execute("BEGIN")
            counts = _sqlite_counts(source)  # the first read takes the snapshot
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
                # One file: no write-ahead log beside it.
                copy.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error as error:
            _raise_for_disk(error, target.parent)
            raise BackupError(f"The database was not backed up: {error}.") from error
    if _verified_sqlite_counts(target, name=target) != counts:
        raise BackupError("The backup does not contain all rows. It was removed; try again.")
    return counts


def _restore_sqlite(source: Path) -> dict[str, int]:
    target = Path(str(connection.settings_dict["NAME"]))
    if any(target.with_name(target.name + suffix).exists() for suffix in ("", "-wal", "-shm")):
        raise BackupError(
            f"{target} exists. Restore into an empty folder (LABCARBON_DATA=…), or stop LabCarbon "
            "and move the file and its -wal and -shm away."
        )
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    os.close(_create_private(partial))
    try:
        with closing(_open_read_only(source)) as stored, closing(sqlite3.connect(partial)) as copy:
            try:
                stored.backup(copy)
            except sqlite3.Error as error:
                _raise_for_disk(error, target.parent)
                raise BackupError(f"{source} is damaged: {error}.") from error
        counts = _verified_sqlite_counts(partial, name=source)
        _refuse_other_versions(source, _sqlite_migrations(partial))
        _sync(partial)
        os.link(partial, target)
        _sync(target.parent)
    finally:
        _remove_partial(partial)
    return counts


def _raise_for_disk(error: sqlite3.Error, folder: Path) -> None:
    """Raise BackupError if the disk of the new file failed or has no space left."""
    if "full" in str(error) or "I/O" in str(error):
        raise BackupError(
            f"The copy cannot be written to {folder}: {error}. Check the free space and the state "
            "of its disk."
        ) from error


def _remove_partial(path: Path) -> None:
    for suffix in ("", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def _sqlite_counts(database: sqlite3.Connection) -> dict[str, int]:
    tables = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    return {
        table: database.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0]
        for (table,) in tables
    }


def _verified_sqlite_counts(path: Path, *, name: Path) -> dict[str, int]:
    """Read every page and every index. Returns the number of rows by table. ``name``: for
    messages.
    """
    try:
        with closing(_open_read_only(path)) as database:
            problem = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise BackupError(f"{name} is damaged: {problem}.")
            return _sqlite_counts(database)
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{name} is damaged: {error}.") from error


def _sqlite_migrations(path: Path) -> set[tuple[str, str]]:
    """Return the applied migrations of an undamaged file, none for one of another program."""
    try:
        with closing(_open_read_only(path)) as database:
            return set(database.execute("SELECT app, name FROM django_migrations"))
    except sqlite3.OperationalError:
        return set()


# PostgreSQL


def _back_up_postgresql(target: Path) -> dict[str, int]:
    with connection.cursor() as cursor:
        # pg_dump reads the snapshot of this transaction, in which the rows are counted.
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            cursor.execute("SELECT pg_export_snapshot()")
            snapshot = cursor.fetchone()[0]
            counts = _postgresql_counts(cursor)
            _run_client(
                "pg_dump",
                ["--format=custom", "--no-owner", "--no-privileges", "--schema=public",
                 f"--snapshot={snapshot}", f"--file={target}",
                 f"--dbname={connection.settings_dict['NAME']}"],
            )  # fmt: skip
        finally:
            cursor.execute("ROLLBACK")
    if _read_back(target) != counts:
        raise BackupError("The backup does not contain all rows. It was removed; try again.")
    return counts


def _restore_postgresql(source: Path) -> dict[str, int]:
    with connection.cursor() as cursor:
        tables = _postgresql_tables(cursor)
    if tables:
        raise BackupError(
            f"The database contains {len(tables)} tables. Restore into an empty database: "
            "createdb, then LABCARBON_DATABASE_URL=…"
        )
    expected = _read_back(source)
    _refuse_other_versions(source, _archived_migrations(source))
    _run_client(
        "pg_restore",
        ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", "--clean",
         "--if-exists", f"--dbname={connection.settings_dict['NAME']}", str(source)],
    )  # fmt: skip
    with connection.cursor() as cursor:
        counts = _postgresql_counts(cursor)
        if counts != expected:
            raise BackupError("The database does not contain all rows of the backup.")
    return counts


def _postgresql_tables(cursor: Any) -> list[str]:
    cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    return [table for (table,) in cursor.fetchall()]


def _postgresql_counts(cursor: Any) -> dict[str, int]:
    counts = {}
    for table in _postgresql_tables(cursor):
        cursor.execute(f'SELECT COUNT(*) FROM public."{table}"')
        counts[table] = cursor.fetchone()[0]
    return counts


def _read_back(path: Path) -> dict[str, int]:
    """Decompress the whole archive. Returns the number of rows by table."""
    counts: dict[str, int] = {}
    table = ""
    try:
        process = subprocess.Popen(
            ["pg_restore", "--data-only", "--file=-", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise BackupError(
            "pg_restore is not installed: apt-get install postgresql-client"
        ) from error
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if table:
                if line == b"\\.\n":
                    table = ""
                else:
                    counts[table] += 1
            elif line.startswith(b"COPY public."):
                table = line.split(b" ", 2)[1].decode().removeprefix("public.").strip('"')
                counts[table] = 0
        message = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise BackupError(f"{path} is damaged: {message[-500:]}")
    return counts


def _archived_migrations(path: Path) -> set[tuple[str, str]]:
    """Return the applied migrations that an archive contains."""
    result = subprocess.run(
        ["pg_restore", "--data-only", "--table=django_migrations", "--file=-", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    columns: list[str] = []
    applied = set()
    for line in result.stdout.splitlines():
        if line.startswith("COPY "):
            columns = line[line.index("(") + 1 : line.index(")")].split(", ")
        elif line == "\\.":
            columns = []
        elif columns:
            row = dict(zip(columns, line.split("\t"), strict=True))
            applied.add((row.get("app", ""), row.get("name", "")))
    return applied


def _run_client(program: str, options: list[str]) -> None:
    """Run a client program of PostgreSQL. The password is in its environment, never in its
    arguments.
    """
    arguments, variables = DatabaseClient.settings_to_cmd_args_env(connection.settings_dict, [])
    address = arguments[1:-1]  # without psql, and without the database
    environ: Mapping[str, str] = {**os.environ, **(variables or {})}
    try:
        result = subprocess.run(
            [program, *address, *options],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise BackupError(
            f"{program} is not installed: apt-get install postgresql-client"
        ) from error
    if result.returncode:
        raise BackupError(f"{program} failed: {result.stderr.strip()[-500:]}")


def _refuse_other_versions(source: Path, applied: set[tuple[str, str]]) -> None:
    """Refuse a database of another program, and a backup of a newer version, whose tables this
    version does not know.
    """
    if _OWN_APP not in {app for app, _ in applied}:
        raise BackupError(
            f"{source} is not a backup of LabCarbon: it contains the database of another program. "
            "Choose a file that `manage.py backup` wrote."
        )
    loader = MigrationLoader(None, ignore_no_migrations=True)
    own = set(loader.disk_migrations)
    own |= {old for migration in loader.disk_migrations.values() for old in migration.replaces}
    apps = {app for app, _ in own}
    unknown = sorted(f"{app}.{name}" for app, name in applied - own if app in apps)
    if unknown:
        raise BackupError(
            f"The backup is of a newer version of LabCarbon (migration {unknown[0]}). Install that "
            "version, and restore into a new database."
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # some file systems cannot sync a folder
        os.fsync(descriptor)
    os.close(descriptor)
