"""One NVIDIA GPU: facts, counter and gauges as its driver reports them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from labcarbon_collect.processes.procfs import KernelFile
from labcarbon_collect.sources.nvidia.calls import GpuCalls
from labcarbon_collect.sources.nvidia.driver import (
    Driver,
    GpuLost,
    is_suspended_status,
    may_suspend,
    pci_folder,
)

# A counter that is still zero after this time does not work: even a sleeping card draws a
# millijoule.
ZERO_COUNTER_S = 0.25

Pause = Callable[[float], None]


class Gpu:
    """A physical GPU. The handle changes when the driver is reopened. Key, name and facts are those
    of discovery.
    """

    def __init__(
        self, driver: Driver, handle: Any, sys_root: str, pause: Pause = time.sleep
    ) -> None:
        self.connect(driver)
        self.handle = handle
        uuid = driver.query("nvmlDeviceGetUUID", handle)
        if uuid is None:
            raise GpuLost("the driver does not report its UUID")
        self.uuid = str(uuid)
        self.key = f"gpu:{self.uuid}"
        self.name = str(driver.query("nvmlDeviceGetName", handle) or "NVIDIA GPU")
        self.limit_mw = self._limit_mw()
        self.has_counter = self._has_counter(pause)
        self.has_power = self.power_mw() is not None
        pci = driver.query("nvmlDeviceGetPciInfo", handle)
        self.bus_id = _text(pci.busId) if pci else ""
        self.folder: Optional[Path] = pci_folder(sys_root, self.bus_id)
        self._status = (
            KernelFile(str(self.folder / "power/runtime_status")) if self.folder else None
        )

    def connect(self, driver: Driver) -> None:
        """Use this driver from now on. The handle of another one is invalid."""
        self.driver, self.calls = driver, GpuCalls(driver)

    @property
    def measurement(self) -> str:
        """nvml_counter, nvml_power, or "" if the driver reports neither energy nor power (many
        vGPUs).
        """
        return "nvml_counter" if self.has_counter else "nvml_power" if self.has_power else ""

    def is_suspended(self) -> bool:
        """Whether the kernel has suspended the GPU. A driver query would wake it."""
        return self._status is not None and is_suspended_status(
            self._status.read().decode("ascii", "replace").strip()
        )

    def facts(self) -> Dict[str, str]:
        """Return the facts that are displayed with the device and never summed."""
        facts = {
            "driver": str(self.driver.query("nvmlSystemGetDriverVersion") or ""),
            "pci": self.bus_id,
        }
        if self.limit_mw:
            facts["power_limit_w"] = str(self.limit_mw // 1000)
        if self.has_power:
            facts["power_reading"] = (
                "1 s average"
                if self.calls.average_power_mw(self.handle) is not None
                else "as the driver reports it"
            )
        persistence = self.driver.query("nvmlDeviceGetPersistenceMode", self.handle)
        if persistence is not None:
            facts["persistence_mode"] = "on" if persistence else "off"
        if self.folder is not None and may_suspend(self.folder):
            facts["runtime_power_management"] = "on"
        minor = self.driver.query("nvmlDeviceGetMinorNumber", self.handle)
        if minor is not None:
            facts["minor"] = str(int(minor))  # of /dev/nvidia<minor>, the number in Slurm
        if "GH200" in self.name or "GB200" in self.name:
            facts["counter_covers"] = "module"  # GPU, its memory and the CPU of the module
        return facts

    def counter_mj(self) -> Optional[int]:
        """Return the driver's total energy counter in mJ, None without one."""
        return self.calls.energy_mj(self.handle)

    def power_mw(self) -> Optional[int]:
        """Return the driver's average power in mW: over one second if supported, else its short
        reading.
        """
        average_mw = self.calls.average_power_mw(self.handle)
        return self.calls.power_mw(self.handle) if average_mw is None else average_mw

    def util_pm(self) -> Optional[int]:
        """Return the share of the last period with a running kernel in per mille, None under MIG
        and on some vGPUs.
        """
        percent = self.calls.gpu_percent(self.handle)
        return None if percent is None else min(percent, 100) * 10

    def memory_mib(self) -> Optional[int]:
        """Return the memory in use in MiB, without the driver's reserve if it is reported
        separately.
        """
        used_bytes = self.calls.used_bytes(self.handle)
        return None if used_bytes is None else used_bytes >> 20

    def _limit_mw(self) -> int:
        """Return the higher of default and enforced power limit in mW, 0 if unknown."""
        limits = (
            self.driver.query("nvmlDeviceGetPowerManagementDefaultLimit", self.handle),
            self.driver.query("nvmlDeviceGetEnforcedPowerLimit", self.handle),
        )
        return max(int(limit or 0) for limit in limits)

    def _has_counter(self, pause: Pause) -> bool:
        """Whether the energy counter works. Some vGPU hosts report a constant 0, which is not zero
        energy.
        """
        energy_mj = self.counter_mj()
        if energy_mj == 0:
            pause(ZERO_COUNTER_S)
            energy_mj = self.counter_mj()
        return bool(energy_mj)


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
