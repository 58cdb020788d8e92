"""NVIDIA GPUs through NVML: the energy counter if there is one, else sampled power."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from labcarbon_collect.clock import Clock
from labcarbon_collect.node_identity import boot_id, read_clock
from labcarbon_collect.sources.base import (
    DeviceInfo,
    DeviceProblem,
    Gap,
    Reading,
    SourceAbsent,
    SourceFailed,
    StoredReading,
    register,
)
from labcarbon_collect.sources.epochs import CounterReading, driver_load
from labcarbon_collect.sources.nvidia.driver import (
    Driver,
    GpuLost,
    is_suspended,
    nvidia_functions,
    open_driver,
)
from labcarbon_collect.sources.nvidia.gpu import Gpu, Pause
from labcarbon_collect.sources.nvidia.gpu_meter import GpuMeter
from labcarbon_collect.sources.nvidia.power_integration import PowerSampler
from labcarbon_collect.sources.nvidia.processes import ProcessLister, mig_instances

# A lost GPU is queried again after 1, 2, 4 … polls. A query of a GPU that fell off the bus can take
# seconds.
MAX_WAIT_POLLS = 64


class _Retry:
    """The polls in which a lost GPU is queried again: after 1, 2, 4 … of them."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._wait_polls = self._waited_polls = 0

    def is_due(self) -> bool:
        """Count one poll. Return whether to query the GPU in it."""
        self._waited_polls += 1
        if self._waited_polls < self._wait_polls:
            return False
        self._waited_polls, self._wait_polls = 0, min(max(1, self._wait_polls * 2), MAX_WAIT_POLLS)
        return True


class _GpuState:
    """A GPU with the state of the source."""

    def __init__(self, gpu: Gpu, info: DeviceInfo, meter: GpuMeter) -> None:
        self.gpu, self.info, self.meter = gpu, info, meter
        self.processes = ProcessLister()
        self.memory_mib: Optional[int] = None  # at the last update of the process list
        self.lost_reason = ""  # why it does not respond; "" if it does
        self.lost_since_us = 0
        self.retry = _Retry()


class _Unopened:
    """A GPU that the driver lists and that did not respond yet."""

    def __init__(self, label: str, query: str, argument: object, since_us: int) -> None:
        self.label, self.query, self.argument = label, query, argument
        self.since_us = since_us
        self.reason = ""
        self.retry = _Retry()


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
        self._unopened: List[_Unopened] = []
        self._found: List[DeviceInfo] = []
        self.learnt_idle_mw: Callable[[str], Optional[int]] = _not_learnt
        self.sleeping: List[
            Path
        ] = []  # sysfs folders of GPUs that slept when the driver was opened
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
            {state.gpu.key: state.meter.last for state in self._gpus if state.meter.last}
        )
        self._driver_load = f"{self._boot[:13]}.{driver_load(self._sys_root):x}"
        self._sampler = PowerSampler(self.now, threaded=self._threaded)
        try:
            self._discover(self._driver)
        except GpuLost as error:
            self.close()
            raise SourceFailed(f"the driver does not list its GPUs: {error}") from error
        except (SourceAbsent, SourceFailed):
            self.close()
            raise
        return [state.info for state in self._gpus]

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        """Read all GPUs that are awake and respond.

        Raises SourceFailed if none responds, or if a GPU woke up that slept at :meth:`open`.
        Opening again discovers it.
        """
        if self.sleeping and any(not is_suspended(folder) for folder in self.sleeping):
            self.close()
            raise SourceFailed("a sleeping GPU woke up; the driver is opened again to measure it")
        if not self._gpus:
            return ()
        if self._driver is None:
            self._reopen()
        if self._unopened:
            self._open_late_gpus()
        readings: List[Reading] = []
        awake_gpus = [state for state in self._gpus if not state.gpu.is_suspended()]
        for state in awake_gpus:
            try:
                if self._is_answering(state):
                    readings.extend(self._read(state, now, with_processes))
            except GpuLost as error:
                state.lost_since_us = state.lost_since_us or now().wall_us
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
        gaps: List[Gap] = []
        for state in self._gpus:
            gaps += state.meter.gaps
            state.meter.gaps = []
        return gaps

    def take_found(self) -> Sequence[DeviceInfo]:
        """Return the GPUs that responded for the first time since the last call."""
        found, self._found = self._found, []
        return found

    def is_asleep(self, device: str) -> bool:
        """Whether the GPU is suspended. One that slept at :meth:`open` has no known key."""
        for state in self._gpus:
            if state.gpu.key == device:
                return state.gpu.is_suspended()
        return bool(self.sleeping)

    def is_resting(self, device: str) -> bool:
        """Whether the GPU responds while its counter stands still."""
        return any(
            state.gpu.key == device and state.meter.is_resting and not state.lost_reason
            for state in self._gpus
        )

    def problems(self) -> Sequence[DeviceProblem]:
        """Return the GPUs that do not respond, and those whose counter fails."""
        problems = [
            DeviceProblem("", each.label, "lost", each.reason, each.since_us)
            for each in self._unopened
        ]
        for state in self._gpus:
            key, name, meter = state.gpu.key, state.gpu.name, state.meter
            if state.lost_since_us:
                problems.append(
                    DeviceProblem(key, name, "lost", state.lost_reason, state.lost_since_us)
                )
            elif meter.problem:
                problems.append(
                    DeviceProblem(key, name, "power", meter.problem, meter.problem_since_us)
                )
        return problems

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

    def _discover(self, driver: Driver) -> None:
        """Open each GPU by itself. One that does not respond is tried again in later polls."""
        self._gpus, self._unopened, self.unmeasured, self._found = [], [], [], []
        since_us = self.now().wall_us
        listed = self._listed(driver, since_us)
        if not listed:
            raise SourceAbsent("the NVIDIA driver is loaded but lists no GPU", "nvidia-smi -L")
        for each in listed:
            try:
                self._open_gpu(driver, each)
            except GpuLost as error:
                each.reason = str(error)
                self._unopened.append(each)
        if self._gpus:
            return
        if self._unopened:
            raise SourceFailed(
                "no GPU responds: "
                + "; ".join(f"{each.label}: {each.reason}" for each in self._unopened)
            )
        if self.unmeasured:
            raise SourceAbsent(
                (
                    f"{', '.join(self.unmeasured)}: the driver reports neither energy nor power "
                    "(usual for a vGPU)"
                ),
                "install the collector on the host that owns the physical GPU",
            )
        raise SourceAbsent("the NVIDIA driver is loaded but lists no GPU", "nvidia-smi -L")

    def _listed(self, driver: Driver, since_us: int) -> List[_Unopened]:
        """Return all awake GPUs. Querying the handle of a sleeping one would wake it."""
        if self.sleeping:
            folders = [
                folder for folder in nvidia_functions(self._sys_root) if folder not in self.sleeping
            ]
            return [
                _Unopened(
                    f"GPU {folder.name}",
                    "nvmlDeviceGetHandleByPciBusId",
                    b"0000" + folder.name.encode("ascii"),
                    since_us,
                )
                for folder in folders
            ]
        count = int(driver.query("nvmlDeviceGetCount") or 0)
        return [
            _Unopened(f"GPU {index}", "nvmlDeviceGetHandleByIndex", index, since_us)
            for index in range(count)
        ]

    def _open_gpu(self, driver: Driver, listed: _Unopened) -> Optional[_GpuState]:
        """Open one GPU. None: the driver gives no handle of it, or it cannot be measured. Raises
        GpuLost.
        """
        assert self._sampler is not None
        handle = driver.query(listed.query, listed.argument)
        if handle is None:
            return None
        gpu = Gpu(driver, handle, self._sys_root, self._pause)
        if not gpu.measurement:
            self.unmeasured.append(gpu.name)
            return None
        meter = GpuMeter(gpu, self._driver_load, self._resumed.get(gpu.key))
        state = _GpuState(gpu, self._describe(gpu), meter)
        if meter.is_integrated:
            self._sampler.add(gpu)
        self._gpus.append(state)
        return state

    def _open_late_gpus(self) -> None:
        """Open the GPUs that did not respond at :meth:`open` and do now."""
        assert self._driver is not None
        for each in [each for each in self._unopened if each.retry.is_due()]:
            try:
                state = self._open_gpu(self._driver, each)
            except GpuLost as error:
                each.reason = str(error)
                continue
            self._unopened.remove(each)
            if state is not None:
                self._found.append(state.info)

    def _describe(self, gpu: Gpu) -> DeviceInfo:
        assert self._driver is not None
        facts = gpu.facts()
        if gpu.calls.is_mig_enabled(gpu.handle):
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
        self._driver_load = f"{self._boot[:13]}.{driver_load(self._sys_root):x}"
        self._sampler = PowerSampler(self.now, threaded=self._threaded)
        for state in self._gpus:
            state.gpu.connect(self._driver)
            state.meter.load = self._driver_load
            state.lost_reason = "not detected since the driver was reopened"
            state.lost_since_us = state.lost_since_us or self.now().wall_us
            state.retry.reset()
            if state.meter.is_integrated:
                self._sampler.add(state.gpu)

    def _is_answering(self, state: _GpuState) -> bool:
        """Whether the GPU responds. A lost one is queried again with increasing intervals. Raises
        GpuLost.
        """
        if not state.lost_reason:
            return True
        if not state.retry.is_due():
            return False
        handle = state.gpu.driver.query("nvmlDeviceGetHandleByUUID", state.gpu.uuid)
        if handle is None:
            return False
        state.gpu.handle, state.lost_reason = handle, ""
        return True

    def _read(
        self, state: _GpuState, now: Callable[[], Clock], with_processes: bool
    ) -> List[Reading]:
        assert self._sampler is not None
        gpu = state.gpu
        energy = state.meter.read(now, self._sampler, self.learnt_idle_mw)
        state.lost_since_us = 0
        state.retry.reset()
        util_pm = gpu.util_pm()
        memory_mib = gpu.memory_mib()
        # A process that starts or ends changes the memory in use, which reveals a change between
        # two updates.
        if with_processes or memory_mib != state.memory_mib:
            state.processes.update(gpu.calls, gpu.handle, util_pm)
            state.memory_mib = memory_mib
        return [
            Reading(
                device=gpu.key,
                monotonic_us=last.monotonic_us,
                wall_us=last.wall_us,
                counter_mj=last.counter_mj,
                epoch=last.epoch,
                measurement=measurement,
                power_mw=power_mw,
                util_pm=util_pm,
                memory_mib=memory_mib,
                processes=state.processes.latest,
                flags=flags,
            )
            for last, power_mw, flags, measurement in energy
        ]


def _not_learnt(device: str) -> Optional[int]:
    """Return None: a source without a monitor, as in doctor."""
    return None


register("nvml", NvmlSource)
