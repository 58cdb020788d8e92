"""Processor types and the power of their hardware threads. Pure except for reading the shipped
table.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

# (vendor_id, family, model) → row of data/cpu_power.csv. Family and model numbers are the CPUID's,
# decimal. Server parts and client parts with the same cores. Any other processor gets the median of
# its vendor, named as such.
_INTEL_FAMILY_6: Dict[str, Tuple[int, ...]] = {
    "Sandy Bridge": (42, 45),
    "Ivy Bridge": (58, 62),
    "Haswell": (60, 63, 69, 70),
    "Broadwell": (61, 71, 79, 86),
    "Skylake": (78, 85, 94),
    "Coffee Lake": (142, 158),
    "Ice Lake": (106, 108, 125, 126),
    "Sapphire Rapids": (143,),
    "Emerald Rapids": (207,),
    "Granite Rapids": (173, 174),
}
_AMD: Dict[Tuple[int, int], str] = {
    (23, 1): "EPYC 1st Gen",
    (23, 49): "EPYC 2nd Gen",
    (25, 1): "EPYC 3rd Gen",
    (25, 17): "EPYC 4th Gen",
    (25, 160): "EPYC 4th Gen",
    (26, 2): "EPYC 5th Gen",
    (26, 17): "EPYC 5th Gen",
}
_ARM_PARTS: Dict[str, str] = {"0xd0c": "Graviton2", "0xd40": "Graviton3", "0xd4f": "Graviton4"}
_SKYLAKE_SERVER_MODEL = 85
_FIRST_CASCADE_LAKE_STEPPING = 5


@dataclass(frozen=True)
class Processor:
    """One package as /proc/cpuinfo describes it."""

    vendor: str  # intel, amd, arm, or as printed
    model_name: str
    microarchitecture: Optional[str]  # None: not in the table
    hypervisor: bool


@dataclass(frozen=True)
class ThreadPower:
    """Power of a hardware thread in milliwatts: idle, fully used, and the lowest and highest figure
    of the source.
    """

    idle_mw: int
    max_mw: int
    low_mw: int
    high_mw: int
    basis: str  # the microarchitecture, or the vendors of the median


def identify(cpuinfo: Mapping[str, str]) -> Processor:
    """Identify the processor from one block of /proc/cpuinfo (keys as printed)."""
    vendor_id = cpuinfo.get("vendor_id", "")
    vendor = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(vendor_id, vendor_id or "unknown")
    if "CPU implementer" in cpuinfo:
        vendor = "arm"
    return Processor(
        vendor=vendor,
        model_name=cpuinfo.get("model name", "") or vendor,
        microarchitecture=_microarchitecture(vendor, cpuinfo),
        hypervisor="hypervisor" in cpuinfo.get("flags", "").split(),
    )


def _microarchitecture(vendor: str, cpuinfo: Mapping[str, str]) -> Optional[str]:
    if vendor == "arm":
        return _ARM_PARTS.get(cpuinfo.get("CPU part", ""))
    family, model, stepping = (
        _parse_int(cpuinfo.get(key, "")) for key in ("cpu family", "model", "stepping")
    )
    if vendor == "amd":
        return _AMD.get((family, model))
    if vendor == "intel" and family == 6:
        if model == _SKYLAKE_SERVER_MODEL and stepping >= _FIRST_CASCADE_LAKE_STEPPING:
            return "Cascade Lake"
        return next((name for name, models in _INTEL_FAMILY_6.items() if model in models), None)
    return None


def thread_power(processor: Processor) -> ThreadPower:
    """Look up the processor. An unknown one gets the median and range of its vendor, or of all
    vendors.
    """
    rows = _power_table()
    for row in rows:
        if row["microarchitecture"] == processor.microarchitecture:
            return _thread_power([row], processor.microarchitecture)
    of_vendor = [row for row in rows if row["vendor"] == processor.vendor]
    return _thread_power(
        of_vendor or rows, f"median of {processor.vendor if of_vendor else 'all vendors'}"
    )


def _thread_power(rows: List[Dict[str, str]], basis: str) -> ThreadPower:
    return ThreadPower(
        idle_mw=_median([int(row["idle_mw_per_thread"]) for row in rows]),
        max_mw=_median([int(row["max_mw_per_thread"]) for row in rows]),
        low_mw=min(int(row["low_mw_per_thread"]) for row in rows),
        high_mw=max(int(row["high_mw_per_thread"]) for row in rows),
        basis=basis,
    )


def _median(values: List[int]) -> int:
    """Return the median, for an even count the mean of the middle two, rounded down. (The
    statistics module costs 1 MB.)
    """
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


@lru_cache(maxsize=1)
def _power_table() -> List[Dict[str, str]]:
    path = Path(__file__).parents[1] / "data" / "cpu_power.csv"
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def _parse_int(text: str) -> int:
    return int(text) if text.strip().isdigit() else -1
