"""What scans hashed on this machine, for others that need digests: read, never written."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Optional, Tuple

from labcarbon_collect.files.digest_cache import DigestCache, signed
from labcarbon_collect.files.manifests import File
from labcarbon_collect.scan.database import FILE
from labcarbon_collect.scan.kinds import ARTIFACT, MEMBER, PRESENT, TOP

_FOLDERS_REMEMBERED = 4096
_KNOWN = (
    "SELECT digest FROM entry WHERE folder=? AND name=? AND what IN (?, ?) "
    "AND size=? AND mtime_ns=? AND ctime_ns=? AND settled AND state=?"
)


def known_digests(home: Optional[Path]) -> DigestCache:
    """What was hashed before, by whichever command. ``home``: a private folder; None: nothing is known."""
    return DigestCache(home, Scanned(home) if home is not None else None)


class Scanned:
    """Digests of the scans of one person, by path; whatever is wrong with their file, nothing is known."""

    def __init__(self, home: Path) -> None:
        """``home``: where ``scan`` keeps what it knows."""
        self._database: Optional[sqlite3.Connection] = None
        with suppress(sqlite3.Error):
            self._database = sqlite3.connect(
                f"{(home / FILE).absolute().as_uri()}?mode=ro", uri=True, timeout=0.5, check_same_thread=False
            )
        self._where = lru_cache(_FOLDERS_REMEMBERED)(self._folder)

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()

    def digest(self, file: File) -> Optional[bytes]:
        """The digest (32 bytes) of a file that is as it was when a scan read it."""
        if self._database is None:
            return None
        above, name = os.path.split(file.path)
        try:
            folder, below = self._where(above)
            row = self._database.execute(
                _KNOWN,
                (
                    folder, below + name, ARTIFACT, MEMBER, signed(file.size), signed(file.mtime_ns), signed(file.ctime_ns),
                    PRESENT,
                ),
            ).fetchone()  # fmt: skip
        except (sqlite3.Error, OSError):
            return None
        return bytes(row[0]) if row and row[0] and len(row[0]) == 32 else None

    def _folder(self, path: bytes) -> Tuple[int, bytes]:
        """The number of the innermost folder on the way to ``path`` that scans know, and what of the way lies below it:
        files below a folder that is one artifact are its members. Raises OSError, sqlite3.Error."""
        assert self._database is not None
        names = [b"", *(name for name in os.path.realpath(path).split(b"/") if name)]
        number = TOP
        for at, name in enumerate(names):
            row = self._database.execute("SELECT id FROM folder WHERE parent=? AND name=?", (number, name)).fetchone()
            if row is None:
                return number, b"".join(below + b"/" for below in names[at:])
            number = row[0]
        return number, b""
