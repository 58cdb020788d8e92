"""Hashes of files by name, size and content, and of what a run reads or begins from. Pure."""

from __future__ import annotations

import hashlib
from typing import Iterable, Sequence, Tuple

from labcarbon_collect.lc1.hashes import part_hash


def summed(rows: Iterable[Tuple[bytes, bytes]]) -> str:
    """Return SHA-256 (64 hex digits) over ``(name, what is told of it)`` in the order given."""
    digest = hashlib.sha256()
    for name, content in rows:
        digest.update(b"%d:%s %s\n" % (len(name), name, content))
    return digest.hexdigest()


def manifest_hash(files: Iterable[Tuple[bytes, int, bytes]]) -> str:
    """Return the hash of files by ``(path below the folder, size, SHA-256 of the content, 32 bytes)``, sorted by path.

    The path of a single file is empty.
    """
    return summed((name, b"%d %s" % (size, digest)) for name, size, digest in files)


def role_hash(part: str, hashes: Sequence[Tuple[str, str]]) -> str:
    """Return one hash for all ``(role, hash)`` of a part, whatever their order."""
    return part_hash(part, sorted([role, each] for role, each in hashes))
