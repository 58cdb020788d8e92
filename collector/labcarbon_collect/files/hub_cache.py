"""Layout of a cache of the Hugging Face hub: ``models--org--name/snapshots/<revision>`` contains
links to the files in ``models--org--name/blobs``. Pure.
"""

from __future__ import annotations

import re
from typing import Optional

_REVISION = re.compile(rb"/(?:model|dataset)s--[^/]+/snapshots/[^/]+\Z")


def blobs_path(path: bytes) -> bytes:
    """Return the folder of the blobs of a revision, b"" if the path is no revision."""
    if _REVISION.search(path) is None:
        return b""
    return path.rsplit(b"/", 2)[0] + b"/blobs"


def blob_name(name: bytes, target: bytes) -> Optional[bytes]:
    """Return the blob of a link in a revision, None if the link is not one of the cache.

    ``name``: path of the link below the revision. ``target``: text of the link.
    """
    prefix = b"../" * (name.count(b"/") + 2) + b"blobs/"
    blob = target[len(prefix) :]
    is_name = bool(blob) and b"/" not in blob and blob not in (b".", b"..")
    return blob if target.startswith(prefix) and is_name else None
