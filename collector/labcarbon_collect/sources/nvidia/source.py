"""NVIDIA GPUs through NVML: the energy counter if there is one, else sampled power."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.node_identity import boot_id, read_clock
from labcarbon_collect.sources.base import (
    DeviceInfo,
    Gap,
    Reading,
    SourceAbsent,
    SourceFailed,
    StoredReading,
    register,
)
from labcarbon_collect.sources.epochs import CounterReading, driver_load, place_reading
from labcarbon_collect.sources.nvidia.driver import (
    Driver,
    GpuLost,
    is_suspended,
    nvidia_functions,
    open_driver,
)
from labcarbon_collect.sources.nvidia.gpu import Gpu, Pause
from labcarbon_collect.sources.nvidia.power_integration import PowerSampler
from labcarbon_collect.sources.nvidia.processes import ProcessLister, mig_enabled, mig_instances

# A lost GPU is queried again after 1, 2, 4 … polls. A query of a GPU that fell off the bus can take
# seconds.
MAX_WAIT_POLLS = 64


class _GpuState:
    """A GPU with the state of the source."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.processes = ProcessLister()
        self.last: Optional[CounterReading] = None
        self.memory_mib: Optional[int] = None  # at the last update of the process list
        self.lost_reason = ""  # why it does not respond; "" if it does
        self.wait_polls = 0
        self.waited_polls = 0


class NvmlSource:
    """All NVIDIA GPUs of this machine. A MIG instance has no meter: its parent GPU is the
    device.
    """

    name = "nvml"

    def __init__(
        self,
        node: str,
        env: Mapping[str, str],
        *,
        now: Callable[[], Clock] = read_clock,
        sys_root: str = "/sys",
        boot: str = "",
        pause: Pause = time.sleep,
        threaded: bool = True,
    ) -> None:
        self.unmeasured: List[str] = []  # GPUs whose driver reports neither energy nor power
        self.now, self._sys_root, self._boot = now, sys_root, boot or boot_id()
        self._pause, self._threaded = pause, threaded
        self._driver: Optional[Driver] = None
        self._sampler: Optional[PowerSampler] = None
        self._gpus: List[_GpuState] = []
        self.sleeping: List[
            Path
        ] = []  # sysfs folders of GPUs that slept when the driver was opened
        self._gaps: List[Gap] = []
        self._resumed: Dict[str, CounterReading] = {}
        self._driver_load = ""

    def resume(self, last: Mapping[str, StoredReading]) -> None:
        """Store the readings from before a restart of the collector, so that unbroken counters
        continue their epochs.
        """
        self._resumed = {
            key: CounterReading(
                instance.epoch, instance.counter_mj, instance.mono_us, instance.wall_us
            )
            for key, instance in last.items()
            if instance.boot == self._boot
        }

    def open(self) -> Sequence[DeviceInfo]:
        """Discover the awake GPUs. None are returned if all sleep. Raises SourceAbsent with the
        fix.
        """
        functions = nvidia_functions(self._sys_root)
        self.sleeping = [folder for folder in functions if is_suspended(folder)]
        if self.sleeping and len(self.sleeping) == len(functions):
            return ()
        self._driver = open_driver()
        self._resumed.update(
            {instance.gpu.key: instance.last for instance in self._gpus if instance.last}
        )
        try:
            self._gpus = self._discover(self._driver)
        except GpuLost as error:
            self.close()
            raise SourceFailed(
                f"the GPU stopped responding while it was opened: {error}"
            ) from error
        except SourceAbsent:
            self.close()
            raise
        self._start_sampling()
        return [self._describe(state.gpu) for state in self._gpus]

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        """Read all GPUs that are awake and respond.

        Raises SourceFailed if none responds, or if a GPU woke up that slept at :meth:`open`.
        Opening again discovers it.
        """
        if any(not is_suspended(folder) for folder in self.sleeping):
            self.close()
            raise SourceFailed("a sleeping GPU woke up; the driver is opened again to measure it")
        if not self._gpus:
            return ()
        if self._driver is None:
            self._reopen()
        readings: List[Reading] = []
        awake_gpus = [state for state in self._gpus if not state.gpu.is_suspended()]
        for state in awake_gpus:
            try:
                if self._is_answering(state):
                    readings.extend(self._read(state, now, with_processes))
            except GpuLost as error:
                state.lost_reason = str(error)
        lost_gpus = [
            f"{state.gpu.name}: {state.lost_reason}" for state in awake_gpus if state.lost_reason
        ]
        if lost_gpus and len(lost_gpus) == len(awake_gpus):
            self.close()
            raise SourceFailed("no GPU responds: " + "; ".join(lost_gpus))
        return readings

    def gaps(self) -> Sequence[Gap]:
        """Return the gaps since the last call and clear them."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def close(self) -> None:
        """Stop sampling and release the driver. The last readings are stored for reopening in
        :meth:`poll`.
        """
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _discover(self, driver: Driver) -> List[_GpuState]:
        gpus = [
            Gpu(driver, handle, self._sys_root, self._pause) for handle in self._handles(driver)
        ]
        self.unmeasured = [gpu.name for gpu in gpus if not gpu.measurement]
        if not gpus:
            raise SourceAbsent("the NVIDIA driver is loaded but lists no GPU", "nvidia-smi -L")
        if len(self.unmeasured) == len(gpus):
            raise SourceAbsent(
                (
                    f"{', '.join(self.unmeasured)}: the driver reports neither energy nor power "
                    "(usual for a vGPU)"
                ),
                "install the collector on the host that owns the physical GPU",
            )
        return [_GpuState(gpu) for gpu in gpus if gpu.measurement]

    def _handles(self, driver: Driver) -> List[object]:
        """Return the handles of all awake GPUs. Querying the handle of a sleeping one would wake
        it.
        """
        if self.sleeping:
            folders = [
                folder for folder in nvidia_functions(self._sys_root) if folder not in self.sleeping
            ]
            names = [folder.name.encode("ascii") for folder in folders]
            handles = [
                driver.query("nvmlDeviceGetHandleByPciBusId", b"0000" + name) for name in names
            ]
        else:
            count = int(driver.query("nvmlDeviceGetCount") or 0)
            handles = [driver.query("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
        return [handle for handle in handles if handle is not None]

    def _start_sampling(self) -> None:
        """Identify this load of the driver and start to sample the GPUs without a counter."""
        self._driver_load = f"{self._boot[:13]}.{driver_load(self._sys_root):x}"
        for state in self._gpus:
            state.last = state.last or self._resumed.get(state.gpu.key)
        uncounted = [state.gpu for state in self._gpus if not state.gpu.has_counter]
        self._sampler = PowerSampler(uncounted, self.now, threaded=self._threaded)

    def _describe(self, gpu: Gpu) -> DeviceInfo:
        assert self._driver is not None
        facts = gpu.facts()
        if mig_enabled(self._driver, gpu.handle):
            instances = mig_instances(self._driver, gpu.handle)
            facts["mig"] = (
                ", ".join(f"{instance.uuid} ({instance.slices} slices)" for instance in instances)
                or "no instances"
            )
        return DeviceInfo(gpu.key, gpu.name, gpu.measurement, facts)

    def _reopen(self) -> None:
        """Initialise the driver again after all GPUs stopped responding. Each GPU is found by its
        UUID.
        """
        try:
            self._driver = open_driver()
        except SourceAbsent as error:
            raise SourceFailed(
                f"the NVIDIA driver is no longer available: {error.reason}"
            ) from error
        for state in self._gpus:
            state.gpu.driver = self._driver
            state.lost_reason, state.wait_polls, state.waited_polls = (
                "not detected since the driver was reopened",
                0,
                0,
            )
        self._start_sampling()

    def _is_answering(self, state: _GpuState) -> bool:
        """Whether the GPU responds. A lost one is queried again with increasing intervals. Raises
        GpuLost.
        """
        if not state.lost_reason:
            return True
        state.waited_polls += 1
        if state.waited_polls < state.wait_polls:
            return False
        state.waited_polls, state.wait_polls = 0, min(max(1, state.wait_polls * 2), MAX_WAIT_POLLS)
        handle = state.gpu.driver.query("nvmlDeviceGetHandleByUUID", state.gpu.uuid)
        if handle is None:
            return False
        state.gpu.handle, state.lost_reason, state.wait_polls = handle, "", 0
        return True

    def _read(
        self, state: _GpuState, now: Callable[[], Clock], with_processes: bool
    ) -> List[Reading]:
        gpu = state.gpu
        energy = self._by_counter(state, now) if gpu.has_counter else self._by_power(state, now)
        util_pm = gpu.util_pm()
        memory_mib = gpu.memory_mib()
        # A process that starts or ends changes the memory in use, which reveals a change between
        # two updates.
        if with_processes or memory_mib != state.memory_mib:
            state.processes.update(gpu.driver, gpu.handle, util_pm)
            state.memory_mib = memory_mib
        return [
            Reading(
                device=gpu.key,
                monotonic_us=last.monotonic_us,
                wall_us=last.wall_us,
                counter_mj=last.counter_mj,
                epoch=last.epoch,
                measurement=gpu.measurement,
                power_mw=power_mw,
                util_pm=util_pm,
                memory_mib=memory_mib,
                processes=state.processes.latest,
                flags=flags,
            )
            for last, power_mw, flags in energy
        ]

    def _by_counter(
        self, state: _GpuState, now: Callable[[], Clock]
    ) -> List[Tuple[CounterReading, Optional[int], int]]:
        """Return the counter's reading. After a fall whose restart can be placed, return two, from
        the restart on.
        """
        gpu, before = state.gpu, state.last
        counter_mj = gpu.counter_mj()
        clock = now()
        if counter_mj is None:
            raise GpuLost(f"{gpu.name}: the energy counter is no longer reported")
        power_mw = gpu.power_mw()
        step = place_reading(
            before,
            counter_mj,
            clock,
            load=self._driver_load,
            limit_mw=gpu.limit_mw,
            power_mw=power_mw,
        )
        if before is not None and step.gap_until_us is not None:
            self._gaps.append(
                Gap(gpu.key, before.epoch, before.wall_us, step.gap_until_us, "driver")
            )
        state.last = step.readings[-1][0]
        return [
            (last, power_mw if last is state.last else None, flags) for last, flags in step.readings
        ]

    def _by_power(
        self, state: _GpuState, now: Callable[[], Clock]
    ) -> List[Tuple[CounterReading, Optional[int], int]]:
        assert self._sampler is not None
        sampled = self._sampler.sample(state.gpu, now)
        for before, after in sampled.gaps:
            epoch = state.last.epoch if state.last else self._driver_load
            self._gaps.append(Gap(state.gpu.key, epoch, before.wall_us, after.wall_us, "lost"))
        epoch = f"{self._driver_load}.s{sampled.started.monotonic_us:x}"
        state.last = CounterReading(
            epoch, sampled.total_mj, sampled.clock.monotonic_us, sampled.clock.wall_us
        )
        return [(state.last, sampled.power_mw, 0)]


register("nvml", NvmlSource)
