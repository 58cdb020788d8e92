"""Parts D and M as they go over the wire: hashes, and what is shown of each thing. Pure."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Sequence, Tuple

from labcarbon_collect.files.manifests import Manifest
from labcarbon_collect.lc1 import part_hash, role_hash
from labcarbon_collect.redaction import mask_argument

_MOST_ITEMS = 100
SCRATCH = "scratch"


def data_part(manifests: Sequence[Manifest], verified: Optional[Sequence[Tuple[str, str]]]) -> Dict[str, Any]:
    """``data``: ``verified`` None where the contents are not known (yet)."""
    told: Dict[str, Any] = {"weak": role_hash("data", [(each.role, each.weak_hash()) for each in manifests])}
    if verified is not None:
        told["verified"] = role_hash("data", verified)
    state = "weak" if verified is None else "verified"
    told["items"] = [
        {
            "role": mask_argument(each.role)[:32], "name": shown_name(each.path), "files": len(each.files),
            "bytes": each.size, "state": state,
        }
        for each in manifests[:_MOST_ITEMS]
    ]  # fmt: skip
    return told


def start_part(manifests: Sequence[Manifest], verified: Optional[Sequence[Tuple[str, str]]]) -> Dict[str, Any]:
    """``start`` from checkpoints."""
    told = {"weak": role_hash("start", [("", each.weak_hash()) for each in manifests])}
    if verified is not None:
        told["verified"] = role_hash("start", [("", each) for _, each in verified])
    told["name"] = ", ".join(shown_name(each.path) for each in manifests)[:255]
    return told


def from_scratch() -> Dict[str, Any]:
    """``start`` of a run that was given no checkpoint."""
    hashed = part_hash("start", SCRATCH)
    return {"weak": hashed, "verified": hashed, "name": SCRATCH}


def shown_name(path: str) -> str:
    """The last name of a path: what is shown of it, never the folders above."""
    name = os.path.basename(os.path.normpath(path)).encode("utf-8", "replace").decode()
    printable = "".join(letter if letter.isprintable() else "?" for letter in name)
    return mask_argument(printable)[:255]
