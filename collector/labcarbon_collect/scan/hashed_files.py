"""The scan database of this machine: hashed files, their descriptions, and what was uploaded to
each server.

Losing the file costs only time: everything is hashed and uploaded again, which changes nothing on
the server.
"""

from __future__ import annotations

import json
import sqlite3
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from labcarbon_collect.files.digest_cache import to_signed
from labcarbon_collect.lc1 import manifest_hash
from labcarbon_collect.scan.database import (
    ARTIFACT,
    CORRUPT,
    FILE,
    FOLDER,
    PRESENT,
    ROOT,
    insert_rows,
    open_database,
)
from labcarbon_collect.scan.description import Description
from labcarbon_collect.scan.local_files import Links, Stamp
from labcarbon_collect.scan.medium import UNKNOWN

_COMMIT_S, _COMMIT_BYTES = 1.0, 256_000_000
_JSON = json.JSONEncoder(separators=(",", ":"))
_INSERT = "INSERT INTO entry"
_ON_CONFLICT = """
ON CONFLICT (folder, name) DO UPDATE SET
  what=excluded.what, size=excluded.size, files=excluded.files, mtime_ns=excluded.mtime_ns, ctime_ns=excluded.ctime_ns,
  settled=excluded.settled, state=excluded.state, digest=excluded.digest, about=excluded.about, medium=excluded.medium,
  link=excluded.link, owner=excluded.owner
"""  # noqa: E501
_SUBTREE = """
WITH RECURSIVE below (id, path) AS (
  VALUES (?, ?) UNION ALL
  SELECT folder.id, CAST(below.path || '/' || folder.name AS BLOB) FROM folder JOIN below ON folder.parent = below.id)
SELECT id, path FROM below
"""  # noqa: E501


class Entry(NamedTuple):
    """A database row. ``digest``: 32 bytes. ``about``: JSON of the description. ``owner``: uid."""

    folder: int
    name: bytes
    what: int
    size: int
    files: int
    mtime_ns: int
    ctime_ns: int
    settled: bool
    state: int
    digest: Optional[bytes]
    about: Optional[str]
    medium: Optional[str]
    link: Optional[str]
    owner: Optional[int]


class FolderSums(NamedTuple):
    """Totals of a folder that is one artifact. ``mtime_ns``: the latest of its files."""

    digest: bytes
    size: int
    files: int
    mtime_ns: int
    is_corrupt: bool


class ScanState:
    """The database for one scan. ``dry_run``: all changes are rolled back at the end."""

    def __init__(self, home: Path, *, dry_run: bool = False) -> None:
        """Open or create the database in ``home``, a private folder. Raises ConfigurationError."""
        self.database, self.damaged_name = open_database(home / FILE)
        self._is_dry = dry_run
        self._transaction_s, self._uncommitted_bytes = time.monotonic(), 0
        self._execute("BEGIN IMMEDIATE")
        self._has_copy_changes = self._one("SELECT 1 FROM news LIMIT 1", ()) is not None

    def close(self) -> None:
        """Commit and close."""
        self._execute("ROLLBACK" if self._is_dry else "COMMIT")
        self.database.close()

    def commit(self, size: int, *, now: bool = False) -> None:
        """Commit after about a second or after many bytes of work. ``size``: bytes of finished
        work.
        """
        self._uncommitted_bytes += size
        now_s = time.monotonic()
        if self._is_dry or not (
            now
            or self._uncommitted_bytes >= _COMMIT_BYTES
            or now_s - self._transaction_s >= _COMMIT_S
        ):
            return
        self._execute("COMMIT")
        self._execute("BEGIN IMMEDIATE")
        self._transaction_s, self._uncommitted_bytes = now_s, 0

    def folder(self, parts: Sequence[bytes]) -> int:
        """Return the number of a folder by its path components."""
        folder_id = ROOT
        for name in parts:
            folder_id = self.child(folder_id, name)
        return folder_id

    def child(self, parent: int, name: bytes) -> int:
        """Return the number of a subfolder. Inserts it if it is new."""
        row = self._one("SELECT id FROM folder WHERE parent=? AND name=?", (parent, name))
        if row is None:
            return int(
                self._execute(
                    "INSERT INTO folder (parent, name) VALUES (?, ?)", (parent, name)
                ).lastrowid
                or 0
            )
        return int(row[0])

    def children(self, folder: int) -> List[Tuple[int, bytes]]:
        """Return the stored subfolders of a folder."""
        return self.database.execute(
            "SELECT id, name FROM folder WHERE parent=?", (folder,)
        ).fetchall()

    def stamps(
        self,
        folder: int,
        first: bytes,
        until: Optional[bytes],
        *,
        members: bool,
        unrecognised_only: bool = False,
    ) -> List[Stamp]:
        """Return the stored stamps of a folder's files from name ``first`` to before ``until``,
        sorted.

        A file that may have changed without a new timestamp has the mtime -1, which no file has.
        ``unrecognised_only``: only files of no known format.
        """
        what = "what=2" if members else "what=0" if unrecognised_only else "what<2"
        end = "" if until is None else "AND name<?"
        rows = self._execute(
            "SELECT name, size, CASE WHEN settled THEN mtime_ns ELSE -1 END, ctime_ns FROM entry "
            f"WHERE folder=? AND name>=? {end} AND {what} ORDER BY name",
            (folder, first) if until is None else (folder, first, until),
        )
        return rows.fetchall()

    def entry(self, folder: int, name: bytes) -> Optional[Entry]:
        """Return the row of a name."""
        row = self._one("SELECT * FROM entry WHERE folder=? AND name=?", (folder, name))
        return Entry(*row) if row else None

    def names_of_kind(self, folder: int, *whats: int) -> List[bytes]:
        """Return the names in a folder whose rows have one of these kinds."""
        marks = ",".join("?" * len(whats))
        rows = self._execute(
            f"SELECT name FROM entry WHERE folder=? AND what IN ({marks})", (folder, *whats)
        )
        return [name for (name,) in rows]

    def update(self, path: bytes, entry: Entry) -> None:
        """Insert or replace a row."""
        insert_rows(self.database, _INSERT, [entry], _ON_CONFLICT)
        if entry.what in (ARTIFACT, FOLDER) and self._has_copy_changes:
            self._execute("DELETE FROM news WHERE path=?", (path,))

    def insert(self, path: bytes, entries: Sequence[Entry]) -> None:
        """Insert rows of new files in the folder at ``path``."""
        insert_rows(self.database, _INSERT, entries, _ON_CONFLICT)
        artifacts = [entry for entry in entries if entry.what in (ARTIFACT, FOLDER)]
        insert_rows(self.database, "INSERT INTO came", [(entry.digest,) for entry in artifacts])
        if self._has_copy_changes:
            places = [(path + b"/" + entry.name,) for entry in artifacts]
            self.database.executemany("DELETE FROM news WHERE path=?", places)

    def mark_unsettled(self, folder: int, name: bytes) -> None:
        """Record that a name must be read again."""
        self._execute("UPDATE entry SET settled=0 WHERE folder=? AND name=?", (folder, name))

    def set_medium(self, folder: int, medium: str) -> None:
        """Set the medium of a folder's files. An unknown medium replaces none."""
        if medium == UNKNOWN:
            return
        self._execute(
            "UPDATE entry SET medium=? WHERE folder=? AND what=1 AND medium != ?",
            (medium, folder, medium),
        )

    def set_medium_of(self, folder: int, name: bytes, medium: str) -> None:
        """Set the medium of a folder that is one artifact."""
        if medium == UNKNOWN:
            return
        self._execute(
            "UPDATE entry SET medium=? WHERE folder=? AND name=? AND medium != ?",
            (medium, folder, name, medium),
        )

    def set_links(self, folder: int, links: Links) -> None:
        """Set the keys of a folder's files that can be shared, and remove those of other files."""
        rows = self._execute(
            "SELECT name, link FROM entry WHERE folder=? AND link IS NOT NULL", (folder,)
        )
        stored: Dict[bytes, Optional[str]] = dict(rows.fetchall())
        for name, link in [
            *((name, None) for name in stored if name not in links),
            *((name, link) for name, link in links.items() if stored.get(name) != link),
        ]:
            self._execute("UPDATE entry SET link=? WHERE folder=? AND name=?", (link, folder, name))

    def mark_corrupt(self, path: bytes, entry: Entry) -> None:
        """Record that the content at a path no longer matches its hash, for servers that know the
        artifact.
        """
        self._execute(
            "UPDATE entry SET state=1, settled=1, ctime_ns=? WHERE folder=? AND name=?",
            (entry.ctime_ns, entry.folder, entry.name),
        )
        self.queue_copy_change(path, entry.folder, entry.name, "corrupt")

    def queue_copy_change(self, path: bytes, folder: int, name: bytes, state: str) -> None:
        """Queue a new state (missing, corrupt or present) of a path for the servers that know
        it.
        """
        self._has_copy_changes = True
        self._execute(
            "INSERT OR REPLACE INTO news SELECT server, ?, ? FROM told WHERE folder=? AND name=?",
            (path, state, folder, name),
        )

    def forget(self, folder: int, path: bytes, names: Iterable[bytes]) -> List[Tuple[bytes, int]]:
        """Delete rows of a folder. Returns (path, bytes) of the artifacts among them."""
        missing = []
        for name in names:
            row = self._one(
                "SELECT what, digest, size FROM entry WHERE folder=? AND name=?", (folder, name)
            )
            if row is None:
                continue
            what, digest, size = row
            if what in (ARTIFACT, FOLDER):
                place = path + b"/" + name
                missing.append((place, size))
                self._execute("INSERT INTO went VALUES (?)", (digest,))
                self.queue_copy_change(place, folder, name, "missing")
                for table in ("told", "space"):
                    self._execute(f"DELETE FROM {table} WHERE folder=? AND name=?", (folder, name))
            self._execute("DELETE FROM entry WHERE folder=? AND name=?", (folder, name))
        return missing

    def forget_tree(self, folder: int, path: bytes) -> List[Tuple[bytes, int]]:
        """Delete a folder and everything below it. Returns (path, bytes) of its artifacts."""
        missing = []
        for folder_id, place in self._execute(_SUBTREE, (folder, path)).fetchall():
            missing.extend(
                self.forget(folder_id, place, self.names_of_kind(folder_id, ARTIFACT, FOLDER))
            )
            self._execute("DELETE FROM entry WHERE folder=?", (folder_id,))
            self._execute("DELETE FROM folder WHERE id=?", (folder_id,))
        return missing

    def sums(self, folder: int) -> FolderSums:
        """Return the totals of a folder that is one artifact."""
        rows = self._execute(
            "SELECT name, size, digest FROM entry WHERE folder=? AND what=2 ORDER BY name",
            (folder,),
        )
        digest = bytes.fromhex(manifest_hash(rows))
        columns = (
            "SELECT COALESCE(SUM(size), 0), COUNT(*), COALESCE(MAX(mtime_ns), 0), "
            "COALESCE(MAX(state), 0)"
        )
        size, files, mtime_ns, worst_state = self._execute(
            f"{columns} FROM entry WHERE folder=? AND what=2", (folder,)
        ).fetchone()
        return FolderSums(digest, size, files, mtime_ns, worst_state == CORRUPT)

    def has_entries(self, folder: int) -> bool:
        """Return whether the database has rows for a folder or below it."""
        below = (
            "SELECT 1 FROM entry WHERE folder=? UNION ALL SELECT 1 FROM folder WHERE parent=? "
            "LIMIT 1"
        )
        return self._one(below, (folder, folder)) is not None

    def select_subtree(self, folder: int, path: bytes, parent: int) -> None:
        """Add a folder and everything below it to the selection of the summary. Includes its own
        row if it is one artifact.
        """
        rows = self._execute(_SUBTREE, (folder, path)).fetchall()
        self.database.executemany("INSERT INTO sub VALUES (?, ?, NULL)", rows)
        above, _, name = path.rpartition(b"/")
        self._execute("INSERT INTO sub VALUES (?, ?, ?)", (parent, above, name))

    def _one(self, statement: str, values: Sequence[object]) -> Optional[Tuple[Any, ...]]:
        row: Optional[Tuple[Any, ...]] = self.database.execute(statement, values).fetchone()
        return row

    def _execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self.database.execute(statement, values)


def _description_json(description: Description, payload: Optional[str]) -> str:
    """Return the description as JSON. Descriptions without facts are cached, as most of them are
    equal.
    """
    if description.facts or payload is not None:
        return _JSON.encode(description.wire(payload))
    return _cached_description_json(description.kind, description.format, description.licence)


@lru_cache(maxsize=256)
def _cached_description_json(kind: str, format_name: str, licence: str) -> str:
    return _JSON.encode(Description(kind, format_name, {}, licence).wire(None))


def entry_from_stamp(
    folder: int,
    what: int,
    stamp: Stamp,
    digest: Optional[bytes],
    *,
    description: Optional[Description] = None,
    payload: Optional[str] = None,
    medium: str = "",
    link: Optional[str] = None,
    settled: bool = True,
    files: int = 1,
    owner: Optional[int] = None,
) -> Entry:
    """Create a row from a read result."""
    name, size, mtime_ns, ctime_ns = stamp
    description_json = _description_json(description, payload) if description is not None else None
    return Entry(
        folder,
        name,
        what,
        size,
        files,
        to_signed(mtime_ns),
        to_signed(ctime_ns),
        settled,
        PRESENT,
        digest,
        description_json,
        medium,
        link,
        owner,
    )
