"""Hashes of parts and sums of parameters. Pure.

Parameters are summed, not concatenated: H = Σ SHA-256([name, value]) mod 2^128, so H less one parameter's hash is the hash
of everything but that one, and two runs that differ in at most one parameter share such a value.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, Mapping

from labcarbon_collect.lc1.values import Value, canonical

VERSION = "lc1"
_BITS = 128


def part_hash(*content: Any) -> str:
    """Return SHA-256 (64 hex digits) of the canonical form of a list."""
    return hashlib.sha256(canonical(list(content))).hexdigest()


def param_hash(name: str, value: Value) -> str:
    """Return the hash of one parameter: the first 32 hex digits of SHA-256 of ``[name, value]``."""
    return part_hash(name, value)[: _BITS // 4]


def recipe(hashes: Iterable[str]) -> str:
    """Return the sum of parameters' hashes, 32 hex digits; of none it is all zeros."""
    return f"{sum(int(each, 16) for each in hashes) % (1 << _BITS):032x}"


def left_out(hashes: Mapping[str, str]) -> Dict[str, str]:
    """Return for each parameter the sum of all others, 32 hex digits."""
    total = int(recipe(hashes.values()), 16)
    return {name: f"{(total - int(each, 16)) % (1 << _BITS):032x}" for name, each in hashes.items()}


def seeds_hash(seeds: Mapping[str, str]) -> str:
    """Return the hash of all seeds; of none it is that of 'unset', which matches 'unset'."""
    return part_hash("seeds", sorted(seeds.values())) if seeds else part_hash("seeds", "unset")
