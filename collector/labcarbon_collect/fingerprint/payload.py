"""Parts D and M in wire format: hashes and display names. Pure."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Sequence, Tuple

from labcarbon_collect.files.manifests import Manifest
from labcarbon_collect.lc1 import part_hash, role_hash
from labcarbon_collect.redaction import mask_argument

_MAX_ITEMS = 100
SCRATCH = "scratch"


def data_part(
    manifests: Sequence[Manifest], verified: Optional[Sequence[Tuple[str, str]]]
) -> Dict[str, Any]:
    """Return ``data``. ``verified`` is None while the contents are not hashed."""
    part: Dict[str, Any] = {
        "weak": role_hash("data", [(manifest.role, manifest.weak_hash()) for manifest in manifests])
    }
    if verified is not None:
        part["verified"] = role_hash("data", verified)
    state = "weak" if verified is None else "verified"
    part["items"] = [
        {
            "role": mask_argument(manifest.role)[:32],
            "name": display_name(manifest.path),
            "files": len(manifest.files),
            "bytes": manifest.size,
            "state": state,
        }
        for manifest in manifests[:_MAX_ITEMS]
    ]
    return part


def start_part(
    manifests: Sequence[Manifest], verified: Optional[Sequence[Tuple[str, str]]]
) -> Dict[str, Any]:
    """Return ``start`` of checkpoints."""
    part = {"weak": role_hash("start", [("", manifest.weak_hash()) for manifest in manifests])}
    if verified is not None:
        part["verified"] = role_hash("start", [("", manifest) for _, manifest in verified])
    part["name"] = ", ".join(display_name(manifest.path) for manifest in manifests)[:255]
    return part


def scratch_part() -> Dict[str, Any]:
    """Return ``start`` of a run without a checkpoint."""
    scratch_hash = part_hash("start", SCRATCH)
    return {"weak": scratch_hash, "verified": scratch_hash, "name": SCRATCH}


def display_name(path: str) -> str:
    """Return the last name of a path. Folders above it are never sent."""
    name = os.path.basename(os.path.normpath(path)).encode("utf-8", "replace").decode()
    printable = "".join(letter if letter.isprintable() else "?" for letter in name)
    return mask_argument(printable)[:255]
