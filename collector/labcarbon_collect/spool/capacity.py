"""Capacity of the spool: size limit, ballast for deletes on a full disk, and the anchors that
survive damage.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Dict

from labcarbon_collect.config import DEFAULT_SPOOL_MB
from labcarbon_collect.energy.windows import Anchor
from labcarbon_collect.node_identity import write_private_file
from labcarbon_collect.spool.compaction import BUCKETS_US
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

BALLAST_BYTES = 256 << 10
DEFAULT_MAX_BYTES = DEFAULT_SPOOL_MB << 20
# Sampling resumes only this far below the limit, so that it does not stop and resume with each
# window.
_RESUME_FRACTION = 0.95
# Sampling stops below this free space, before a write fails halfway.
_MARGIN_BYTES = 96 << 10
_JOURNAL_BYTES_PER_ROW = 2_000  # including index pages, rounded up
_MERGE_ROWS = 100_000
_BALLAST = "ballast"
_ACKNOWLEDGED = "acknowledged.json"


class SpoolCapacity:
    """Keeps one spool within its limits."""

    def __init__(self, spool: Spool, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._spool = spool
        self._max_bytes = max_bytes
        self._ballast = spool.home / _BALLAST
        self.ensure_ballast()

    def free_space(self, *, now_us: int) -> bool:
        """Release the ballast, then what the server has, then reduce resolution: 1 → 10 → 60
        minutes. Returns whether there is space now.

        Without space the ballast is not created again: its space lets the upload thread work and
        deletes commit.
        """
        try:
            release_ballast(self._spool)
            if not self._has_room():
                self._spool.forget_uploaded()
                self._spool.checkpoint()
            for bucket_us in BUCKETS_US:
                if self._has_room():
                    break
                self._merge(bucket_us, now_us // bucket_us * bucket_us)
            return self.is_usable()
        except SpoolFull:
            return False

    def is_over_limit(self) -> bool:
        """Whether the spool is over its limit."""
        return self._spool.used_bytes() > self._max_bytes

    def is_usable(self) -> bool:
        """Whether sampling may continue: the spool is below its limit, the disk has space and
        accepts a write. Restores the ballast.
        """
        if not self._has_room():
            return False
        try:
            self._spool.set_value("room", "yes")
        except SpoolFull:
            return False
        self.ensure_ballast()
        return True

    def ensure_ballast(self) -> None:
        """Create the ballast if the disk has space for it."""
        if not self._ballast.exists() and self._has_room():
            self._create_ballast()

    def is_disk_low(self) -> bool:
        """Whether the disk has so little space that a write may fail halfway."""
        return self._disk_free() < _MARGIN_BYTES

    def _has_room(self) -> bool:
        if self._spool.used_bytes() > self._max_bytes * _RESUME_FRACTION:
            return False
        return self._disk_free() >= 2 * _MARGIN_BYTES + (
            0 if self._ballast.exists() else BALLAST_BYTES
        )

    def _disk_free(self) -> int:
        disk = os.statvfs(self._spool.home)
        return disk.f_bavail * disk.f_frsize

    def _merge(self, bucket_us: int, before_us: int) -> None:
        """Merge in transactions that fit: until the commit, changes are in the journal beside the
        file.
        """
        freed = 1
        while freed:
            max_rows = max(1, min(_MERGE_ROWS, self._disk_free() // _JOURNAL_BYTES_PER_ROW))
            freed = self._spool.merge(bucket_us=bucket_us, before_us=before_us, max_rows=max_rows)
            self._spool.checkpoint()

    def _create_ballast(self) -> None:
        """Reserve real blocks. Without space for them the spool works without ballast."""
        try:
            descriptor = os.open(
                self._ballast, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
            )
        except OSError:
            return
        try:
            os.posix_fallocate(descriptor, 0, BALLAST_BYTES)
        except OSError:
            self._ballast.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def release_ballast(spool: Spool) -> None:
    """Delete the ballast, so that results and deletes can commit. Raises SpoolFull if that is not
    enough.
    """
    (spool.home / _BALLAST).unlink(missing_ok=True)
    spool.checkpoint()


def save_acknowledged(spool: Spool) -> None:
    """Write the acknowledged anchors beside the spool, for recovery from damage."""
    content = {device: asdict(anchor) for device, anchor in spool.acknowledged_anchors().items()}
    # Without space the older file remains. Windows sent since then would be sent again, overlap and
    # be quarantined.
    with suppress(OSError):
        write_private_file(spool.home / _ACKNOWLEDGED, json.dumps(content) + "\n")


def recover_acknowledged(spool: Spool, *, boot: str) -> int:
    """Store the last acknowledged anchors in a new spool. The counters include the energy of the
    lost windows.

    Returns the number of devices. The epochs contain the mark of the new spool, so sequences may
    start at 0.
    """
    anchors = [replace(anchor, seq=0) for anchor in _read(spool.home / _ACKNOWLEDGED).values()]
    spool.append(boot=boot, anchors=anchors)
    return len(anchors)


def _read(path: Path) -> Dict[str, Anchor]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {device: Anchor(**body) for device, body in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
