"""Which kind of disk a folder lies on, as the kernel tells it; what it cannot know is unknown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Dict, List, Optional, Tuple

HDD, SSD, OBJECT, TAPE, UNKNOWN = "hdd", "ssd", "object", "tape", "unknown"
MEDIUMS = (HDD, SSD, OBJECT, TAPE)
# The disk of a virtual machine: what it says of itself is the hypervisor's default, not the disk below.
_VIRTUAL = re.compile(r"^(?:vd|xvd)[a-z]+$")


class MediumDetector:
    """Mediums by device, each asked once."""

    def __init__(self, sys: Path = Path("/sys"), mountinfo: Path = Path("/proc/self/mountinfo")) -> None:
        self._sys, self._mountinfo = sys, mountinfo
        self._by_device: Dict[int, str] = {}

    def medium_of(self, path: bytes) -> str:
        """The medium of the file system that ``path`` lies on."""
        try:
            device = os.stat(path).st_dev
        except OSError:
            return UNKNOWN
        if device not in self._by_device:
            self._by_device[device] = self.device_medium(os.major(device), os.minor(device), os.fsdecode(path))
        return self._by_device[device]

    def device_medium(self, major: int, minor: int, path: str) -> str:
        """The medium of a device by number; of one without a disk of its own, by what is mounted at ``path``."""
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
        for disk in (disk_folder, disk_folder.parent):  # a partition lies in the folder of its disk
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
        """What is mounted where ``path`` lies, if that is a device of this machine (btrfs and the like)."""
        best: Tuple[int, str] = (-1, "")
        for point, source in self._mounts():
            if (path + "/").startswith(point.rstrip("/") + "/") and len(point) >= best[0]:
                best = (len(point), source)
        return best[1] if best[1].startswith("/dev/") else None

    def _mounts(self) -> List[Tuple[str, str]]:
        """(mount point, source); proc(5): fields before and behind a lone hyphen."""
        try:
            lines = self._mountinfo.read_text(errors="surrogateescape").splitlines()
        except OSError:
            return []
        mounts = []
        for line in lines:
            left, _, right = line.partition(" - ")
            fields, right_fields = left.split(" "), right.split(" ")
            if len(fields) > 4 and len(right_fields) > 1:
                mounts.append((re.sub(r"\\(\d{3})", lambda match: chr(int(match.group(1), 8)), fields[4]), right_fields[1]))
        return mounts


def _device_numbers(source: str) -> Optional[Tuple[int, int]]:
    try:
        number = os.stat(source).st_rdev
    except OSError:
        return None
    return os.major(number), os.minor(number)
