"""What the server is told of a machine at enrolment: hardware and software, no person's name."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from pathlib import Path
from typing import Dict

from labcarbon_collect import __version__

_SECTOR_BYTES = 512  # of /sys/block/*/size, whatever the disk's own sectors are (Documentation/ABI/stable/sysfs-block)
_IGNORED_DISKS = re.compile(r"^(loop|ram|zram|dm-|md|sr|fd|nbd|rbd|drbd|zd|mmcblk\d+boot)")


def describe_disks(sys: Path = Path("/sys")) -> str:
    """Return disks like ``2 × Samsung SSD 990 PRO 2TB (SSD, 2000 GB)``, separated by semicolons; '' if there are none.

    Removable media, network disks and what the kernel makes of other disks are left out.
    """
    disks: Counter[str] = Counter()
    for disk in sorted((sys / "block").glob("*")):
        size = _read_text(disk / "size")
        if _IGNORED_DISKS.match(disk.name) or _read_text(disk / "removable") == "1" or not size.isdigit() or size == "0":
            continue
        model = re.sub(r"[^\x20-\x7e]|[;()×]", " ", _read_text(disk / "device" / "model")).strip()
        if model:
            kind = "HDD" if _read_text(disk / "queue" / "rotational") == "1" else "SSD"
            disks[f"{re.sub(' +', ' ', model)[:60]} ({kind}, {int(size) * _SECTOR_BYTES // 10**9} GB)"] += 1
    text = ""
    for name, number in sorted(disks.items()):
        extended = f"{text}; {number} × {name}" if text else f"{number} × {name}"
        if len(extended) > 256:  # a fact's longest
            break
        text = extended
    return text


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


# What boards say that have no name or number of their own.
_PLACEHOLDERS = frozenset((
    "", "none", "default string", "to be filled by o.e.m.", "system product name", "system manufacturer", "not specified",
    "system serial number", "0", "unknown", "not applicable", "n/a",
))  # fmt: skip


def node_facts(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Dict[str, str]:
    """Short texts by name; what cannot be found out is left out. Of a virtual machine, board and disks are not asked."""
    is_virtual = "hypervisor" in _first_value(proc / "cpuinfo", "flags").split()
    facts = {
        "collector": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "system": _system_name(),
        "architecture": platform.machine(),
        "threads": str(os.cpu_count() or ""),
        "cpu": _first_value(proc / "cpuinfo", "model name"),
        "memory_mib": _memory_mib(proc),
        "virtual_machine": "yes" if is_virtual else "no",
    }
    if not is_virtual:
        facts.update(product=_product_name(sys), serial=_read_board(sys, "product_serial"), disks=describe_disks(sys))
    return {name: value[:256] for name, value in facts.items() if value}


def _product_name(sys: Path) -> str:
    """The maker's name of the machine, its maker first unless the name begins with it."""
    vendor, name = _read_board(sys, "sys_vendor"), _read_board(sys, "product_name")
    return name if not vendor or name.lower().startswith(vendor.lower().split()[0]) else f"{vendor} {name}" if name else ""


def _read_board(sys: Path, name: str) -> str:
    """What the board says (DMI); '' where it says nothing or only root may read it."""
    try:
        text = (sys / "class" / "dmi" / "id" / name).read_text(errors="replace").strip()
    except OSError:
        return ""
    return "" if text.lower() in _PLACEHOLDERS else text


def _system_name() -> str:
    return _first_value(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"') or platform.system()


def _memory_mib(proc: Path) -> str:
    words = _first_value(proc / "meminfo", "MemTotal").split()
    return str(int(words[0]) // 1024) if words and words[0].isdigit() else ""


def _first_value(path: Path, key: str, separator: str = ":") -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, has_separator, value = line.partition(separator)
        if has_separator and name.strip() == key:
            return value.strip()
    return ""
