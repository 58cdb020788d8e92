"""Which copies have another space than the one uploaded to a server."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Dict, List, NamedTuple, Optional

from labcarbon_collect.scan.database import PRESENT, insert_rows
from labcarbon_collect.scan.shared_bytes import CopySpace, Folders, Place, copy_spaces

MAX_GROUPS = 10_000  # of a copy: limit of the server
_NO_SHARING: Dict[str, Any] = {"own_bytes": None, "shared": []}


class SpaceChange(NamedTuple):
    """A copy whose space on the server is outdated. ``digest``: of its uploaded content."""

    place: Place
    path: bytes
    digest: bytes
    space: Optional[CopySpace]  # None: it shares nothing any more

    @property
    def row(self) -> Dict[str, Any]:
        """The row for the server."""
        fields = self.space.wire() if self.space is not None else _NO_SHARING
        return {"path": self.path.decode("utf-8", "replace"), **fields}


def space_changes(database: sqlite3.Connection, server: int) -> List[SpaceChange]:
    """Return the uploaded copies whose space differs from the one on a server."""
    spaces, folders = copy_spaces(database), Folders(database)
    rows = database.execute("SELECT folder, name, sent FROM space WHERE server=?", (server,))
    sent = {(folder, name): text for folder, name, text in rows}
    changes = []
    for place in sorted(spaces.keys() | sent.keys()):
        space, digest = spaces.get(place), _uploaded_digest(database, server, place)
        if digest is None or (space is not None and len(space.groups) > MAX_GROUPS):
            continue
        change = SpaceChange(place, folders.path(place[0]) + b"/" + place[1], digest, space)
        if space is None or sent.get(place) != _sent_text(change):
            changes.append(change)
    return changes


def mark_space_uploaded(database: sqlite3.Connection, server: int, done: List[SpaceChange]) -> None:
    """Record that a server has these changes."""
    rows = [(server, *change.place, _sent_text(change)) for change in done if change.space]
    insert_rows(database, "INSERT OR REPLACE INTO space", rows)
    database.executemany(
        "DELETE FROM space WHERE server=? AND folder=? AND name=?",
        [(server, *change.place) for change in done if change.space is None],
    )


def _uploaded_digest(database: sqlite3.Connection, server: int, place: Place) -> Optional[bytes]:
    query = (
        "SELECT t.digest FROM told t JOIN entry e ON e.folder = t.folder AND e.name = t.name "
        f"WHERE t.server=? AND t.folder=? AND t.name=? AND e.state = {PRESENT}"
    )
    row = database.execute(query, (server, *place)).fetchone()
    return None if row is None else bytes(row[0])


def _sent_text(change: SpaceChange) -> str:
    return json.dumps([change.digest.hex(), change.row])
