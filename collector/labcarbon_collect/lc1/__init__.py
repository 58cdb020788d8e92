"""Fingerprint ``lc1``: what makes two runs the same work. Pure; also imported by the server, for runs that trackers report.

``values`` gives a parameter its type, ``params`` says which parameters count and how they are named, ``hashes`` turns parts
into hashes and tiers. docs/fingerprint.md tells what is compared with what.
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
from labcarbon_collect.lc1.values import Value, canonical, parse_value

__all__ = (
    "VERSION", "SortedParams", "Value", "canonical", "flatten", "hash_rows", "leave_one_out", "manifest_hash", "param_hash",
    "parse_value", "part_hash", "recipe", "role_hash", "seeds_hash", "sort_params",
)  # fmt: skip
