"""One NVIDIA GPU: facts, counter and gauges as its driver reports them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from labcarbon_collect.sources.nvidia.driver import (
    Driver,
    GpuLost,
    is_suspended,
    may_suspend,
    pci_folder,
)

# Field of nvmlDeviceGetFieldValues: a one-second average (Ampere other than GA100, and newer).
POWER_AVERAGE = 185
MEMORY_V2 = 0x02000028  # version of the memory struct that separates used from reserved memory
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
        self.driver = driver
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

    @property
    def measurement(self) -> str:
        """nvml_counter, nvml_power, or "" if the driver reports neither energy nor power (many
        vGPUs).
        """
        return "nvml_counter" if self.has_counter else "nvml_power" if self.has_power else ""

    def is_suspended(self) -> bool:
        """Whether the kernel has suspended the GPU. A driver query would wake it."""
        return self.folder is not None and is_suspended(self.folder)

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
                if self._field_mw(POWER_AVERAGE) is not None
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
        energy_mj = self.driver.query("nvmlDeviceGetTotalEnergyConsumption", self.handle)
        return None if energy_mj is None else int(energy_mj)

    def power_mw(self) -> Optional[int]:
        """Return the driver's average power in mW: over one second if supported, else its short
        reading.
        """
        average_mw = self._field_mw(POWER_AVERAGE)
        if average_mw is not None:
            return average_mw
        power_mw = self.driver.query("nvmlDeviceGetPowerUsage", self.handle)
        return None if power_mw is None else int(power_mw)

    def util_pm(self) -> Optional[int]:
        """Return the share of the last period with a running kernel in per mille, None under MIG
        and on some vGPUs.
        """
        rates = self.driver.query("nvmlDeviceGetUtilizationRates", self.handle)
        return None if rates is None else min(int(rates.gpu), 100) * 10

    def memory_mib(self) -> Optional[int]:
        """Return the memory in use in MiB, without the driver's reserve if it is reported
        separately.
        """
        memory = self.driver.query("nvmlDeviceGetMemoryInfo", self.handle, MEMORY_V2)
        if memory is None:
            memory = self.driver.query("nvmlDeviceGetMemoryInfo", self.handle)
        return None if memory is None else int(memory.used) >> 20

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

    def _field_mw(self, field: int) -> Optional[int]:
        values = self.driver.query("nvmlDeviceGetFieldValues", self.handle, [field])
        if values is None or values[0].nvmlReturn != 0:
            return None
        return int(values[0].value.uiVal)


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
