"""Who is on a GPU: process lists, per-process SM use, MIG instances. Unknown (None) and nobody (()) are kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from labcarbon_collect.sources.base import ProcessUse
from labcarbon_collect.sources.nvidia.driver import Driver

# An empty list on a GPU that works is a list we cannot see into (another PID namespace), not an idle GPU.
BUSY_PM = 100
COMPUTE, GRAPHICS = "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"


@dataclass(frozen=True)
class Instance:
    """One MIG instance of a GPU."""

    uuid: str
    slices: int  # of the GPU's compute slices; 0: not told
    handle: Any


def mig_enabled(driver: Driver, handle: Any) -> bool:
    """Whether the GPU is cut into MIG instances now."""
    modes = driver.ask("nvmlDeviceGetMigMode", handle)
    return bool(modes and modes[0])


def mig_instances(driver: Driver, handle: Any) -> List[Instance]:
    """The GPU's MIG instances; they may change while we look, so they are listed afresh each time."""
    instances = []
    for index in range(int(driver.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)):
        part = driver.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if part is None:
            continue
        attributes = driver.ask("nvmlDeviceGetAttributes_v2", part)
        slices = int(attributes.gpuInstanceSliceCount) if attributes else 0
        instances.append(Instance(str(driver.ask("nvmlDeviceGetUUID", part)), slices, part))
    return instances


class ProcessLister:
    """Looks at one GPU's processes and remembers which utilisation samples it has seen."""

    def __init__(self) -> None:
        self.latest: Optional[Tuple[ProcessUse, ...]] = None
        self._seen_us = 0
        self._empty_but_busy = False

    def look(self, driver: Driver, handle: Any, util_pm: Optional[int]) -> Optional[Tuple[ProcessUse, ...]]:
        """The processes on the GPU; None where the driver or another PID namespace hides them."""
        if mig_enabled(driver, handle):
            self.latest = _by_instance(driver, mig_instances(driver, handle))
            return self.latest
        memory_mib = _listed(driver, handle)
        if memory_mib is None:
            self.latest = None
        elif not memory_mib:
            self.latest = self._nobody(util_pm)
        else:
            sm_util_pm = self._sm_util_pm(driver, handle)
            self.latest = tuple(
                ProcessUse(pid, sm_util_pm.get(pid, 0) if sm_util_pm else None, memory)
                for pid, memory in sorted(memory_mib.items())
            )
        return self.latest

    def _nobody(self, util_pm: Optional[int]) -> Optional[Tuple[ProcessUse, ...]]:
        busy, before = (util_pm or 0) >= BUSY_PM, self._empty_but_busy
        self._empty_but_busy = busy
        return None if busy and before else ()

    def _sm_util_pm(self, driver: Driver, handle: Any) -> Dict[int, int]:
        """Mean SM use by pid since the last look, per mille; {}: the driver does not say (or has no sample yet)."""
        samples = driver.ask("nvmlDeviceGetProcessUtilization", handle, self._seen_us) or []
        by_pid: Dict[int, List[int]] = {}
        for sample in samples:
            self._seen_us = max(self._seen_us, int(sample.timeStamp))
            if sample.pid and sample.smUtil <= 100:  # some drivers leave slots of the array unwritten
                by_pid.setdefault(int(sample.pid), []).append(int(sample.smUtil))
        return {pid: sum(values) * 10 // len(values) for pid, values in by_pid.items()}


def _by_instance(driver: Driver, instances: List[Instance]) -> Optional[Tuple[ProcessUse, ...]]:
    """Every instance's own list together: the parent's needs privileges, the instances' do not.

    The driver tells no use per instance, so a process carries its part of the slices that have processes at all.
    """
    lists = [(instance.slices, _listed(driver, instance.handle)) for instance in instances]
    if any(listed is None for _, listed in lists):
        return None
    slices_in_use = sum(slices for slices, listed in lists if listed)
    together = [
        ProcessUse(pid, None, memory, slices * 1000 // (slices_in_use * len(listed)) if slices_in_use else None)
        for slices, listed in lists
        if listed
        for pid, memory in listed.items()
    ]
    return tuple(sorted(together, key=lambda use: use.pid))


def _listed(driver: Driver, handle: Any) -> Optional[Dict[int, Optional[int]]]:
    """pid → memory in MiB (None: not told) of compute and graphics processes; None: refused."""
    compute = _versions(driver, COMPUTE, handle)
    graphics = _versions(driver, GRAPHICS, handle)
    if compute is None:
        return None
    found: Dict[int, Optional[int]] = {}
    for process in [*compute, *(graphics or [])]:
        used = process.usedGpuMemory
        found[int(process.pid)] = None if used is None else int(used) >> 20
    return found


def _versions(driver: Driver, name: str, handle: Any) -> Optional[List[Any]]:
    """The list by the binding's newest call, else by ``_v2``, which is what drivers before 510 have."""
    processes = driver.ask(name, handle)
    if processes is None:
        processes = driver.ask(f"{name}_v2", handle)
    return processes  # type: ignore[no-any-return]
