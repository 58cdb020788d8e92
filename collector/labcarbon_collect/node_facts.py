"""Hardware and software facts of a node, as sent at enrolment. They contain no person's name."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from pathlib import Path
from typing import Any, Dict

from labcarbon_collect import __version__

_SECTOR_BYTES = (
    512  # unit of /sys/block/*/size for every disk (Documentation/ABI/stable/sysfs-block)
)
_MAX_CHARS = 256
_IGNORED_DISKS = re.compile(r"^(loop|ram|zram|dm-|md|sr|fd|nbd|rbd|drbd|zd|mmcblk\d+boot)")


def describe_disks(sys: Path = Path("/sys")) -> str:
    """Return disks like ``2 × Samsung SSD 990 PRO 2TB (SSD, 2000 GB)``, separated by semicolons, or
    ''.

    Removable media, network disks and virtual block devices are left out.
    """
    disks: Counter[str] = Counter()
    for disk in sorted((sys / "block").glob("*")):
        size = _read_text(disk / "size")
        if (
            _IGNORED_DISKS.match(disk.name)
            or _read_text(disk / "removable") == "1"
            or not size.isdigit()
            or size == "0"
        ):
            continue
        model = re.sub(r"[^\x20-\x7e]|[;()×]", " ", _read_text(disk / "device" / "model")).strip()
        if model:
            kind = "HDD" if _read_text(disk / "queue" / "rotational") == "1" else "SSD"
            disks[
                f"{re.sub(' +', ' ', model)[:60]} ({kind}, {int(size) * _SECTOR_BYTES // 10**9} GB)"
            ] += 1
    text = ""
    for name, number in sorted(disks.items()):
        extended = f"{text}; {number} × {name}" if text else f"{number} × {name}"
        if len(extended) > 256:  # maximum length of a fact
            break
        text = extended
    return text


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


# What cloud-init knows of the instance; readable by all, without secrets.
# docs.cloud-init.io/en/latest/explanation/instance-data.html
INSTANCE_DATA = Path("/run/cloud-init/instance-data.json")
_CLOUDS = frozenset(("aws", "azure", "gce"))


def cloud_instance_id(path: Path = INSTANCE_DATA) -> str:
    """Return the id of this instance as its cloud provider bills it, '' elsewhere.

    Of Azure it is the resource id, in small letters.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return ""
    known = _mapping(data, "v1")
    if known.get("cloud_name") not in _CLOUDS:
        return ""
    if known["cloud_name"] == "azure":
        compute = _mapping(_mapping(_mapping(_mapping(data, "ds"), "meta_data"), "imds"), "compute")
        return str(compute.get("resourceId") or "").lower()
    return str(known.get("instance_id") or "")


def _mapping(value: Any, name: str) -> Dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


# Placeholders of boards without a name or number.
_PLACEHOLDERS = frozenset((
    "", "none", "default string", "to be filled by o.e.m.", "system product name",
    "system manufacturer", "not specified", "system serial number", "0", "unknown",
    "not applicable", "n/a",
))  # fmt: skip


def node_facts(
    proc: Path = Path("/proc"), sys: Path = Path("/sys"), cloud: Path = INSTANCE_DATA
) -> Dict[str, str]:
    """Return short texts by name. Unknown facts are left out. Board and disks of a virtual machine
    are not read.
    """
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
        "cloud_instance_id": cloud_instance_id(cloud),
    }
    if not is_virtual:
        facts.update(
            product=_product_name(sys),
            serial=_read_board(sys, "product_serial"),
            disks=describe_disks(sys),
        )
    return {name: value[:_MAX_CHARS] for name, value in facts.items() if value}


def _product_name(sys: Path) -> str:
    """Return the product name, preceded by the vendor unless it starts with it."""
    vendor, name = _read_board(sys, "sys_vendor"), _read_board(sys, "product_name")
    return (
        name
        if not vendor or name.lower().startswith(vendor.lower().split()[0])
        else f"{vendor} {name}"
        if name
        else ""
    )


def _read_board(sys: Path, name: str) -> str:
    """Return a DMI field of the board, or '' if it is empty or readable by root only."""
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
