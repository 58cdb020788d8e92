"""What the server is told of a machine at enrolment: hardware and software, no person's name."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Dict

from labcarbon_collect import __version__
from labcarbon_collect.disks import built_in_disks

# What boards say that have no name or number of their own.
_NOTHING = frozenset((
    "", "none", "default string", "to be filled by o.e.m.", "system product name", "system manufacturer", "not specified",
    "system serial number", "0", "unknown", "not applicable", "n/a",
))  # fmt: skip


def machine_facts(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Dict[str, str]:
    """Short texts by name; what cannot be found out is left out. Of a virtual machine, board and disks are not asked."""
    virtual = "hypervisor" in _first_value(proc / "cpuinfo", "flags").split()
    facts = {
        "collector": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "system": _system_name(),
        "architecture": platform.machine(),
        "threads": str(os.cpu_count() or ""),
        "cpu": _first_value(proc / "cpuinfo", "model name"),
        "memory_mib": _memory_mib(proc),
        "virtual_machine": "yes" if virtual else "no",
    }
    if not virtual:
        facts.update(product=_product(sys), serial=_board(sys, "product_serial"), disks=built_in_disks(sys))
    return {name: value[:256] for name, value in facts.items() if value}


def _product(sys: Path) -> str:
    """The maker's name of the machine, its maker first unless the name begins with it."""
    vendor, name = _board(sys, "sys_vendor"), _board(sys, "product_name")
    return name if not vendor or name.lower().startswith(vendor.lower().split()[0]) else f"{vendor} {name}" if name else ""


def _board(sys: Path, name: str) -> str:
    """What the board says (DMI); '' where it says nothing or only root may read it."""
    try:
        text = (sys / "class" / "dmi" / "id" / name).read_text(errors="replace").strip()
    except OSError:
        return ""
    return "" if text.lower() in _NOTHING else text


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
        name, found, value = line.partition(separator)
        if found and name.strip() == key:
            return value.strip()
    return ""
