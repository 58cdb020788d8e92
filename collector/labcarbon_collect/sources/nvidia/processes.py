"""Processes on a GPU: process lists, SM use per process, MIG instances. None is unknown, () is no
process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from labcarbon_collect.sources.base import ProcessUse
from labcarbon_collect.sources.nvidia.driver import Driver

# An empty list on a busy GPU is hidden by another PID namespace. The GPU is not idle.
BUSY_PM = 100
COMPUTE, GRAPHICS = "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"


@dataclass(frozen=True)
class Instance:
    """One MIG instance of a GPU."""

    uuid: str
    slices: int  # of the GPU's compute slices; 0: unknown
    handle: Any


def mig_enabled(driver: Driver, handle: Any) -> bool:
    """Whether the GPU is divided into MIG instances now."""
    modes = driver.query("nvmlDeviceGetMigMode", handle)
    return bool(modes and modes[0])


def mig_instances(driver: Driver, handle: Any) -> List[Instance]:
    """Return the MIG instances of the GPU. They may change at any time, so they are queried on each
    call.
    """
    instances = []
    for index in range(int(driver.query("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)):
        instance_handle = driver.query("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if instance_handle is None:
            continue
        attributes = driver.query("nvmlDeviceGetAttributes_v2", instance_handle)
        slices = int(attributes.gpuInstanceSliceCount) if attributes else 0
        instances.append(
            Instance(
                str(driver.query("nvmlDeviceGetUUID", instance_handle)), slices, instance_handle
            )
        )
    return instances


class ProcessLister:
    """Lists the processes of one GPU and stores the time of the last utilisation sample."""

    def __init__(self) -> None:
        self.latest: Optional[Tuple[ProcessUse, ...]] = None
        self._sampled_until_us = 0
        self._was_empty_but_busy = False

    def update(
        self, driver: Driver, handle: Any, util_pm: Optional[int]
    ) -> Optional[Tuple[ProcessUse, ...]]:
        """Return the processes on the GPU, None if the driver or another PID namespace hides
        them.
        """
        if mig_enabled(driver, handle):
            self.latest = _uses_by_instance(driver, mig_instances(driver, handle))
            return self.latest
        memory_mib = _memory_by_pid(driver, handle)
        if memory_mib is None:
            self.latest = None
        elif not memory_mib:
            self.latest = self._empty_list(util_pm)
        else:
            sm_util_pm = self._sm_util_pm(driver, handle)
            self.latest = tuple(
                ProcessUse(pid, sm_util_pm.get(pid, 0) if sm_util_pm else None, memory)
                for pid, memory in sorted(memory_mib.items())
            )
        return self.latest

    def _empty_list(self, util_pm: Optional[int]) -> Optional[Tuple[ProcessUse, ...]]:
        is_busy, was_busy = (util_pm or 0) >= BUSY_PM, self._was_empty_but_busy
        self._was_empty_but_busy = is_busy
        return None if is_busy and was_busy else ()

    def _sm_util_pm(self, driver: Driver, handle: Any) -> Dict[int, int]:
        """Return the mean SM use by pid since the last call in per mille, {} without data from the
        driver.
        """
        samples = (
            driver.query("nvmlDeviceGetProcessUtilization", handle, self._sampled_until_us) or []
        )
        by_pid: Dict[int, List[int]] = {}
        for sample in samples:
            self._sampled_until_us = max(self._sampled_until_us, int(sample.timeStamp))
            if (
                sample.pid and sample.smUtil <= 100
            ):  # some drivers leave array entries uninitialised
                by_pid.setdefault(int(sample.pid), []).append(int(sample.smUtil))
        return {pid: sum(values) * 10 // len(values) for pid, values in by_pid.items()}


def _uses_by_instance(
    driver: Driver, instances: List[Instance]
) -> Optional[Tuple[ProcessUse, ...]]:
    """Return the processes of all instances. The parent's list needs privileges, those of the
    instances do not.

    The driver reports no use per instance, so a process gets its share of the slices that have
    processes.
    """
    instance_memory = [
        (instance.slices, _memory_by_pid(driver, instance.handle)) for instance in instances
    ]
    if any(memory_by_pid is None for _, memory_by_pid in instance_memory):
        return None
    slices_in_use = sum(slices for slices, memory_by_pid in instance_memory if memory_by_pid)
    uses = [
        ProcessUse(
            pid,
            None,
            memory,
            slices * 1000 // (slices_in_use * len(memory_by_pid)) if slices_in_use else None,
        )
        for slices, memory_by_pid in instance_memory
        if memory_by_pid
        for pid, memory in memory_by_pid.items()
    ]
    return tuple(sorted(uses, key=lambda use: use.pid))


def _memory_by_pid(driver: Driver, handle: Any) -> Optional[Dict[int, Optional[int]]]:
    """Return the memory in MiB (None: not reported) of compute and graphics processes by pid, None
    if refused.
    """
    compute = _query_versions(driver, COMPUTE, handle)
    graphics = _query_versions(driver, GRAPHICS, handle)
    if compute is None:
        return None
    memory_by_pid: Dict[int, Optional[int]] = {}
    for process in [*compute, *(graphics or [])]:
        used = process.usedGpuMemory
        memory_by_pid[int(process.pid)] = None if used is None else int(used) >> 20
    return memory_by_pid


def _query_versions(driver: Driver, name: str, handle: Any) -> Optional[List[Any]]:
    """Query the list by the binding's newest call, then by ``_v2``, the version of drivers before
    510.
    """
    processes = driver.query(name, handle)
    if processes is None:
        processes = driver.query(f"{name}_v2", handle)
    return processes  # type: ignore[no-any-return]
