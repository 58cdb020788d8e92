"""Hashes of parts and sums of parameters. Pure.

Parameters are summed, not concatenated: H = Σ SHA-256([name, value]) mod 2^128. H minus one
parameter's hash is thus the hash of all others. Two runs that differ in at most one parameter share
such a value.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, Mapping, Sequence, Tuple

from labcarbon_collect.lc1.values import Value, canonical

VERSION = "lc2"
_BITS = 128


def part_hash(*content: Any) -> str:
    """Return SHA-256 (64 hex digits) of the canonical form of a list."""
    return hashlib.sha256(canonical(list(content))).hexdigest()


def param_hash(name: str, value: Value) -> str:
    """Return the hash of one parameter: the first 32 hex digits of SHA-256 of ``[name, value]``."""
    return part_hash(name, value)[: _BITS // 4]


def recipe(hashes: Iterable[str]) -> str:
    """Return the sum of parameter hashes as 32 hex digits. Without parameters it is all zeros."""
    return f"{sum(int(param_hash, 16) for param_hash in hashes) % (1 << _BITS):032x}"


def leave_one_out(hashes: Mapping[str, str]) -> Dict[str, str]:
    """Return for each parameter the sum of all others, 32 hex digits."""
    total = int(recipe(hashes.values()), 16)
    return {
        name: f"{(total - int(hash_, 16)) % (1 << _BITS):032x}" for name, hash_ in hashes.items()
    }


def seeds_hash(seeds: Mapping[str, str]) -> str:
    """Return the hash of all seeds. Without seeds it is that of 'unset', which matches 'unset'."""
    return part_hash("seeds", sorted(seeds.values())) if seeds else part_hash("seeds", "unset")


def hash_rows(rows: Iterable[Tuple[bytes, bytes]]) -> str:
    """Return SHA-256 (64 hex digits) over ``(name, content)`` in the given order."""
    digest = hashlib.sha256()
    for name, content in rows:
        digest.update(b"%d:%s %s\n" % (len(name), name, content))
    return digest.hexdigest()


def manifest_hash(files: Iterable[Tuple[bytes, int, bytes]]) -> str:
    """Return the hash of files by ``(path below the folder, size, SHA-256 of the content, 32
    bytes)``, sorted by path.

    The path of a single file is empty.
    """
    return hash_rows((name, b"%d %s" % (size, digest)) for name, size, digest in files)


def role_hash(part: str, hashes: Sequence[Tuple[str, str]]) -> str:
    """Return one hash for all ``(role, hash)`` of a part, whatever their order."""
    return part_hash(part, sorted([role, hash_] for role, hash_ in hashes))
