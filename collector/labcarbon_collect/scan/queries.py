"""Queries over the scanned folders: artifacts to upload, and totals for the summary."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import List, NamedTuple, Optional, Sequence, Tuple

from labcarbon_collect.scan.database import insert_rows
from labcarbon_collect.scan.hashed_files import ScanState
from labcarbon_collect.scan.shared_bytes import repeated_bytes

_PENDING = """
SELECT e.folder, e.name, sub.path, e.what, e.size, e.files, e.mtime_ns, e.digest, e.about, e.medium,
  e.owner
FROM sub JOIN entry e ON e.folder = sub.id AND (sub.only_name IS NULL OR sub.only_name = e.name)
LEFT JOIN told t ON t.server = :server AND t.folder = e.folder AND t.name = e.name
WHERE sub.id >= :folder AND (sub.id > :folder OR e.name > :name) AND e.what IN (1, 3)
  AND e.state = 0
  AND (t.digest IS NULL OR t.digest != e.digest OR t.medium != e.medium OR (:project != ''
    AND t.project != :project))
ORDER BY e.folder, e.name LIMIT :most
"""
_ARTIFACTS = (
    "FROM sub JOIN entry ON entry.folder = sub.id AND (only_name IS NULL OR only_name = "
    "entry.name) WHERE what IN (1, 3)"
)
_PATH = "CAST(sub.path || '/' || name AS BLOB)"
# Hard links of one inode count as one copy.
_IDENTICAL = f"""
SELECT digest, MAX(size), COUNT(DISTINCT COALESCE(link,
  CAST(folder AS TEXT) || '/' || hex(name))) AS many
{_ARTIFACTS} AND state = 0 AND digest IN (SELECT digest {_ARTIFACTS} AND state = 0
  GROUP BY digest HAVING COUNT(*) > 1)
GROUP BY digest HAVING many > 1
"""
_MOVED = """
SELECT COALESCE(SUM(MIN(c.n, w.n)), 0) FROM (SELECT digest, COUNT(*) n FROM came GROUP BY digest) c
JOIN (SELECT digest, COUNT(*) n FROM went GROUP BY digest) w ON w.digest = c.digest
"""


class PendingArtifact(NamedTuple):
    """An artifact whose current state is not uploaded to a server."""

    folder: int
    name: bytes
    path: bytes  # of its folder
    what: int
    size: int
    files: int
    mtime_ns: int
    digest: bytes
    about: str
    medium: str
    owner: Optional[int]  # uid


@dataclass(frozen=True)
class ScanTotals:
    """Totals of a scan, including artifacts of earlier scans. ``size``: bytes, shared files counted
    once. ``copies``: (digest, size in bytes, number of copies).
    """

    artifacts: int
    size: int
    unknown_medium: int
    moved: int
    corrupt: Sequence[bytes]
    copies: Sequence[Tuple[bytes, int, int]]

    @property
    def copy_bytes(self) -> int:
        """Bytes of all copies but the first of each artifact."""
        return sum(size * (many - 1) for _, size, many in self.copies)


class ScanQueries:
    """Queries about the content of the selected folders."""

    def __init__(self, state: ScanState) -> None:
        self.database: sqlite3.Connection = state.database

    def server_id(self, address: str) -> int:
        """Return the number of a server. Inserts it if it is new."""
        self.database.execute("INSERT OR IGNORE INTO server (address) VALUES (?)", (address,))
        return int(
            self.database.execute("SELECT id FROM server WHERE address=?", (address,)).fetchone()[0]
        )

    def pending(
        self, server: int, project: str, after: Tuple[int, bytes], limit: int
    ) -> List[PendingArtifact]:
        """Return artifacts to upload behind a position, in order."""
        parameters = {
            "server": server,
            "project": project,
            "folder": after[0],
            "name": after[1],
            "most": limit,
        }
        return [PendingArtifact(*row) for row in self.database.execute(_PENDING, parameters)]

    def mark_uploaded(self, server: int, uploaded: Sequence[Tuple[PendingArtifact, str]]) -> None:
        """Record uploaded artifacts: (artifact, project it is charged to)."""
        rows = [
            (server, artifact.folder, artifact.name, artifact.digest, project, artifact.medium)
            for artifact, project in uploaded
        ]
        insert_rows(self.database, "INSERT OR REPLACE INTO told", rows)

    def copy_changes(self, server: int, limit: int) -> List[Tuple[bytes, str]]:
        """Return (path, state) of copies whose state on the server is outdated."""
        return self.database.execute(
            "SELECT path, state FROM news WHERE server=? ORDER BY path LIMIT ?", (server, limit)
        ).fetchall()

    def clear_copy_changes(self, server: int, paths: Sequence[bytes]) -> None:
        """Record that a server has the state of these copies."""
        self.database.executemany(
            "DELETE FROM news WHERE server=? AND path=?", [(server, path) for path in paths]
        )

    def forget_uploads(self, server: int) -> None:
        """Forget all uploads to a server."""
        for table in ("told", "space"):
            self.database.execute(f"DELETE FROM {table} WHERE server=?", (server,))

    def totals(self) -> ScanTotals:
        """Return totals of the selected folders."""
        sums = f"SELECT COUNT(*), TOTAL(size), SUM(medium='unknown') {_ARTIFACTS}"
        artifacts, size, unknown = self.database.execute(sums).fetchone()
        corrupt = [
            path
            for (path,) in self.database.execute(
                f"SELECT {_PATH} {_ARTIFACTS} AND state = 1 ORDER BY 1"
            )
        ]
        moved = self.database.execute(_MOVED).fetchone()[0]
        copies = sorted(
            self.database.execute(_IDENTICAL), key=lambda row: (-row[1] * (row[2] - 1), row[0])
        )
        used_bytes = int(size) - repeated_bytes(self.database)
        return ScanTotals(artifacts, used_bytes, unknown or 0, moved, corrupt, copies)

    def paths_of(self, digest: bytes, limit: int) -> List[bytes]:
        """Return paths of an artifact."""
        query = f"SELECT {_PATH} {_ARTIFACTS} AND digest = ? ORDER BY 1 LIMIT ?"
        return [path for (path,) in self.database.execute(query, (digest, limit))]
