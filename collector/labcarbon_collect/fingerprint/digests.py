"""Digests of file contents, with a cache of earlier digests."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Sequence, Tuple

from labcarbon_collect.files.digest_cache import DigestCache, to_signed
from labcarbon_collect.files.manifests import File, Manifest
from labcarbon_collect.files.read_limits import Budget, open_regular_file
from labcarbon_collect.scan.database import ARTIFACT, FILE, MEMBER, PRESENT, ROOT

_BLOCK, _SAVE_INTERVAL = 1 << 20, 512
OnHashed = Callable[
    [int], None
]  # called with the bytes of each block read; may wait, may raise BudgetExceeded


class FileChanged(Exception):
    """A file has changed since it was listed. Its content is undefined."""


def content_hashes(
    manifests: Sequence[Manifest], cache: DigestCache, *, on_hashed: OnHashed
) -> List[Tuple[str, str]]:
    """Return ``(role, content hash)`` of each manifest.

    Raises OSError for an unreadable file, FileChanged, and what ``on_hashed`` raises. Digests
    computed before are stored.
    """
    new_digests: List[Tuple[File, bytes]] = []
    try:
        return [
            (
                manifest.role,
                manifest.verified_hash(list(_digests(manifest, cache, new_digests, on_hashed))),
            )
            for manifest in manifests
        ]
    finally:
        cache.store(new_digests)


def can_hash_inline(
    manifests: Sequence[Manifest], cache: DigestCache, *, max_bytes: int, max_files: int
) -> bool:
    """Return whether the files without a stored digest are few and small enough to hash before the
    start.
    """
    left_bytes, left_files = max_bytes, max_files
    for manifest in manifests:
        if len(manifest.files) > 20 * max_files:
            return False
        for file in manifest.files:
            if cache.lookup(file) is None:
                left_bytes, left_files = left_bytes - file.size, left_files - 1
            if left_bytes < 0 or left_files < 0:
                return False
    return True


def within_budget(budget: Budget) -> OnHashed:
    """Return a callback for hashing at full speed until the budget is spent."""
    return lambda _: budget.check()


def _digests(
    manifest: Manifest,
    cache: DigestCache,
    new_digests: List[Tuple[File, bytes]],
    on_hashed: OnHashed,
) -> Iterator[bytes]:
    for file in manifest.files:
        digest: Optional[bytes] = cache.lookup(file)
        if digest is None:
            digest = _digest(file, on_hashed)
            new_digests.append((file, digest))
            if len(new_digests) >= _SAVE_INTERVAL:
                cache.store(new_digests)
                new_digests.clear()
        else:
            on_hashed(0)
        yield digest


def _digest(file: File, on_hashed: OnHashed) -> bytes:
    digest = hashlib.sha256()
    descriptor = open_regular_file(file.path)
    try:
        before = os.fstat(descriptor)
        while True:
            block = os.read(descriptor, _BLOCK)
            if not block:
                break
            digest.update(block)
            on_hashed(len(block))
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    listed_stat = (file.size, file.mtime_ns)
    if listed_stat != (before.st_size, before.st_mtime_ns) or listed_stat != (
        after.st_size,
        after.st_mtime_ns,
    ):
        raise FileChanged("a file changed while it was read")
    return digest.digest()


_FOLDER_CACHE_SIZE = 4096
_SELECT_DIGEST = (
    "SELECT digest FROM entry WHERE folder=? AND name=? AND what IN (?, ?) "
    "AND size=? AND mtime_ns=? AND ctime_ns=? AND settled AND state=?"
)


def open_digest_cache(home: Optional[Path]) -> DigestCache:
    """Open the cache of digests of all commands. ``home``: a private folder. With None the cache is
    empty.
    """
    return DigestCache(home, ScanDigests(home) if home is not None else None)


class ScanDigests:
    """Digests from a user's scans, by path. Empty if the scan database cannot be read."""

    def __init__(self, home: Path) -> None:
        """``home``: folder of the scan database."""
        self._database: Optional[sqlite3.Connection] = None
        with suppress(sqlite3.Error):
            self._database = sqlite3.connect(
                f"{(home / FILE).absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=0.5,
                check_same_thread=False,
            )
        self._find_folder = lru_cache(_FOLDER_CACHE_SIZE)(self._folder)

    def close(self) -> None:
        """Close the database."""
        if self._database is not None:
            self._database.close()

    def digest(self, file: File) -> Optional[bytes]:
        """Return the digest (32 bytes) of a file that has not changed since a scan read it."""
        if self._database is None:
            return None
        folder_path, name = os.path.split(file.path)
        try:
            folder, prefix = self._find_folder(folder_path)
            row = self._database.execute(
                _SELECT_DIGEST,
                (
                    folder,
                    prefix + name,
                    ARTIFACT,
                    MEMBER,
                    to_signed(file.size),
                    to_signed(file.mtime_ns),
                    to_signed(file.ctime_ns),
                    PRESENT,
                ),
            ).fetchone()
        except (sqlite3.Error, OSError):
            return None
        return bytes(row[0]) if row and row[0] and len(row[0]) == 32 else None

    def _folder(self, path: bytes) -> Tuple[int, bytes]:
        """Return the id of the innermost scanned folder of ``path``, and the rest of the path below
        it.

        Files below a folder that is one artifact are its members. Raises OSError, sqlite3.Error.
        """
        assert self._database is not None
        names = [b"", *(name for name in os.path.realpath(path).split(b"/") if name)]
        number = ROOT
        for depth, name in enumerate(names):
            row = self._database.execute(
                "SELECT id FROM folder WHERE parent=? AND name=?", (number, name)
            ).fetchone()
            if row is None:
                return number, b"".join(part + b"/" for part in names[depth:])
            number = row[0]
        return number, b""
