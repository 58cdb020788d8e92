"""Bytes that several copies share: blobs of revisions in a cache of the Hugging Face hub, hard
links, and targets of links. Computed from the scan database.

Files that the same copies share form one group. Each copy has its own bytes and its groups, so the
space of any set of copies is the sum of their own bytes and of their groups, each counted once.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from labcarbon_collect.scan.database import ARTIFACT, FOLDER, MEMBER, PRESENT, ROOT, insert_rows
from labcarbon_collect.scan.local_files import HUB_BLOB, LINKED

Place = Tuple[int, bytes]  # folder and name of an artifact
_KEY = f"CASE substr(link, 1, 1) WHEN '{HUB_BLOB}' THEN '{LINKED}' || substr(link, 2) ELSE link END"
# A file whose rows have other digests changed since some of them were read.
_NAMES = f"""
SELECT {_KEY} AS content, digest, size, folder, name, what, substr(link, 1, 1) = '{HUB_BLOB}'
FROM entry WHERE link IS NOT NULL AND what IN ({ARTIFACT}, {MEMBER}) ORDER BY content, digest
"""


class Group(NamedTuple):
    """Bytes that exactly ``copies`` copies use. ``copies`` None: other names of these files can
    exist, so deleting the copies may free nothing.
    """

    key: str
    bytes: int
    copies: Optional[int]


@dataclass
class CopySpace:
    """The space of a copy: bytes of no other copy, and its groups."""

    own_bytes: int
    groups: List[Group] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return self.own_bytes + sum(group.bytes for group in self.groups)

    def wire(self) -> Dict[str, Any]:
        """Return the fields for the server."""
        return {"own_bytes": self.own_bytes, "shared": [group._asdict() for group in self.groups]}


def copy_spaces(database: sqlite3.Connection) -> Dict[Place, CopySpace]:
    """Return the space of each copy with files that can be shared."""
    folders = Folders(database)
    linked_bytes: Dict[Place, int] = defaultdict(int)
    bytes_by_users: Dict[Tuple[FrozenSet[Place], bool], int] = defaultdict(int)
    names = database.execute(_NAMES)
    for (content, _), rows in groupby(names, key=lambda row: (row[0], row[1])):
        users: Set[Place] = set()
        is_deletable, size = True, 0
        for _, _, size, folder, name, what, is_hub_blob in rows:
            user = (folder, name) if what == ARTIFACT else folders.place(folder)
            linked_bytes[user] += size
            users.add(user)
            is_deletable = is_deletable and bool(is_hub_blob)
        target = folders.artifact_at(content[1:]) if content.startswith(LINKED) else None
        if target is not None:
            users.add(target)
            linked_bytes[target] += size
            is_deletable = False
        bytes_by_users[frozenset(users), is_deletable] += size
    sizes = dict(_sizes(database, linked_bytes))
    spaces = {place: CopySpace(size - linked_bytes[place]) for place, size in sizes.items()}
    for (sharing, is_deletable), size in bytes_by_users.items():
        if is_deletable and len(sharing) == 1:
            for place in sharing & spaces.keys():
                spaces[place].own_bytes += size
            continue
        copies = len(sharing) if is_deletable else None
        group = Group(folders.key(sharing, is_deletable), size, copies)
        for place in sharing & spaces.keys():
            spaces[place].groups.append(group)
    # A folder whose files could not all be read has the size of an earlier scan.
    return {
        place: CopySpace(space.own_bytes, sorted(space.groups))
        for place, space in spaces.items()
        if space.own_bytes >= 0 and space.bytes <= sizes[place]
    }


def repeated_bytes(database: sqlite3.Connection) -> int:
    """Return the bytes that the sizes of the selected artifacts count more than once."""
    query = "SELECT 1 FROM sub WHERE id=? AND (only_name IS NULL OR only_name=?)"
    spaces = copy_spaces(database)
    selected = [place for place in spaces if database.execute(query, place).fetchone()]
    groups = {group.key: group.bytes for place in selected for group in spaces[place].groups}
    used = sum(spaces[place].own_bytes for place in selected) + sum(groups.values())
    return sum(size for _, size in _sizes(database, selected)) - used


def _sizes(database: sqlite3.Connection, places: Iterable[Place]) -> Iterator[Tuple[Place, int]]:
    """Yield the sizes of the artifacts among ``places``. A refused folder is none."""
    query = f"SELECT size FROM entry WHERE folder=? AND name=? AND what IN ({ARTIFACT}, {FOLDER})"
    for place in places:
        row = database.execute(query, place).fetchone()
        if row is not None:
            yield place, row[0]


class Folders:
    """Paths and artifacts of folders, read once each."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._places: Dict[int, Place] = {}
        self._paths: Dict[int, bytes] = {ROOT: b""}
        self._numbers: Dict[bytes, Optional[int]] = {}

    def place(self, folder: int) -> Place:
        """Return the place of a folder in its parent."""
        if folder not in self._places:
            row = self._database.execute("SELECT parent, name FROM folder WHERE id=?", (folder,))
            self._places[folder] = row.fetchone() or (ROOT, b"")
        return self._places[folder]

    def artifact_at(self, path: str) -> Optional[Place]:
        """Return the artifact that contains the file at an absolute path, None if there is none."""
        folder, _, name = path.encode("utf-8", "surrogateescape").rpartition(b"/")
        number = self._number(folder)
        if number is not None and self._has_entry(number, name, ARTIFACT):
            return number, name
        while folder:
            if number is not None and self._has_entry(number, name, MEMBER):
                return self.place(number)
            folder, _, last = folder.rpartition(b"/")
            name, number = last + b"/" + name, self._number(folder)
        return None

    def key(self, users: FrozenSet[Place], is_deletable: bool) -> str:
        """Return the key of a group, which is the same in each scan: SHA-256 of the paths."""
        paths = sorted(self.path(folder) + b"/" + name for folder, name in users)
        return hashlib.sha256(b"\0".join([b"%d" % is_deletable, *paths])).hexdigest()

    def path(self, folder: int) -> bytes:
        """Return the path of a folder."""
        if folder not in self._paths:
            parent, name = self.place(folder)
            self._paths[folder] = (self.path(parent) + b"/" if parent else b"") + name
        return self._paths[folder]

    def _number(self, path: bytes) -> Optional[int]:
        """Return the number of the folder at a path, None if it was never scanned."""
        if path not in self._numbers:
            parent_path, _, name = path.rpartition(b"/")
            parent = self._number(parent_path) if path else ROOT
            row = None
            if parent is not None:
                query = "SELECT id FROM folder WHERE parent=? AND name=?"
                row = self._database.execute(query, (parent, name)).fetchone()
            self._numbers[path] = row[0] if row is not None else None
        return self._numbers[path]

    def _has_entry(self, folder: int, name: bytes, what: int) -> bool:
        query = "SELECT 1 FROM entry WHERE folder=? AND name=? AND what=?"
        return self._database.execute(query, (folder, name, what)).fetchone() is not None


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
