"""RAPL domains in the kernel's powercap tree: discovery, duplicates and readings.

``package-N`` and ``dram`` are metered parts. ``core`` and ``uncore`` are included in the package,
``psys`` includes it: adding them would count energy twice. A package with several dies has a domain
per die. A register that is visible through two of them, or through two drivers (intel-rapl and
intel-rapl-mmio), is detected and counted one time.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Tuple

ROOT = "/sys/class/powercap"
PERMISSION_FIX = (
    "echo 'm /sys/class/powercap/*/energy_uj 0440 root labcarbon' > "
    "/etc/tmpfiles.d/labcarbon.conf && "
    "systemd-tmpfiles --create /etc/tmpfiles.d/labcarbon.conf"
)
# For a domain without a power limit: above the power of any socket.
DEFAULT_LIMIT_MW = 500_000
# Number and interval of comparisons of two domains. The registers are refreshed every millisecond.
MIRROR_SAMPLES, MIRROR_INTERVAL_S = 3, 0.02

_ZONE = re.compile(r"^([a-z-]+):(\d+)(?::(\d+))?$")
_PACKAGE = re.compile(r"^package-(\d+)(-die-\d+)?$")


@dataclass(frozen=True)
class Domain:
    """One counter of the tree."""

    folder: Path
    kind: str  # cpu, dram, psys
    package: str  # number of the socket; "" for psys
    label: str  # the kernel's name with its package; equal labels of two drivers are one domain
    range_uj: int  # the counter wraps at this value; 0: not readable
    limit_mw: int

    def read_uj(self) -> Optional[int]:
        """Return the raw counter in µJ, None if it cannot be read."""
        return _read_int(self.folder / "energy_uj")


def find_domains(root: str) -> List[Domain]:
    """Return all package, dram and psys domains in the kernel's order."""
    domains = []
    for folder in sorted(Path(root).glob("*:*"), key=lambda path: path.name):
        zone = _ZONE.match(folder.name)
        name = _read_text(folder / "name")
        if zone is None or name is None:
            continue
        parent = _read_text(folder.parent / f"{zone.group(1)}:{zone.group(2)}" / "name") or ""
        domain = _domain(folder, name, parent)
        if domain is not None:
            domains.append(domain)
    return domains


def _domain(folder: Path, name: str, parent: str) -> Optional[Domain]:
    owner = _PACKAGE.match(name) or _PACKAGE.match(parent)
    kind = "cpu" if _PACKAGE.match(name) else name
    if kind not in ("cpu", "dram", "psys") or (kind == "dram" and owner is None):
        return None
    limits = [_read_int(path) or 0 for path in sorted(folder.glob("constraint_*_max_power_uw"))]
    limits.append(_read_int(folder / "constraint_0_power_limit_uw") or 0)
    return Domain(
        folder=folder,
        kind=kind,
        package=owner.group(1) if owner and kind != "psys" else "",
        label=name if kind != "dram" else f"{parent}/dram",
        range_uj=_read_int(folder / "max_energy_range_uj") or 0,
        limit_mw=max(limits) // 1000 or DEFAULT_LIMIT_MW,
    )


def drop_mirrors(
    domains: List[Domain], pause: Callable[[float], None] = time.sleep
) -> Tuple[List[Domain], List[str]]:
    """Remove domains that show the counter of another domain. Returns the others, and a note for
    each removed one.
    """
    unique: List[Domain] = []
    notes: List[str] = []
    by_label: Dict[str, Domain] = {}
    for domain in domains:
        first = by_label.setdefault(domain.label, domain)
        if first is domain:
            unique.append(domain)
        else:
            notes.append(f"{domain.folder.name} is {first.folder.name} of another driver: excluded")
    for domain in list(unique):
        earlier = [
            second for second in unique[: unique.index(domain)] if second.kind == domain.kind
        ]
        original = next((second for second in earlier if is_mirror(second, domain, pause)), None)
        if original is not None:
            unique.remove(domain)
            notes.append(
                f"{domain.folder.name} mirrors the counter of {original.folder.name}: excluded"
            )
    return unique, notes


def is_mirror(first: Domain, second: Domain, pause: Callable[[float], None] = time.sleep) -> bool:
    """Whether two domains show one counter: each reading of one is between two readings of the
    other, and it changes.
    """
    values = set()
    for sample in range(MIRROR_SAMPLES):
        if sample:
            pause(MIRROR_INTERVAL_S)
        before, between, after = first.read_uj(), second.read_uj(), first.read_uj()
        if before is None or between is None or after is None:
            return False
        wrapped = after < before
        if not (
            before <= between <= after or (wrapped and (between >= before or between <= after))
        ):
            return False
        values.add(between)
    return len(values) > 1


def processor_facts(cpuinfo: str = "/proc/cpuinfo") -> Dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo, {} if it cannot be read."""
    first = (_read_text(Path(cpuinfo)) or "").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def is_modelled(processor: Mapping[str, str]) -> bool:
    """Whether this processor's RAPL is estimated from activity instead of measured from current.

    Intel measures from Haswell on; Sandy Bridge and Ivy Bridge estimate (Hackenberg et al. 2015,
    "An energy efficiency feature survey of the Intel Haswell processor"). AMD's Zen estimates
    (Schöne et al. 2021, "Energy efficiency aspects of the AMD Zen 2 architecture").
    """
    if processor.get("vendor_id") in ("AuthenticAMD", "HygonGenuine"):
        return True
    bridges = ("42", "45", "58", "62")
    return processor.get("cpu family") == "6" and processor.get("model") in bridges


def _read_int(path: Path) -> Optional[int]:
    text = _read_text(path)
    return int(text) if text is not None and text.isdigit() else None


def _read_text(path: Path) -> Optional[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
