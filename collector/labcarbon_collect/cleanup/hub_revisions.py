"""Which blobs in a cache of the Hugging Face hub the revisions of a repository use."""

from __future__ import annotations

import errno
import os
from typing import List, Set

from labcarbon_collect.cleanup.safe_paths import ItemBlocked, open_parent
from labcarbon_collect.files.hub_cache import blobs_path


def hub_blobs(path: str) -> str:
    """Return the folder of the blobs of a revision, "" if the path is no revision."""
    return os.fsdecode(blobs_path(os.fsencode(path)))


def used_blobs(blobs: str, but: os.stat_result) -> Set[bytes]:
    """Return the names of the blobs that links below ``snapshots`` use, also those of revisions in
    trash folders. ``but``: status of the revision that does not count.

    Raises ItemBlocked if a folder cannot be read.
    """
    used: Set[bytes] = set()
    try:
        with open_parent(f"{os.path.dirname(blobs)}/snapshots/any") as snapshots:
            for _, folders, names, folder in os.fwalk(
                b".", dir_fd=snapshots, onerror=_raise, follow_symlinks=False
            ):
                if os.path.samestat(os.fstat(folder), but):
                    folders.clear()
                    continue
                used.update(_targets(folder, [*names, *folders]))
    except OSError as error:
        raise ItemBlocked(
            f"it is unknown which other revisions use its files: {error.strerror}"
        ) from error
    return used


def _targets(folder: int, names: List[bytes]) -> Set[bytes]:
    """Return the last components of the targets of links."""
    targets = set()
    for name in names:
        try:
            targets.add(os.path.basename(os.readlink(name, dir_fd=folder)))
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: it is no link
                raise
    return targets


def _raise(error: OSError) -> None:
    raise error
