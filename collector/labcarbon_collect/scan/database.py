"""The SQLite database of the scanner: its schema, opening it, and replacing a damaged file."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Sequence, Tuple

from labcarbon_collect.node_identity import ConfigurationError

FILE = "scan.db"
_MAX_VALUES = 999  # values per statement: the limit of SQLite before 3.32
_SCHEMA = """
CREATE TABLE IF NOT EXISTS folder (
  id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL, UNIQUE (parent, name));
CREATE TABLE IF NOT EXISTS entry (
  folder INTEGER NOT NULL, name BLOB NOT NULL, what INTEGER NOT NULL, size INTEGER NOT NULL, files INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, settled INTEGER NOT NULL, state INTEGER NOT NULL, digest BLOB,
  about TEXT, medium TEXT, link TEXT, owner INTEGER, PRIMARY KEY (folder, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS told (
  server INTEGER NOT NULL, folder INTEGER NOT NULL, name BLOB NOT NULL, digest BLOB NOT NULL, project TEXT NOT NULL,
  medium TEXT NOT NULL, PRIMARY KEY (server, folder, name)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_link ON entry (folder) WHERE link IS NOT NULL;
CREATE TABLE IF NOT EXISTS space (
  server INTEGER NOT NULL, folder INTEGER NOT NULL, name BLOB NOT NULL, sent TEXT NOT NULL,
  PRIMARY KEY (server, folder, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS server (id INTEGER PRIMARY KEY, address TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS news (
  server INTEGER NOT NULL, path BLOB NOT NULL, state TEXT NOT NULL, PRIMARY KEY (server, path)) WITHOUT ROWID;
CREATE TEMP TABLE came (digest BLOB NOT NULL);
CREATE TEMP TABLE went (digest BLOB NOT NULL);
CREATE TEMP TABLE sub (id INTEGER NOT NULL, path BLOB NOT NULL, only_name BLOB);
CREATE INDEX temp.sub_by_id ON sub (id);
"""  # noqa: E501


def insert_rows(
    database: sqlite3.Connection, into: str, rows: Sequence[Tuple[object, ...]], then: str = ""
) -> None:
    """Insert rows of equal width, many per statement. Each statement releases the interpreter lock
    once, so fewer statements disturb the reading threads less.

    ``then``: SQL that follows the values.
    """
    if not rows:
        return
    width = len(rows[0])
    max_rows = _MAX_VALUES // width
    for start in range(0, len(rows), max_rows):
        chunk = rows[start : start + max_rows]
        marks = ",".join([f"({','.join('?' * width)})"] * len(chunk))
        database.execute(f"{into} VALUES {marks} {then}", [value for row in chunk for value in row])


def open_database(path: Path) -> Tuple[sqlite3.Connection, str]:
    """Open the database. Returns it with the name that a damaged file was moved to, or ""."""
    if path.is_symlink():
        raise ConfigurationError(f"{path} is a symbolic link: remove it")
    try:
        return _connect(path), ""
    except sqlite3.OperationalError as error:
        raise ConfigurationError(
            f"{path} cannot be used ({error}): set another data folder with LABCARBON_DATA=FOLDER"
        ) from error
    except sqlite3.DatabaseError:
        damaged_path = path.with_name(
            f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        )
        for suffix in ("", "-wal", "-shm"):
            file = path.with_name(path.name + suffix)
            if file.exists():
                os.replace(file, damaged_path.with_name(damaged_path.name + suffix))
        return _connect(path), damaged_path.name


def _connect(path: Path) -> sqlite3.Connection:
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(str(path), timeout=20, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        # A kill loses nothing. A power cut loses the hashes of the last second.
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("PRAGMA temp_store=FILE")
        database.executescript(_SCHEMA)
        if "owner" not in [column[1] for column in database.execute("PRAGMA table_info(entry)")]:
            # Databases of older versions lack the column.
            database.execute("ALTER TABLE entry ADD COLUMN owner INTEGER")
    except BaseException:
        database.close()
        raise
    return database


UNRECOGNISED, ARTIFACT, MEMBER, FOLDER = (
    0,
    1,
    2,
    3,
)  # unrecognised file; file; file of an artifact folder; artifact folder
PRESENT, CORRUPT = 0, 1
ROOT = 0  # parent of the outermost folder
