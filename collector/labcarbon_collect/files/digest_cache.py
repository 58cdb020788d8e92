"""Cache of file digests by device, inode, size and times. Neither paths nor contents are stored."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Iterable, List, Optional, Protocol, Sequence, Tuple

from labcarbon_collect.files.manifests import File

FILE = "digests.db"
_MAX_BYTES = 1 << 30
_SETTLED_NS = 2_000_000_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS digest (
  device INTEGER, inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, sha256 BLOB NOT NULL,
  PRIMARY KEY (device, inode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS normal (content BLOB PRIMARY KEY, lines BLOB NOT NULL) WITHOUT ROWID;
"""  # noqa: E501
_INT64 = 1 << 63


class DigestSource(Protocol):
    """Another store of digests."""

    def close(self) -> None:
        """Close the store."""

    def digest(self, file: File) -> Optional[bytes]:
        """Return the stored digest (32 bytes) if the file is unchanged."""


class DigestCache:
    """A cache shared by several processes. Errors of its file only cause misses."""

    def __init__(self, home: Optional[Path], fallback: Optional[DigestSource] = None) -> None:
        """``home``: a private folder, None to disable the cache. ``fallback`` is queried after a
        miss.
        """
        self._database = _open_database(home / FILE) if home is not None else None
        self._fallback = fallback

    def close(self) -> None:
        """Close the files."""
        if self._database is not None:
            self._database.close()
        if self._fallback is not None:
            self._fallback.close()

    def lookup(self, file: File) -> Optional[bytes]:
        """Return the stored digest (32 bytes) if the file is unchanged."""
        rows = self._query(
            (
                "SELECT sha256 FROM digest WHERE device=? AND inode=? AND size=? AND mtime_ns=? "
                "AND ctime_ns=?"
            ),
            _key(file),
        )
        if rows and len(rows[0][0]) == 32:
            return bytes(rows[0][0])
        return self._fallback.digest(file) if self._fallback is not None else None

    def store(self, hashed: Iterable[Tuple[File, bytes]]) -> None:
        """Store digests. A file changed within the last two seconds is skipped: it may change again
        within a clock tick.
        """
        settled_before_ns = time.time_ns() - _SETTLED_NS
        rows = [
            (*_key(file), digest)
            for file, digest in hashed
            if max(file.mtime_ns, file.ctime_ns) < settled_before_ns
        ]
        self._write("INSERT OR REPLACE INTO digest VALUES (?,?,?,?,?,?)", rows)

    def lookup_lines(self, content: bytes) -> Optional[bytes]:
        """Return the line hashes of a source file in normal form, by the digest of its content."""
        rows = self._query("SELECT lines FROM normal WHERE content=?", (content,))
        return bytes(rows[0][0]) if rows else None

    def store_lines(self, rows: List[Tuple[bytes, bytes]]) -> None:
        """Store line hashes by the digest of the content."""
        self._write("INSERT OR REPLACE INTO normal VALUES (?,?)", rows)

    def _query(self, statement: str, values: Tuple[object, ...]) -> List[Tuple[bytes, ...]]:
        if self._database is None:
            return []
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error:
            return []

    def _write(self, statement: str, rows: Sequence[Tuple[object, ...]]) -> None:
        if self._database is None or not rows:
            return
        with suppress(sqlite3.Error), self._database:
            self._database.executemany(statement, rows)


def _key(file: File) -> Tuple[int, ...]:
    return tuple(
        to_signed(value)
        for value in (file.device, file.inode, file.size, file.mtime_ns, file.ctime_ns)
    )


def to_signed(value: int) -> int:
    """Convert to SQLite's signed integers. Inodes of some file systems use all 64 bits."""
    return value - 2 * _INT64 if value >= _INT64 else value


def _open_database(path: Path) -> Optional[sqlite3.Connection]:
    with suppress(OSError):
        if path.stat().st_size > _MAX_BYTES:
            path.unlink()
    for attempt in range(2):
        database = None
        try:
            database = sqlite3.connect(path, timeout=0.5, check_same_thread=False)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            database.executescript(_SCHEMA)
        except sqlite3.OperationalError:
            break  # locked, read-only or full: try again on the next use
        except sqlite3.DatabaseError:
            if database is not None:
                database.close()
            if attempt == 0:
                with suppress(OSError):
                    path.unlink()  # damaged: its content can be computed again
        else:
            return database
    return None
