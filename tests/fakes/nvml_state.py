"""Layout of the simulated driver's state (tests/fakes/nvml/state.h) in ctypes, and capabilities of
GPU generations.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

MAGIC = 0x4C434E56
MAX_GPUS, MAX_PROCESSES, MAX_INSTANCES = 8, 16, 7

CAN_COUNTER, CAN_POWER, CAN_FIELD_INSTANT, CAN_FIELD_AVERAGE = 1, 2, 4, 8
CAN_PROCESS_USE, CAN_MIG, ROOT_FOR_PROCESS_USE, CAN_PROCESS_LIST, ZERO_COUNTER = (
    16,
    32,
    64,
    128,
    256,
)


class ProcessState(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint32),
        ("sm_util_percent", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint64),
        ("sampled_at_us", ctypes.c_uint64),
        ("instance", ctypes.c_int32),
        ("graphics", ctypes.c_uint32),
    ]


class InstanceState(ctypes.Structure):
    _fields_ = [
        ("uuid", ctypes.c_char * 64),
        ("memory_bytes", ctypes.c_uint64),
        ("gpu_instance_id", ctypes.c_uint32),
        ("slices", ctypes.c_uint32),
        ("present", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    ]


class GpuState(ctypes.Structure):
    _fields_ = [
        ("uuid", ctypes.c_char * 64),
        ("name", ctypes.c_char * 64),
        ("bus_id", ctypes.c_char * 32),
        ("counter_uj", ctypes.c_uint64),
        ("anchor_us", ctypes.c_uint64),
        ("memory_total_bytes", ctypes.c_uint64),
        ("memory_used_bytes", ctypes.c_uint64),
        ("power_mw", ctypes.c_uint32),
        ("power_limit_mw", ctypes.c_uint32),
        ("util_percent", ctypes.c_uint32),
        ("capabilities", ctypes.c_uint32),
        ("lost", ctypes.c_uint32),
        ("persistence", ctypes.c_uint32),
        ("mig_enabled", ctypes.c_uint32),
        ("process_count", ctypes.c_uint32),
        ("processes", ProcessState * MAX_PROCESSES),
        ("instances", InstanceState * MAX_INSTANCES),
        ("calls", ctypes.c_uint64),
    ]


class DriverState(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_uint32),
        ("sequence", ctypes.c_uint32),
        ("gpu_count", ctypes.c_uint32),
        ("generation", ctypes.c_uint32),
        ("init_error", ctypes.c_uint32),
        ("live", ctypes.c_uint32),
        ("privilege", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("driver_version", ctypes.c_char * 64),
        ("gpus", GpuState * MAX_GPUS),
    ]


@dataclass(frozen=True)
class Profile:
    """One kind of GPU as its driver reports it. Power in mW, memory in MiB."""

    name: str
    capabilities: int
    power_limit_mw: int
    idle_mw: int
    memory_mib: int


_LISTS = CAN_POWER | CAN_PROCESS_LIST | CAN_PROCESS_USE
PROFILES = {
    "hopper": Profile(
        "NVIDIA H100 80GB HBM3",
        _LISTS | CAN_COUNTER | CAN_FIELD_INSTANT | CAN_FIELD_AVERAGE | CAN_MIG,
        700_000,
        70_000,
        81_559,
    ),
    # GA100 has no one-second average: field 185 is refused.
    "ampere": Profile(
        "NVIDIA A100-SXM4-80GB",
        _LISTS | CAN_COUNTER | CAN_FIELD_INSTANT | CAN_MIG,
        400_000,
        55_000,
        81_920,
    ),
    "volta": Profile(
        "Tesla V100-SXM2-16GB", _LISTS | CAN_COUNTER | CAN_FIELD_INSTANT, 300_000, 40_000, 16_384
    ),
    "pascal": Profile(
        "NVIDIA GeForce GTX 1080 Ti", _LISTS | CAN_FIELD_INSTANT, 250_000, 12_000, 11_264
    ),
    "vgpu": Profile("GRID A100-10C", CAN_PROCESS_LIST, 0, 0, 10_240),
    # Some vGPU hosts report a successful counter of zero beside a valid power.
    "vgpu_zero": Profile("NVIDIA A40-24Q", _LISTS | ZERO_COUNTER, 300_000, 30_000, 24_576),
    "guarded": Profile(
        "NVIDIA L40S",
        _LISTS | CAN_COUNTER | CAN_FIELD_INSTANT | CAN_FIELD_AVERAGE | ROOT_FOR_PROCESS_USE,
        350_000,
        35_000,
        46_068,
    ),
}
