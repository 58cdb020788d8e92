"""One NVIDIA GPU as its driver presents it: what it is, what it can tell, and its gauges."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from labcarbon_collect.sources.nvidia.driver import Driver, is_suspended, may_suspend, pci_folder

# Field ids of nvmlDeviceGetFieldValues: a one-second average (Ampere other than GA100, and newer), and the last sample.
POWER_AVERAGE, POWER_INSTANT = 185, 186
MEMORY_V2 = 0x02000028  # version word of the memory struct that tells used apart from reserved
# A counter that still reads nought after this long is none: even a sleeping card draws a millijoule in that time.
ZERO_COUNTER_S = 0.25

Pause = Callable[[float], None]


class Gpu:
    """A physical GPU. The handle changes when the driver is reopened; key, name and facts are of discovery."""

    def __init__(self, driver: Driver, handle: Any, sys_root: str, pause: Pause = time.sleep) -> None:
        self.driver = driver
        self.handle = handle
        self.uuid = str(driver.query("nvmlDeviceGetUUID", handle))
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
        """nvml_counter, nvml_power, or "" where the driver tells neither energy nor power (many vGPUs)."""
        return "nvml_counter" if self.has_counter else "nvml_power" if self.has_power else ""

    def is_suspended(self) -> bool:
        """Asleep by the kernel's word; asking the driver would wake it."""
        return self.folder is not None and is_suspended(self.folder)

    def facts(self) -> Dict[str, str]:
        """What is shown beside the device, never summed."""
        facts = {"driver": str(self.driver.query("nvmlSystemGetDriverVersion") or ""), "pci": self.bus_id}
        if self.limit_mw:
            facts["power_limit_w"] = str(self.limit_mw // 1000)
        if self.has_power:
            facts["power_reading"] = "1 s average" if self._field_mw(POWER_AVERAGE) is not None else "as the driver gives it"
        persistence = self.driver.query("nvmlDeviceGetPersistenceMode", self.handle)
        if persistence is not None:
            facts["persistence_mode"] = "on" if persistence else "off"
        if self.folder is not None and may_suspend(self.folder):
            facts["runtime_power_management"] = "on"
        minor = self.driver.query("nvmlDeviceGetMinorNumber", self.handle)
        if minor is not None:
            facts["minor"] = str(int(minor))  # of /dev/nvidia<minor>: how Slurm counts
        if "GH200" in self.name or "GB200" in self.name:
            facts["counter_covers"] = "module"  # GPU, its memory and the CPU beside it
        return facts

    def counter_mj(self) -> Optional[int]:
        """The driver's total energy counter in mJ; None where there is none."""
        energy_mj = self.driver.query("nvmlDeviceGetTotalEnergyConsumption", self.handle)
        return None if energy_mj is None else int(energy_mj)

    def power_mw(self) -> Optional[int]:
        """Power in mW as the driver averages it: over one second where it can, else its own short reading."""
        average_mw = self._field_mw(POWER_AVERAGE)
        if average_mw is not None:
            return average_mw
        power_mw = self.driver.query("nvmlDeviceGetPowerUsage", self.handle)
        return None if power_mw is None else int(power_mw)

    def instant_mw(self) -> Optional[int]:
        """The last power sample in mW: what an integral wants, since averages of averages lag."""
        power_mw = self._field_mw(POWER_INSTANT)
        return self.power_mw() if power_mw is None else power_mw

    def util_pm(self) -> Optional[int]:
        """Share of the last moment in which a kernel ran, per mille; None under MIG and on some vGPUs."""
        rates = self.driver.query("nvmlDeviceGetUtilizationRates", self.handle)
        return None if rates is None else min(int(rates.gpu), 100) * 10

    def memory_mib(self) -> Optional[int]:
        """Memory in use, MiB, without what the driver reserves where it tells the two apart."""
        memory = self.driver.query("nvmlDeviceGetMemoryInfo", self.handle, MEMORY_V2)
        if memory is None:
            memory = self.driver.query("nvmlDeviceGetMemoryInfo", self.handle)
        return None if memory is None else int(memory.used) >> 20

    def _limit_mw(self) -> int:
        """The higher of default and enforced power limit in mW; 0: not told."""
        limits = (
            self.driver.query("nvmlDeviceGetPowerManagementDefaultLimit", self.handle),
            self.driver.query("nvmlDeviceGetEnforcedPowerLimit", self.handle),
        )
        return max(int(limit or 0) for limit in limits)

    def _has_counter(self, pause: Pause) -> bool:
        """Whether the energy counter counts: some vGPU hosts answer a steady 0, which must not read as no energy."""
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
