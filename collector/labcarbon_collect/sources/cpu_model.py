"""Modelled energy of a processor without a counter: time × idle power + busy time × dynamic power,
per hardware thread.

The model is linear in time and busy time. The kernel stores both since boot, so the counter is a
function of /proc/stat and the uptime, and a restart of the collector loses nothing. The few threads
of a guest get their own watts, never the TDP of a whole socket. Quality: MODELLED.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.processes.cpu_time import BusyTime, parse_busy_us
from labcarbon_collect.sources.base import (
    DeviceInfo,
    Gap,
    Reading,
    SourceAbsent,
    SourceFailed,
    register,
)
from labcarbon_collect.sources.cpu_power import Processor, ThreadPower, identify, thread_power

MEASUREMENT = "cpu_model"
NANOJOULE_PER_MJ = 1_000_000  # milliwatt × microsecond = nanojoule


@dataclass
class _Package:
    key: str
    cpus: Tuple[int, ...]
    power: ThreadPower
    epoch: str
    busy_us: int = 0
    monotonic_us: int = 0


def awake_us() -> int:
    """Return the microseconds since boot without suspended time. A sleeping machine draws almost
    nothing.
    """
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


class CpuModel:
    """The modelled packages of this machine."""

    name = "cpu_model"

    def __init__(
        self, node: str, *, proc: Path = Path("/proc"), awake: Callable[[], int] = awake_us
    ) -> None:
        self._node = node
        self._proc = proc
        self._busy = BusyTime(str(proc))
        self._awake = awake
        self._packages: List[_Package] = []
        # Clock and text of the last poll without process lists.
        self._previous: Optional[Tuple[Clock, bytes]] = None

    def open(self) -> Sequence[DeviceInfo]:
        """Discover the packages in /proc/cpuinfo. Raises SourceAbsent without /proc/stat, which
        separates use from idle.
        """
        blocks = self._cpuinfo()
        if not blocks or not self._busy.by_cpu():
            raise SourceAbsent(f"{self._proc}/stat or {self._proc}/cpuinfo lists no processor")
        boot = self._read("sys/kernel/random/boot_id").strip() or "no-boot-id"
        by_package: Dict[str, List[Mapping[str, str]]] = {}
        for block in blocks:
            by_package.setdefault(block.get("physical id", "0"), []).append(block)
        infos = []
        self._packages, self._previous = [], None
        for package, members in sorted(by_package.items()):
            processor = identify(members[0])
            measured_package = self._package(package, members, thread_power(processor), boot)
            self._packages.append(measured_package)
            infos.append(_info(measured_package, processor))
        return infos

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        """Read /proc/stat one time. Return readings only with the process lists, because the energy
        is divided by the CPU time of processes. Utilisation is that since the previous poll.

        Raises SourceFailed if it cannot be read or a processor went offline.
        """
        clock, awake, text = now(), self._awake(), self._busy.text()
        if not with_processes:
            self._previous = clock, text
            return ()
        if self._previous is not None:
            previous, previous_text = self._previous
            self._previous = None
            for package, busy_us in self._busy_packages(previous_text):
                package.busy_us = max(busy_us, package.busy_us)
                package.monotonic_us = previous.monotonic_us
        return [
            self._reading(package, clock, awake, busy_us)
            for package, busy_us in self._busy_packages(text)
        ]

    def _busy_packages(self, text: bytes) -> List[Tuple[_Package, int]]:
        """Return each package with its work since boot. Raises SourceFailed."""
        busy = parse_busy_us(text)
        if any(cpu not in busy for package in self._packages for cpu in package.cpus):
            raise SourceFailed("a processor of this machine went offline since the start")
        return [(package, sum(busy[cpu] for cpu in package.cpus)) for package in self._packages]

    def gaps(self) -> Sequence[Gap]:
        """Return no gaps: the kernel's counters restart only at boot, which the epoch contains."""
        return ()

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _package(
        self, package: str, members: List[Mapping[str, str]], power: ThreadPower, boot: str
    ) -> _Package:
        cpus = tuple(int(block["processor"]) for block in members)
        # The epoch contains the model's parameters, because another table is another counter.
        epoch = f"{MEASUREMENT}:{boot}:{len(cpus)}x{power.idle_mw}-{power.max_mw}"
        return _Package(f"cpu:{self._node}/{package}", cpus, power, epoch)

    def _reading(self, package: _Package, clock: Clock, awake: int, busy_us: int) -> Reading:
        power = package.power
        busy_us = max(busy_us, package.busy_us)  # the kernel's counters may step back by a tick
        energy_nj = (
            power.idle_mw * len(package.cpus) * awake + (power.max_mw - power.idle_mw) * busy_us
        )
        elapsed_us = (clock.monotonic_us - package.monotonic_us) * len(package.cpus)
        util_pm = None
        if package.monotonic_us and elapsed_us > 0:
            util_pm = min(1000, (busy_us - package.busy_us) * 1000 // elapsed_us)
        package.busy_us, package.monotonic_us = busy_us, clock.monotonic_us
        return Reading(
            device=package.key,
            monotonic_us=clock.monotonic_us,
            wall_us=clock.wall_us,
            counter_mj=energy_nj // NANOJOULE_PER_MJ,
            epoch=package.epoch,
            measurement=MEASUREMENT,
            util_pm=util_pm,
        )

    def _cpuinfo(self) -> List[Dict[str, str]]:
        blocks = []
        for text in self._read("cpuinfo").split("\n\n"):
            pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
            block = {key.strip(): value.strip() for key, _, value in pairs}
            if "processor" in block:
                blocks.append(block)
        return blocks

    def _read(self, name: str) -> str:
        try:
            return (self._proc / name).read_text(errors="replace")
        except OSError:
            return ""


def _info(package: _Package, processor: Processor) -> DeviceInfo:
    power = package.power
    facts = {
        "threads": str(len(package.cpus)),
        "microarchitecture": processor.microarchitecture or "unknown",
        "model_basis": power.basis,
        "idle_mw": str(power.idle_mw * len(package.cpus)),
        "max_mw": str(power.max_mw * len(package.cpus)),
        "low_mw": str(power.low_mw * len(package.cpus)),
        "high_mw": str(power.high_mw * len(package.cpus)),
        "virtual_machine": "yes: host share unknown" if processor.hypervisor else "no",
    }
    return DeviceInfo(package.key, processor.model_name, MEASUREMENT, facts)


def modelled_idle_mw(node: str) -> Dict[str, int]:
    """Return the modelled idle power by package key. It separates idle from use where a counter
    measures the package.
    """
    try:
        return {info.key: int(info.facts["idle_mw"]) for info in CpuModel(node).open()}
    except SourceAbsent:
        return {}


def _create(node: str, environ: Mapping[str, str]) -> CpuModel:
    return CpuModel(node)


register("cpu_model", _create)
