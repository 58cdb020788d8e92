"""CPU packages and memory by RAPL (powercap). The µJ counters wrap within minutes and are
unwrapped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from labcarbon_collect.clock import Clock
from labcarbon_collect.node_identity import boot_id
from labcarbon_collect.sources.base import (
    DeviceInfo,
    Gap,
    Reading,
    SourceAbsent,
    SourceFailed,
    StoredReading,
    register,
)
from labcarbon_collect.sources.epochs import max_energy_mj
from labcarbon_collect.sources.powercap import (
    PERMISSION_FIX,
    ROOT,
    Domain,
    drop_mirrors,
    find_domains,
    is_modelled,
    processor_facts,
)


@dataclass
class _MeteredPart:
    """A metered part (a package or its memory): the sum of the domains of its dies."""

    key: str
    name: str
    domains: List[Domain]
    raw_uj: List[int] = field(default_factory=list)
    total_uj: int = 0
    epoch: str = ""
    clock: Optional[Clock] = None

    @property
    def limit_mw(self) -> int:
        return sum(domain.limit_mw for domain in self.domains)

    @property
    def min_wrap_us(self) -> int:
        """The shortest time in which a domain can wrap, at one and a half times its power limit."""
        return min(domain.range_uj * 2_000 // (domain.limit_mw * 3) for domain in self.domains)

    def read_uj(self) -> Optional[List[int]]:
        """Return all raw counters, None if one of them cannot be read."""
        raw_uj = [raw for raw in (domain.read_uj() for domain in self.domains) if raw is not None]
        return raw_uj if len(raw_uj) == len(self.domains) else None

    def delta_uj(self, raw_uj: List[int]) -> int:
        """Return the sum of the counter differences since the last reading, with at most one wrap
        each.
        """
        return sum(
            (now - then) % domain.range_uj
            for domain, then, now in zip(self.domains, self.raw_uj, raw_uj)
        )


class RaplSource:
    """RAPL of this machine. ``LABCARBON_POWERCAP`` sets another tree than the kernel's."""

    name = "rapl"

    def __init__(
        self,
        node: str,
        env: Mapping[str, str],
        *,
        boot: str = "",
        pause: Callable[[float], None] = time.sleep,
        cpuinfo: str = "/proc/cpuinfo",
    ) -> None:
        self.notes: List[str] = []  # excluded domains with reasons
        self._node, self._pause, self._cpuinfo = node, pause, cpuinfo
        self._root = env.get("LABCARBON_POWERCAP") or ROOT
        self._boot = boot or boot_id()
        self._processor: Mapping[str, str] = {}
        self._measurement = "rapl"
        self._parts: List[_MeteredPart] = []
        self._gaps: List[Gap] = []
        self._resumed: Dict[str, StoredReading] = {}

    def resume(self, last: Mapping[str, StoredReading]) -> None:
        """Store the readings from before a restart of the collector. A short interruption continues
        the epoch.
        """
        self._resumed = {
            key: reading for key, reading in last.items() if reading.boot == self._boot
        }

    def open(self) -> Sequence[DeviceInfo]:
        """Discover the domains. Raises SourceAbsent with the rule that grants the permission."""
        domains = find_domains(self._root)
        if not domains:
            raise SourceAbsent(
                (
                    f"no RAPL domain under {self._root}: a virtual machine, an older CPU, or the "
                    "module is not loaded"
                ),
                "on real hardware: modprobe intel_rapl_msr (Intel and AMD)",
            )
        metered = [domain for domain in domains if domain.kind != "psys"]
        if metered and all(domain.read_uj() is None for domain in metered):
            raise SourceAbsent(f"no permission to read {self._root}/*/energy_uj", PERMISSION_FIX)
        self._processor = processor_facts(self._cpuinfo)
        self._measurement = "rapl_model" if is_modelled(self._processor) else "rapl"
        unique, self.notes = drop_mirrors(metered, self._pause)
        self._parts = self._usable_parts(unique)
        if not self._parts:
            raise SourceAbsent("no usable RAPL domain: " + "; ".join(self.notes), PERMISSION_FIX)
        facts = self._facts(domains)
        return [DeviceInfo(part.key, part.name, self._measurement, facts) for part in self._parts]

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        """Read all parts. Raises SourceFailed if none can be read."""
        readings = [reading for part in self._parts for reading in self._read(part, now)]
        if not readings:
            raise SourceFailed(f"{self._root}/*/energy_uj is no longer readable")
        return readings

    def gaps(self) -> Sequence[Gap]:
        """Return the gaps since the last call and clear them."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _usable_parts(self, domains: List[Domain]) -> List[_MeteredPart]:
        """Return the parts whose domains can all be read and unwrapped. Half a package would look
        like an efficient whole one.
        """
        parts: Dict[str, _MeteredPart] = {}
        for domain in domains:
            key = f"{domain.kind}:{self._node}/{domain.package}"
            cpu_name = self._processor.get("model name", "CPU")
            name = cpu_name if domain.kind == "cpu" else f"memory of package {domain.package}"
            parts.setdefault(key, _MeteredPart(key, name, [])).domains.append(domain)
        usable = []
        for part in parts.values():
            reasons = [
                reason for reason in (_unusable_reason(domain) for domain in part.domains) if reason
            ]
            self.notes += [f"{part.key} is left out: {reason}" for reason in reasons]
            if not reasons:
                usable.append(part)
        return usable

    def _read(self, part: _MeteredPart, now: Callable[[], Clock]) -> List[Reading]:
        raw_uj = part.read_uj()
        clock = now()
        if raw_uj is None:
            return []
        before, power_mw = part.clock, None
        if before is None:
            self._start(part, raw_uj, clock)
        else:
            gap_us = clock.monotonic_us - before.monotonic_us
            delta_uj = part.delta_uj(raw_uj)
            if self._is_plausible(part, delta_uj, gap_us):
                part.total_uj += delta_uj
                power_mw = delta_uj * 1000 // gap_us if gap_us > 0 else None
            else:
                self._restart(part, raw_uj, before, clock)
        part.raw_uj, part.clock = raw_uj, clock
        return [
            Reading(
                device=part.key,
                monotonic_us=clock.monotonic_us,
                wall_us=clock.wall_us,
                counter_mj=part.total_uj // 1000,
                epoch=part.epoch,
                measurement=self._measurement,
                power_mw=power_mw,
            )
        ]

    @staticmethod
    def _is_plausible(part: _MeteredPart, delta_uj: int, gap_us: int) -> bool:
        """Whether the difference is the energy used: no wrap can be missed, and no part draws more
        than its maximum.
        """
        return gap_us < part.min_wrap_us and delta_uj <= max_energy_mj(gap_us, part.limit_mw) * 1000

    def _restart(self, part: _MeteredPart, raw_uj: List[int], before: Clock, clock: Clock) -> None:
        is_long = clock.monotonic_us - before.monotonic_us >= part.min_wrap_us
        self._gaps.append(
            Gap(part.key, part.epoch, before.wall_us, clock.wall_us, "wrap" if is_long else "lost")
        )
        part.epoch, part.total_uj = self._new_epoch(clock), sum(raw_uj)

    def _start(self, part: _MeteredPart, raw_uj: List[int], clock: Clock) -> None:
        """Take the first reading since the start. The epoch continues if the stored reading is
        recent enough.

        The total is congruent to the raw counter modulo its range. The µJ that the stored mJ omit
        are therefore recovered, and differences are exact over the restart.
        """
        part.epoch, part.total_uj = self._new_epoch(clock), sum(raw_uj)
        last = self._resumed.get(part.key)
        if last is None or len(part.domains) > 1 or not last.epoch.startswith(self._load + "."):
            return
        stored_uj = last.counter_mj * 1000
        delta_uj = (raw_uj[0] - stored_uj) % part.domains[0].range_uj
        if self._is_plausible(part, delta_uj, clock.monotonic_us - last.mono_us):
            part.epoch, part.total_uj = last.epoch, stored_uj + delta_uj

    @property
    def _load(self) -> str:
        return f"{self._boot[:13]}.rapl"

    def _new_epoch(self, clock: Clock) -> str:
        return f"{self._load}.{clock.monotonic_us:x}"

    def _facts(self, domains: List[Domain]) -> Dict[str, str]:
        facts = {"left_out": "; ".join(self.notes)} if self.notes else {}
        if any(domain.kind == "psys" for domain in domains):
            facts["psys"] = "present: a meter that includes the package, not summed"
        return facts


def _unusable_reason(domain: Domain) -> str:
    """Return why a domain cannot be used, "" if it can."""
    if not domain.range_uj:
        return (
            f"{domain.folder}/max_energy_range_uj cannot be read, so a wrap cannot be "
            "distinguished from a restart"
        )
    if domain.read_uj() is None:
        return f"no permission to read {domain.folder}/energy_uj"
    return ""


register("rapl", RaplSource)
