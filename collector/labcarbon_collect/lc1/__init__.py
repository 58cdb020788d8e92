"""Fingerprint ``lc1``, by which equal runs are recognised. Pure. The server also imports it, for
runs from trackers.

``values`` parses parameters, ``params`` selects and names them, ``hashes`` computes hashes of parts
and tiers. docs/fingerprint.md describes the comparison.
"""

from __future__ import annotations

from labcarbon_collect.lc1.hashes import (
    VERSION,
    hash_rows,
    leave_one_out,
    manifest_hash,
    param_hash,
    part_hash,
    recipe,
    role_hash,
    seeds_hash,
)
from labcarbon_collect.lc1.params import SortedParams, flatten, sort_params
from labcarbon_collect.lc1.values import Value, canonical, is_canonical, is_number, parse_value

__all__ = (
    "VERSION", "SortedParams", "Value", "canonical", "flatten", "hash_rows", "is_canonical",
    "is_number", "leave_one_out", "manifest_hash", "param_hash", "parse_value", "part_hash",
    "recipe", "role_hash", "seeds_hash", "sort_params",
)  # fmt: skip
