"""The disks that are built into a machine, as the kernel lists them; nothing of what is on them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

_SECTOR_BYTES = 512  # of /sys/block/*/size, whatever the disk's own sectors are (Documentation/ABI/stable/sysfs-block)
_NO_DISK = re.compile(r"^(loop|ram|zram|dm-|md|sr|fd|nbd|rbd|drbd|zd|mmcblk\d+boot)")


def built_in_disks(sys: Path = Path("/sys")) -> str:
    """Return disks like ``2 × Samsung SSD 990 PRO 2TB (SSD, 2000 GB)``, separated by semicolons; '' if there are none.

    Removable media, network disks and what the kernel makes of other disks are left out.
    """
    found: Counter[str] = Counter()
    for disk in sorted((sys / "block").glob("*")):
        size = _text(disk / "size")
        if _NO_DISK.match(disk.name) or _text(disk / "removable") == "1" or not size.isdigit() or size == "0":
            continue
        model = re.sub(r"[^\x20-\x7e]|[;()×]", " ", _text(disk / "device" / "model")).strip()
        if model:
            kind = "HDD" if _text(disk / "queue" / "rotational") == "1" else "SSD"
            found[f"{re.sub(' +', ' ', model)[:60]} ({kind}, {int(size) * _SECTOR_BYTES // 10**9} GB)"] += 1
    told = ""
    for name, number in sorted(found.items()):
        more = f"{told}; {number} × {name}" if told else f"{number} × {name}"
        if len(more) > 256:  # a fact's longest
            break
        told = more
    return told


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
