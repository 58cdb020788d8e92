"""Detects the storage medium of a folder from kernel information. It is unknown if the kernel
cannot know it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Dict, List, Optional, Tuple

HDD, SSD, OBJECT, TAPE, UNKNOWN = "hdd", "ssd", "object", "tape", "unknown"
MEDIUMS = (HDD, SSD, OBJECT, TAPE)
# Disks of virtual machines: the kernel reports the hypervisor's default, not the physical disk.
_VIRTUAL = re.compile(r"^(?:vd|xvd)[a-z]+$")


class MediumDetector:
    """Storage mediums by device, with a cache."""

    def __init__(
        self, sys: Path = Path("/sys"), mountinfo: Path = Path("/proc/self/mountinfo")
    ) -> None:
        self._sys, self._mountinfo = sys, mountinfo
        self._by_device: Dict[int, str] = {}

    def medium_of(self, path: bytes) -> str:
        """Return the medium of the file system that contains ``path``."""
        try:
            device = os.stat(path).st_dev
        except OSError:
            return UNKNOWN
        if device not in self._by_device:
            self._by_device[device] = self.device_medium(
                os.major(device), os.minor(device), os.fsdecode(path)
            )
        return self._by_device[device]

    def device_medium(self, major: int, minor: int, path: str) -> str:
        """Return the medium of a device number. For a device without a disk of its own, uses the
        mount that contains ``path``.
        """
        if major == 0:
            source = self._mount_source(path)
            numbers = _device_numbers(source) if source else None
            return self._disk_medium(*numbers) if numbers else UNKNOWN
        return self._disk_medium(major, minor)

    def _disk_medium(self, major: int, minor: int) -> str:
        device = self._sys / "dev" / "block" / f"{major}:{minor}"
        try:
            disk_folder = device.resolve(strict=True)
        except OSError:
            return UNKNOWN
        # the folder of a partition is inside the folder of its disk
        for disk in (disk_folder, disk_folder.parent):
            if _VIRTUAL.match(disk.name):
                return UNKNOWN
            try:
                rotational = (disk / "queue" / "rotational").read_text().strip()
            except OSError:
                continue
            components = sorted((disk / "slaves").glob("*")) if (disk / "slaves").is_dir() else []
            if any(_VIRTUAL.match(re.sub(r"\d+$", "", component.name)) for component in components):
                return UNKNOWN
            return {"0": SSD, "1": HDD}.get(rotational, UNKNOWN)
        return UNKNOWN

    def _mount_source(self, path: str) -> Optional[str]:
        """Return the device mounted at ``path`` if it is a local block device (btrfs and
        similar).
        """
        best: Tuple[int, str] = (-1, "")
        for point, source in self._mounts():
            if (path + "/").startswith(point.rstrip("/") + "/") and len(point) >= best[0]:
                best = (len(point), source)
        return best[1] if best[1].startswith("/dev/") else None

    def _mounts(self) -> List[Tuple[str, str]]:
        """Return (mount point, source). proc(5): a lone hyphen separates two groups of fields."""
        try:
            lines = self._mountinfo.read_text(errors="surrogateescape").splitlines()
        except OSError:
            return []
        mounts = []
        for line in lines:
            left, _, right = line.partition(" - ")
            fields, right_fields = left.split(" "), right.split(" ")
            if len(fields) > 4 and len(right_fields) > 1:
                mounts.append(
                    (
                        re.sub(r"\\(\d{3})", lambda match: chr(int(match.group(1), 8)), fields[4]),
                        right_fields[1],
                    )
                )
        return mounts


def _device_numbers(source: str) -> Optional[Tuple[int, int]]:
    try:
        number = os.stat(source).st_rdev
    except OSError:
        return None
    return os.major(number), os.minor(number)
