"""Fingerprint ``lc1``: what makes two runs the same work. Pure; also imported by the server, for runs that trackers report.

``values`` gives a parameter its type, ``params`` says which parameters count and how they are named, ``hashes`` turns parts
into hashes and tiers. docs/fingerprint.md tells what is compared with what.
"""

from __future__ import annotations

from labcarbon_collect.lc1.hashes import (
    VERSION,
    left_out,
    manifest_hash,
    param_hash,
    part_hash,
    recipe,
    role_hash,
    seeds_hash,
    summed,
)
from labcarbon_collect.lc1.params import Sorted, flat, sort_params
from labcarbon_collect.lc1.values import Value, canonical, typed

__all__ = (
    "VERSION", "Sorted", "Value", "canonical", "flat", "left_out", "manifest_hash", "param_hash", "part_hash", "recipe",
    "role_hash", "seeds_hash", "sort_params", "summed", "typed",
)  # fmt: skip
