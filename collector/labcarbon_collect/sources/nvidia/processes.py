"""Processes on a GPU: process lists, SM use per process, MIG instances. None is unknown, () is no
process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from labcarbon_collect.sources.base import ProcessUse
from labcarbon_collect.sources.nvidia.calls import COMPUTE, GRAPHICS, GpuCalls
from labcarbon_collect.sources.nvidia.driver import Driver

# An empty list on a busy GPU is hidden by another PID namespace. The GPU is not idle.
BUSY_PM = 100


@dataclass(frozen=True)
class Instance:
    """One MIG instance of a GPU."""

    uuid: str
    slices: int  # of the GPU's compute slices; 0: unknown
    handle: Any


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
        self, calls: GpuCalls, handle: Any, util_pm: Optional[int]
    ) -> Optional[Tuple[ProcessUse, ...]]:
        """Return the processes on the GPU, None if the driver or another PID namespace hides
        them.
        """
        if calls.is_mig_enabled(handle):
            self.latest = _uses_by_instance(calls, mig_instances(calls.driver, handle))
            return self.latest
        memory_mib = _memory_by_pid(calls, handle)
        if memory_mib is None:
            self.latest = None
        elif not memory_mib:
            self.latest = self._empty_list(util_pm)
        else:
            sm_util_pm = self._sm_util_pm(calls, handle)
            self.latest = tuple(
                ProcessUse(pid, sm_util_pm.get(pid, 0) if sm_util_pm else None, memory)
                for pid, memory in sorted(memory_mib.items())
            )
        return self.latest

    def _empty_list(self, util_pm: Optional[int]) -> Optional[Tuple[ProcessUse, ...]]:
        is_busy, was_busy = (util_pm or 0) >= BUSY_PM, self._was_empty_but_busy
        self._was_empty_but_busy = is_busy
        return None if is_busy and was_busy else ()

    def _sm_util_pm(self, calls: GpuCalls, handle: Any) -> Dict[int, int]:
        """Return the mean SM use by pid since the last call in per mille, {} without data from the
        driver.
        """
        by_pid: Dict[int, List[int]] = {}
        for pid, time_us, percent in calls.process_use(handle, self._sampled_until_us):
            self._sampled_until_us = max(self._sampled_until_us, time_us)
            if pid and percent <= 100:  # some drivers leave array entries uninitialised
                by_pid.setdefault(pid, []).append(percent)
        return {pid: sum(values) * 10 // len(values) for pid, values in by_pid.items()}


def _uses_by_instance(
    calls: GpuCalls, instances: List[Instance]
) -> Optional[Tuple[ProcessUse, ...]]:
    """Return the processes of all instances. The parent's list needs privileges, those of the
    instances do not.

    The driver reports no use per instance, so a process gets its share of the slices that have
    processes.
    """
    instance_memory = [
        (instance.slices, _memory_by_pid(calls, instance.handle)) for instance in instances
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


def _memory_by_pid(calls: GpuCalls, handle: Any) -> Optional[Dict[int, Optional[int]]]:
    """Return the memory in MiB (None: not reported) of compute and graphics processes by pid, None
    if refused.
    """
    compute = calls.processes(handle, COMPUTE)
    graphics = calls.processes(handle, GRAPHICS)
    if compute is None:
        return None
    return {
        pid: None if used is None else used >> 20 for pid, used in [*compute, *(graphics or [])]
    }
