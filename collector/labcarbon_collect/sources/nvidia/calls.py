"""The driver calls of each poll, directly on the C library.

The binding allocates and converts at each call, which costs several times as much as the call of a
GPU that responds from memory. Here the buffers are allocated one time. A value, None and GpuLost
mean the same as in :mod:`driver`. One object per GPU, because its buffers are not shared by
threads.
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any, Callable, List, Optional, Tuple

from labcarbon_collect.sources.nvidia.driver import INSUFFICIENT_SIZE, Driver

# Field of nvmlDeviceGetFieldValues: a one-second average (Ampere other than GA100, and newer).
POWER_AVERAGE = 185
MEMORY_V2 = 0x02000028  # version of the memory struct that separates used from reserved memory
ENERGY, FIELDS, POWER = (
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetPowerUsage",
)
UTILISATION, MEMORY, MEMORY_OF_V2 = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
)
MIG_MODE, PROCESS_USE = "nvmlDeviceGetMigMode", "nvmlDeviceGetProcessUtilization"
COMPUTE, GRAPHICS = "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"
LIST_VERSIONS = ("_v3", "_v2")  # drivers before 510 have _v2 only
_NO_VALUE = (1 << 64) - 1  # the driver does not report the memory of a process
_LISTED_AT_FIRST, _LIST_ATTEMPTS = 8, 3
Function = Callable[..., int]  # of the library; returns its code


class _FieldValue(ctypes.Structure):
    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("time_us", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("value_type", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_uint),  # of a union of eight bytes
        ("value_high", ctypes.c_uint),
    ]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _ProcessUse(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("time_us", ctypes.c_ulonglong),
        ("sm_percent", ctypes.c_uint),
        ("memory_percent", ctypes.c_uint),
        ("encoder_percent", ctypes.c_uint),
        ("decoder_percent", ctypes.c_uint),
    ]


class GpuCalls:
    """The calls on one GPU or its instances, by handle."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._energy, self._power = ctypes.c_ulonglong(), ctypes.c_uint()
        self._field = _FieldValue(field=POWER_AVERAGE)
        self._rates = (ctypes.c_uint * 2)()  # GPU, memory
        self._memory_v2 = (ctypes.c_ulonglong * 5)(MEMORY_V2)  # total, reserved, free, used
        self._memory = (ctypes.c_ulonglong * 3)()  # total, free, used
        self._modes = (ctypes.c_uint * 2)()  # MIG now, after the next reset
        self._count = ctypes.c_uint()
        self._processes = (_Process * _LISTED_AT_FIRST)()
        self._energy_at, self._power_at = byref(self._energy), byref(self._power)
        self._field_at, self._rates_at = byref(self._field), byref(self._rates)
        self._memory_v2_at, self._memory_at = byref(self._memory_v2), byref(self._memory)
        self._count_at = byref(self._count)
        self._get_energy = driver.function(ENERGY)
        self._get_fields, self._get_power = driver.function(FIELDS), driver.function(POWER)
        self._get_rates = driver.function(UTILISATION)
        self._get_memory_v2 = driver.function(MEMORY_OF_V2)
        self._get_memory = driver.function(MEMORY)
        self._get_modes = driver.function(MIG_MODE)
        self._get_process_use = driver.function(PROCESS_USE)
        self._listers = {
            name: [(name + version, driver.function(name + version)) for version in LIST_VERSIONS]
            for name in (COMPUTE, GRAPHICS)
        }

    def energy_mj(self, handle: Any) -> Optional[int]:
        """Return the total energy counter."""
        code = self._get_energy(handle, self._energy_at)
        if code and not self.driver.has_value(ENERGY, code):
            return None
        return self._energy.value

    def average_power_mw(self, handle: Any) -> Optional[int]:
        """Return the average power over one second."""
        code = self._get_fields(handle, 1, self._field_at)
        if (code and not self.driver.has_value(FIELDS, code)) or self._field.code:
            return None
        return int(self._field.value)

    def power_mw(self, handle: Any) -> Optional[int]:
        """Return the driver's short power reading."""
        code = self._get_power(handle, self._power_at)
        return self._power.value if self.driver.has_value(POWER, code) else None

    def gpu_percent(self, handle: Any) -> Optional[int]:
        """Return the share of the last period with a running kernel."""
        code = self._get_rates(handle, self._rates_at)
        if code and not self.driver.has_value(UTILISATION, code):
            return None
        return self._rates[0]

    def used_bytes(self, handle: Any) -> Optional[int]:
        """Return the memory in use, without the driver's reserve if it is reported separately."""
        code = self._get_memory_v2(handle, self._memory_v2_at)
        if code == 0 or self.driver.has_value(MEMORY_OF_V2, code):
            return self._memory_v2[4]
        code = self._get_memory(handle, self._memory_at)
        return self._memory[2] if self.driver.has_value(MEMORY, code) else None

    def is_mig_enabled(self, handle: Any) -> bool:
        """Whether the GPU is divided into MIG instances now."""
        code = self._get_modes(handle, byref(self._modes), byref(self._modes, 4))
        return self.driver.has_value(MIG_MODE, code) and bool(self._modes[0])

    def processes(self, handle: Any, name: str) -> Optional[List[Tuple[int, Optional[int]]]]:
        """Return pid and memory in bytes (None: not reported) of the processes in a list (COMPUTE
        or GRAPHICS).
        """
        for version_name, function in self._listers[name]:
            code = self._list(handle, function)
            if self.driver.has_value(version_name, code):
                return [
                    (process.pid, None if process.memory == _NO_VALUE else process.memory)
                    for process in self._processes[: self._count.value]
                ]
        return None

    def _list(self, handle: Any, function: Function) -> int:
        """Fill the list of processes and return the code. The list is enlarged if it is too
        short.
        """
        code = INSUFFICIENT_SIZE
        for _ in range(_LIST_ATTEMPTS):
            self._count.value = len(self._processes)
            code = function(handle, self._count_at, self._processes)
            if code != INSUFFICIENT_SIZE:
                break
            # more than needed, because further processes may start
            self._processes = (_Process * (self._count.value * 2 + 5))()
        return code

    def process_use(self, handle: Any, since_us: int) -> List[Tuple[int, int, int]]:
        """Return pid, time and SM use in percent of the samples after ``since_us``, [] without
        data from the driver.
        """
        since = ctypes.c_ulonglong(since_us)
        self._count.value = 0
        code = self._get_process_use(handle, None, self._count_at, since)
        if code != INSUFFICIENT_SIZE:
            self.driver.has_value(PROCESS_USE, code)
            return []
        samples = (_ProcessUse * self._count.value)()
        code = self._get_process_use(handle, samples, self._count_at, since)
        if not self.driver.has_value(PROCESS_USE, code):
            return []
        return [
            (sample.pid, sample.time_us, sample.sm_percent)
            for sample in samples[: self._count.value]
        ]
