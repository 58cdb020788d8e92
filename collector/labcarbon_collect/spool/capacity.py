"""Room for the spool: its size limit, the ballast that lets deletes commit on a full disk, and what outlives damage."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Dict

from labcarbon_collect.energy.windows import Anchor
from labcarbon_collect.identity import write_private_file
from labcarbon_collect.spool.compaction import BUCKETS_US
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

BALLAST_BYTES = 256 << 10
DEFAULT_MAX_BYTES = 200 << 20
# Sampling goes on only when the spool is this far below its limit, so that it does not stop and go at each window.
_RESUME_FRACTION = 0.95
# Free space below which we stop rather than fail in the middle of something.
_MARGIN_BYTES = 96 << 10
_JOURNAL_BYTES_PER_ROW = 2_000  # with its share of index pages, generously
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
        """Give up the ballast, then resolution: 1 → 10 → 60 minutes. Returns whether there is room now.

        When there is none, the ballast stays away: its room lets the push thread work, and deletes commit.
        """
        try:
            release_ballast(self._spool)
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
        """Whether sampling may go on: below the limit, the disk has room and takes a write, and there is ballast again."""
        if not self._has_room():
            return False
        try:
            self._spool.set_value("room", "yes")
        except SpoolFull:
            return False
        self.ensure_ballast()
        return True

    def ensure_ballast(self) -> None:
        """Have ballast whenever the disk has room for it."""
        if not self._ballast.exists() and self._has_room():
            self._create_ballast()

    def is_disk_low(self) -> bool:
        """Whether the disk has so little left that a write may fail half-way."""
        return self._disk_free() < _MARGIN_BYTES

    def _has_room(self) -> bool:
        if self._spool.used_bytes() > self._max_bytes * _RESUME_FRACTION:
            return False
        return self._disk_free() >= 2 * _MARGIN_BYTES + (0 if self._ballast.exists() else BALLAST_BYTES)

    def _disk_free(self) -> int:
        disk = os.statvfs(self._spool.home)
        return disk.f_bavail * disk.f_frsize

    def _merge(self, bucket_us: int, before_us: int) -> None:
        """Merge in transactions that fit: until it commits, what changes lies in the journal beside the file."""
        freed = 1
        while freed:
            max_rows = max(1, min(_MERGE_ROWS, self._disk_free() // _JOURNAL_BYTES_PER_ROW))
            freed = self._spool.merge(bucket_us=bucket_us, before_us=before_us, max_rows=max_rows)
            self._spool.checkpoint()

    def _create_ballast(self) -> None:
        """Reserve real blocks. Without room for them we work without ballast: better than not at all."""
        try:
            descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            os.posix_fallocate(descriptor, 0, BALLAST_BYTES)
        except OSError:
            self._ballast.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def release_ballast(spool: Spool) -> None:
    """Turn the ballast into room, so that answers and deletes can commit. Raises SpoolFull when even that is too little."""
    (spool.home / _BALLAST).unlink(missing_ok=True)
    spool.checkpoint()


def save_acknowledged(spool: Spool) -> None:
    """Write beside the spool how far the server has everything, for the day the spool is damaged."""
    content = {device: asdict(anchor) for device, anchor in spool.acknowledged_anchors().items()}
    # Without room the older one stands: windows sent meanwhile would come again, overlapping, and be quarantined.
    with suppress(OSError):
        write_private_file(spool.home / _ACKNOWLEDGED, json.dumps(content) + "\n")


def recover_acknowledged(spool: Spool, *, boot: str) -> int:
    """Give a spool begun anew the last acknowledged readings: the counters hold what the lost windows held.

    Returns the number of devices recovered. The epochs get the new spool's mark, so numbering may begin at 0.
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
