"""A simulated NVIDIA driver: builds the C stub with gcc and controls its GPUs.

The tests use the collector's real path through ``pynvml`` and ``libnvidia-ml.so.1``. Only the
driver below is simulated. Another process sees the same GPUs by :attr:`FakeDriver.env`, this one
inside :meth:`FakeDriver.in_process`.
"""

from __future__ import annotations

import _ctypes
import ctypes
import mmap
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.nvml_state import (
    MAGIC,
    MAX_INSTANCES,
    PROFILES,
    DriverState,
    GpuState,
    InstanceState,
    ProcessState,
)

SOURCE = Path(__file__).parent / "nvml" / "fake_nvml.c"
GPU_IS_LOST, LIB_RM_VERSION_MISMATCH, DRIVER_NOT_LOADED, NO_PERMISSION = 15, 18, 9, 4


def build(folder: Path, *, with_v3: bool = True) -> Path:
    """Compile the stub into ``folder`` (one time) and return the library. ``with_v3=False`` is a
    driver before 510.
    """
    library = folder / ("v3" if with_v3 else "v2") / "libnvidia-ml.so.1"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        fresh = library.with_suffix(f".{os.getpid()}")
        options = [] if with_v3 else ["-DWITHOUT_V3"]
        subprocess.run(
            [
                "gcc",
                "-std=c11",
                "-D_GNU_SOURCE",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O1",
                "-fPIC",
                "-shared",
                *options,
                "-Wl,-soname,libnvidia-ml.so.1",
                "-o",
                str(fresh),
                str(SOURCE),
            ],
            check=True,
        )
        fresh.replace(library)
    return library


class FakeGpu:
    """One simulated GPU. Energy is stored in µJ, so that any power over any step is exact."""

    def __init__(self, driver: FakeDriver, index: int) -> None:
        self._driver = driver
        self._index = index
        self.unpublished_uj: int | None = None  # energy since the counter stands still

    @property
    def state(self) -> GpuState:
        return self._driver.state.gpus[self._index]

    @property
    def uuid(self) -> str:
        return str(self.state.uuid.decode())

    @property
    def key(self) -> str:
        return f"gpu:{self.uuid}"

    @property
    def counter_mj(self) -> int:
        """Return the driver's counter in millijoules."""
        return int(self._counter_uj() // 1000)

    def _counter_uj(self) -> int:
        state, counter_uj = self.state, int(self.state.counter_uj)
        if self._driver.state.live:
            counter_uj += (time.monotonic_ns() // 1000 - state.anchor_us) * state.power_mw // 1000
        return counter_uj

    def add_mj(self, energy_mj: int) -> None:
        with self._driver.writing():
            self.state.counter_uj += energy_mj * 1000

    def stall(self) -> None:
        """Let the counter stand still while the GPU draws its power."""
        self.unpublished_uj = 0

    def publish(self) -> None:
        """Let the counter move again, by all the energy since it stood still."""
        with self._driver.writing():
            self.state.counter_uj += self.unpublished_uj or 0
        self.unpublished_uj = None

    def set_counter_mj(self, energy_mj: int) -> None:
        """Set the counter to any value. A lower one simulates a reloaded driver."""
        with self._driver.writing():
            self.state.counter_uj = energy_mj * 1000
            self.state.anchor_us = time.monotonic_ns() // 1000

    def set_power(self, power_mw: int, util_percent: int | None = None) -> None:
        counter_uj = self._counter_uj()
        with self._driver.writing():
            self.state.counter_uj = counter_uj
            self.state.anchor_us = time.monotonic_ns() // 1000
            self.state.power_mw = power_mw
            if util_percent is not None:
                self.state.util_percent = util_percent

    def set_processes(self, *processes: ProcessState) -> None:
        """Set the processes on the GPU. See :func:`process`."""
        with self._driver.writing():
            for slot, gpu in enumerate(processes):
                self.state.processes[slot] = gpu
            self.state.process_count = len(processes)
            self.state.memory_used_bytes = sum(gpu.memory_bytes for gpu in processes)

    def set_mig(self, *slices: int) -> None:
        """Divide the GPU into instances of the given slices each; none: MIG off."""
        with self._driver.writing():
            for slot in range(MAX_INSTANCES):
                size = slices[slot] if slot < len(slices) else 0
                self.state.instances[slot] = InstanceState(
                    f"MIG-{self._index}{slot}-{self.uuid[4:]}".encode(),
                    size * (10 << 30),
                    slot + 3,
                    size,
                    size > 0,
                    0,
                )
            self.state.mig_enabled = bool(slices)

    def set(self, **fields: int) -> None:
        """Set plain fields of the state (lost, persistence, capabilities, util_percent)."""
        with self._driver.writing():
            for name, value in fields.items():
                setattr(self.state, name, value)


def process(
    pid: int,
    *,
    sm_percent: int = 0,
    memory_mib: int = 0,
    instance: int = -1,
    graphics: bool = False,
    at_us: int = 0,
) -> ProcessState:
    """Return a process for :meth:`FakeGpu.set_processes`. ``at_us``: time of its utilisation sample
    (0: now).
    """
    return ProcessState(
        pid, sm_percent, memory_mib << 20, at_us or time.time_ns() // 1000, instance, graphics
    )


class FakeDriver:
    """The machine's driver: GPUs by profile name, in a state file under ``folder``."""

    def __init__(
        self,
        folder: Path,
        profiles: Sequence[str] = ("hopper",),
        *,
        with_v3: bool = True,
        live: bool = False,
        libraries: Path | None = None,
    ) -> None:
        self.library = build(libraries or folder, with_v3=with_v3)
        self.path = folder / "nvml.state"
        self.path.write_bytes(bytes(ctypes.sizeof(DriverState)))
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.state = DriverState.from_buffer(self._map)
        self.state.generation = 1
        self.state.live = live
        self.state.driver_version = b"570.86.15" if with_v3 else b"470.57.02"
        self.state.gpu_count = len(profiles)
        self.gpus = [FakeGpu(self, index) for index in range(len(profiles))]
        for gpu, name in zip(self.gpus, profiles):
            self._furnish(gpu, name)
        self.state.magic = MAGIC

    def _furnish(self, gpu: FakeGpu, name: str) -> None:
        profile, index, state = PROFILES[name], gpu._index, gpu.state
        state.uuid = f"GPU-{index:08x}-1abc-4abc-8abc-00000000000{index}".encode()
        state.bus_id = f"00000000:{index + 1:02X}:00.0".encode()
        state.name = profile.name.encode()
        state.capabilities = profile.capabilities
        state.power_mw, state.power_limit_mw = profile.idle_mw, profile.power_limit_mw
        state.memory_total_bytes = profile.memory_mib << 20
        state.persistence = 1
        state.counter_uj = 1_000_000_000 * (index + 1)
        state.anchor_us = time.monotonic_ns() // 1000

    @property
    def env(self) -> dict[str, str]:
        """Environment variables for another process to see these GPUs."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "LABCARBON_FAKE_NVML": str(self.path)}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Change the state in one step for its readers (the writer's half of the seqlock)."""
        self.state.sequence += 1
        try:
            yield
        finally:
            self.state.sequence += 1

    def step(self, seconds: float) -> None:
        """Let every GPU draw its power for this time, exactly: mW × µs = nJ."""
        duration_us = round(seconds * 1_000_000)
        for gpu in self.gpus:
            energy_uj, arguments = divmod(int(gpu.state.power_mw) * duration_us, 1000)
            assert arguments == 0, "a step must be an integer of µJ for an exact oracle"
            if gpu.unpublished_uj is not None:
                gpu.unpublished_uj += energy_uj
                continue
            with self.writing():
                gpu.state.counter_uj += energy_uj

    def reload(self) -> None:
        """Reload the driver: old handles are invalid and all counters restart at zero."""
        with self.writing():
            self.state.generation += 1
        for gpu in self.gpus:
            gpu.set_counter_mj(0)

    def set(self, **fields: int) -> None:
        """Set plain fields of the driver (init_error, privilege)."""
        with self.writing():
            for name, value in fields.items():
                setattr(self.state, name, value)

    @contextmanager
    def in_process(self) -> Iterator[FakeDriver]:
        """Let this process's ``pynvml`` load the stub: dlopen finds a loaded library by its
        soname.
        """
        import pynvml

        _forget(pynvml)
        loaded = ctypes.CDLL(str(self.library))
        loaded.fake_state_size.restype = ctypes.c_size_t
        assert loaded.fake_state_size() == ctypes.sizeof(DriverState), (
            "state.h and nvml_state.py differ"
        )
        os.environ["LABCARBON_FAKE_NVML"] = str(self.path)
        try:
            yield self
        finally:
            del os.environ["LABCARBON_FAKE_NVML"]
            _forget(pynvml)
            _ctypes.dlclose(loaded._handle)
            assert str(self.library) not in Path("/proc/self/maps").read_text(), (
                "the stub is still loaded"
            )


def _forget(pynvml: object) -> None:
    """Reset ``pynvml`` to the state before its first nvmlInit, so that another driver can be
    loaded.
    """
    while True:
        try:
            pynvml.nvmlShutdown()  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 - not loaded or not initialised: nothing to shut down
            break
    library = pynvml.nvmlLib  # type: ignore[attr-defined]
    if library is not None:
        _ctypes.dlclose(library._handle)
    pynvml.nvmlLib = None  # type: ignore[attr-defined]
    pynvml._nvmlLib_refcount = 0  # type: ignore[attr-defined]
    pynvml._nvmlGetFunctionPointer_cache.clear()  # type: ignore[attr-defined]
