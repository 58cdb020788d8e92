"""Digests of files' contents, with what was hashed before remembered."""

from __future__ import annotations

import hashlib
import os
from typing import Callable, Iterator, List, Optional, Sequence, Tuple

from labcarbon_collect.files.budget import Budget, open_plain
from labcarbon_collect.files.digest_cache import DigestCache
from labcarbon_collect.files.manifests import File, Manifest

_BLOCK, _KEEP_EVERY = 1 << 20, 512
Hashed = Callable[[int], None]  # told of each block read, in bytes; may wait, may raise OutOfBudget


class Changed(Exception):
    """A file is not as it was listed; what it holds cannot be told."""


def verified(manifests: Sequence[Manifest], cache: DigestCache, *, hashed: Hashed) -> List[Tuple[str, str]]:
    """``(role, hash by content)`` of each manifest.

    Raises OSError for a file that cannot be read, Changed, and what ``hashed`` raises. What was done until then is kept.
    """
    fresh: List[Tuple[File, bytes]] = []
    try:
        return [(each.role, each.verified(list(_digests(each, cache, fresh, hashed)))) for each in manifests]
    finally:
        cache.keep(fresh)


def small_enough(manifests: Sequence[Manifest], cache: DigestCache, *, most_bytes: int, most_files: int) -> bool:
    """Whether what is not known of ``manifests`` can be hashed at once."""
    left_bytes, left_files = most_bytes, most_files
    for each in manifests:
        if len(each.files) > 20 * most_files:
            return False
        for file in each.files:
            if cache.known(file) is None:
                left_bytes, left_files = left_bytes - file.size, left_files - 1
            if left_bytes < 0 or left_files < 0:
                return False
    return True


def in_time(budget: Budget) -> Hashed:
    """Hash as fast as it goes, until the budget is spent."""
    return lambda _: budget.check()


def _digests(manifest: Manifest, cache: DigestCache, fresh: List[Tuple[File, bytes]], hashed: Hashed) -> Iterator[bytes]:
    for file in manifest.files:
        digest: Optional[bytes] = cache.known(file)
        if digest is None:
            digest = _digest(file, hashed)
            fresh.append((file, digest))
            if len(fresh) >= _KEEP_EVERY:
                cache.keep(fresh)
                fresh.clear()
        else:
            hashed(0)
        yield digest


def _digest(file: File, hashed: Hashed) -> bytes:
    digest = hashlib.sha256()
    descriptor = open_plain(file.path)
    try:
        before = os.fstat(descriptor)
        while True:
            block = os.read(descriptor, _BLOCK)
            if not block:
                break
            digest.update(block)
            hashed(len(block))
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    listed = (file.size, file.mtime_ns)
    if listed != (before.st_size, before.st_mtime_ns) or listed != (after.st_size, after.st_mtime_ns):
        raise Changed("a file changed while it was read")
    return digest.digest()
