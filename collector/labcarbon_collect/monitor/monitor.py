"""Monitor of one node: readings in, windows on disk. No thread, no socket, no network; the daemon
calls it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.energy.attribution import (
    ConsumerLookup,
    cpu_time_since,
    device_weights,
    idle_energy_mj,
    processor_weights,
)
from labcarbon_collect.energy.windows import (
    IDLE,
    NOTHING_CLOSED,
    UNKNOWN,
    Anchor,
    ClosedWindows,
    Window,
    WindowBuilder,
)
from labcarbon_collect.monitor.device_watch import DeviceWatch
from labcarbon_collect.monitor.live import LivePower
from labcarbon_collect.sources.base import DeviceProblem, Gap, ProcessUse, Reading
from labcarbon_collect.sources.idle_threshold import busy_above_mw
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.capacity import SpoolCapacity, save_acknowledged
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

SECOND_US = 1_000_000
POLL_US = SECOND_US
# A reading at most this late counts as the boundary: one poll was late, the machine was not
# suspended.
TOLERANCE_US = POLL_US + SECOND_US // 2
_FULL_RETRY_US = 30 * SECOND_US


@dataclass
class _PollResult:
    """Windows, gaps and anchors that one poll closed, over all devices."""

    windows: List[Window] = field(default_factory=list)
    gaps: List[Gap] = field(default_factory=list)
    anchors: List[Anchor] = field(default_factory=list)

    def add(self, closed: ClosedWindows) -> None:
        if closed is NOTHING_CLOSED:
            return
        self.windows.extend(closed.windows)
        self.gaps.extend(closed.gaps)
        if closed.anchor is not None:
            self.anchors.append(closed.anchor)


class NodeMonitor:
    """Polls the sources, attributes the energy and stores the windows."""

    def __init__(
        self,
        *,
        spool: Spool,
        capacity: SpoolCapacity,
        sources: SourcePoller,
        consumers: ConsumerLookup,
        boot: str,
        grid_us: int,
        now: Callable[[], Clock],
        busy_us: Callable[[], int],
        idle_mw: Mapping[str, int] = MappingProxyType({}),
        on_reading: Optional[Callable[[Reading], None]] = None,
    ) -> None:
        self.spool, self.sources, self.consumers = spool, sources, consumers
        self.stop_reason = ""  # why sampling stopped; "" while it runs
        self.windows_closed = 0
        self._capacity, self._boot, self._grid_us = capacity, boot, grid_us
        self._now, self._busy_us, self._on_reading = now, busy_us, on_reading
        self._default_idle_mw = idle_mw  # device → idle power if its source reports none
        self._estimated_idle_mw = spool.idle_mw()
        self._builders: Dict[str, WindowBuilder] = {}
        self._last: Dict[str, Reading] = {}
        self.live_power = LivePower()
        self._processes: Dict[str, Optional[Tuple[ProcessUse, ...]]] = {}
        self._anchors = spool.anchors()
        self._watch = DeviceWatch(self._anchors.values(), boot)
        self.device_problems: Tuple[DeviceProblem, ...] = ()  # as of the last poll
        sources.set_learnt_idle_mw(self._learnt_idle_mw)
        self._cpu_time_us: Mapping[str, int] = {}
        self._busy_total_us = busy_us()
        self._busy_delta_us = 0
        self._idle_mj: Dict[str, int] = {}  # device → idle mJ of closed windows since the start
        self._retry_us = 0

    def poll(self, *, with_processes: bool) -> int:
        """Read all sources one time and store the closed windows. Returns their number."""
        if self.stop_reason and not self._can_resume():
            return 0
        readings, reasons = self.sources.poll(with_processes=with_processes)
        if with_processes:
            self.consumers.snapshot()
        result = _PollResult()
        cpu_us = self._cpu_time_since_poll() if with_processes else {}
        for reading in readings:
            self._watch.add(reading)
            if self._on_reading is not None:
                self._on_reading(reading)
            self.live_power.add_reading(reading)
            if (
                not with_processes
                and _is_split_by_cpu_time(reading)
                and reading.device in self._last
            ):
                continue  # the counter includes its energy until the CPU times are known
            reading = self._with_latest_processes(reading, with_processes)
            result.add(self._add_reading(reading, cpu_us, reasons.get(reading.device, "")))
        self._watch_devices(result, with_processes)
        return self._store(result)

    def flush(self) -> int:
        """Close all open windows at their last readings, when the daemon stops."""
        result = _PollResult()
        for builder in self._builders.values():
            result.add(builder.flush())
        anchors = {**self._anchors, **{anchor.device: anchor for anchor in result.anchors}}
        result.gaps += self._watch.take_gaps(
            self._now(), anchors, self.sources.is_asleep, is_last=True
        )
        return self._store(result)

    def energy_of(self, consumer: str) -> Dict[str, int]:
        """Return the mJ of a consumer in open windows by device."""
        energy = {
            device: builder.open_shares().get(consumer, 0)
            for device, builder in self._builders.items()
        }
        return {device: energy_mj for device, energy_mj in energy.items() if energy_mj}

    def open_shares(self, device: str) -> Tuple[Optional[int], Dict[str, int]]:
        """Return start (UTC µs) and mJ by consumer of a device's open window, None and {} without
        one.
        """
        builder = self._builders.get(device)
        return (builder.open_since_us, builder.open_shares()) if builder else (None, {})

    def total_idle_mj(self) -> Dict[str, int]:
        """Return the idle mJ since the start by device, open windows included."""
        totals = dict(self._idle_mj)
        for device, energy_mj in self.energy_of(IDLE).items():
            totals[device] = totals.get(device, 0) + energy_mj
        return totals

    def last_readings(self) -> Dict[str, Reading]:
        """Return the last reading by device."""
        return dict(self._last)

    def _watch_devices(self, result: _PollResult, with_processes: bool) -> None:
        """Close the windows of GPUs without readings, declare silent ones, and set
        ``device_problems``.
        """
        if with_processes:
            self._watch.set_names({key: info.name for key, info in self.sources.devices.items()})
        clock, reported = self._now(), self.sources.problems()
        if not reported and not self.device_problems and self._watch.is_complete(clock):
            return
        for device in self._watch.take_unread(clock, self.sources.is_resting):
            if device in self._builders:
                result.add(self._builders[device].flush())
        anchors = {**self._anchors, **{anchor.device: anchor for anchor in result.anchors}}
        result.gaps += self._watch.take_gaps(clock, anchors, self.sources.is_asleep)
        self.device_problems = self._watch.problems(
            clock,
            reported,
            lambda device: self.sources.is_asleep(device) or self.sources.is_resting(device),
        )

    def _with_latest_processes(self, reading: Reading, has_processes: bool) -> Reading:
        """Add the latest process list to a reading without one. A list from the source replaces
        it.
        """
        if has_processes or reading.processes is not None:
            self._processes[reading.device] = reading.processes
            return reading
        return replace(reading, processes=self._processes.get(reading.device))

    def _cpu_time_since_poll(self) -> Dict[str, int]:
        """Return the CPU time per consumer since the last snapshot and set ``_busy_delta_us``, the
        work of all processors.
        """
        total_us = self._busy_us()
        self._busy_delta_us, self._busy_total_us = total_us - self._busy_total_us, total_us
        before, self._cpu_time_us = (
            self._cpu_time_us,
            dict(self.consumers.cpu_time_us_by_consumer()),
        )
        return cpu_time_since(before, self._cpu_time_us)

    def _add_reading(
        self, reading: Reading, cpu_us: Mapping[str, int], reason: str
    ) -> ClosedWindows:
        before = self._last.get(reading.device)
        if before is not None and before.epoch != reading.epoch:
            before = None
        self._last[reading.device] = reading
        builder = self._builders.get(reading.device)
        if builder is None:
            builder = self._builders[reading.device] = self._builder(reading.device)
        weights = self._weights(before, reading, cpu_us)
        self.live_power.set_weights(reading.device, weights)
        return builder.add(reading, weights, gap_reason=reason)

    def _builder(self, device: str) -> WindowBuilder:
        return WindowBuilder(
            device=device,
            boot=self._boot,
            grid_us=self._grid_us,
            tolerance_us=TOLERANCE_US,
            anchor=self._anchors.get(device),
        )

    def _weights(
        self, before: Optional[Reading], reading: Reading, cpu_us: Mapping[str, int]
    ) -> Mapping[str, int]:
        is_split_by_cpu_time = _is_split_by_cpu_time(reading)
        if not is_split_by_cpu_time and reading.processes and len(reading.processes) == 1:
            return {self.consumers.consumer_of(reading.processes[0].pid): 1}
        if before is None:
            energy_mj, idle_mj = 0, 0
        else:
            energy_mj = max(0, reading.counter_mj - before.counter_mj)
            elapsed_us = reading.monotonic_us - before.monotonic_us
            idle_mj = idle_energy_mj(energy_mj, self._idle_mw(reading.device), elapsed_us)
        if is_split_by_cpu_time:
            if before is None:
                return {UNKNOWN: 1}  # no process was observed before the first snapshot
            return processor_weights(
                cpu_us, self._busy_delta_us, energy_mj=energy_mj, idle_mj=idle_mj
            )
        if before is not None and not reading.processes and self._is_working(before, reading):
            return {UNKNOWN: 1}  # a process uses it that is not visible
        return device_weights(
            reading.processes, self.consumers.consumer_of, energy_mj=energy_mj, idle_mj=idle_mj
        )

    def _is_working(self, before: Reading, reading: Reading) -> bool:
        """Whether the device draws more power between two readings than without work."""
        limit_w = self._fact(reading.device, "power_limit_w")
        busy_mw = busy_above_mw(
            learnt_idle_mw=self._learnt_idle_mw(reading.device), limit_mw=(limit_w or 0) * 1000
        )
        elapsed_us = reading.monotonic_us - before.monotonic_us
        energy_mj = reading.counter_mj - before.counter_mj
        return busy_mw is not None and energy_mj * SECOND_US > busy_mw * elapsed_us

    def _learnt_idle_mw(self, device: str) -> Optional[int]:
        return self._fact(device, "idle_mw") or self._estimated_idle_mw.get(device)

    def _idle_mw(self, device: str) -> int:
        reported_mw = self._fact(device, "idle_mw")
        if reported_mw is not None:
            return reported_mw
        return self._estimated_idle_mw.get(device) or self._default_idle_mw.get(device, 0)

    def _fact(self, device: str, name: str) -> Optional[int]:
        info = self.sources.device(device)
        text = info.facts.get(name, "") if info else ""
        return int(text) if text.isdigit() else None

    def _store(self, result: _PollResult) -> int:
        if not (result.windows or result.gaps or result.anchors):
            return 0
        if self._capacity.is_disk_low() and not self._capacity.free_space(
            now_us=self._now().wall_us
        ):
            self._stop_sampling("the disk is almost full")
            return 0
        try:
            self._append(result)
        except SpoolFull as error:
            if not self._capacity.free_space(now_us=self._now().wall_us):
                self._stop_sampling(str(error))
                return 0
            try:
                self._append(result)
            except SpoolFull as second_error:
                self._stop_sampling(str(second_error))
                return 0
        self._after_store(result)
        return len(result.windows)

    def _append(self, result: _PollResult) -> None:
        self.spool.append(
            boot=self._boot,
            windows=result.windows,
            gaps=result.gaps,
            anchors=result.anchors,
            clock=self._now(),
        )

    def _after_store(self, result: _PollResult) -> None:
        for anchor in result.anchors:
            self._anchors[anchor.device] = anchor
        for window in result.windows:
            idle_mj = dict(window.shares).get(IDLE, 0)
            self._idle_mj[window.device] = self._idle_mj.get(window.device, 0) + idle_mj
        self.windows_closed += len(result.windows)
        if result.windows:
            save_acknowledged(self.spool)
            self._estimated_idle_mw = self.spool.idle_mw()
        self._capacity.ensure_ballast()
        if self._capacity.is_over_limit() and not self._capacity.free_space(
            now_us=self._now().wall_us
        ):
            self._stop_sampling("the spool is at its limit and cannot be merged further")

    def _stop_sampling(self, reason: str) -> None:
        """Discard the open windows. The counters include their energy, and a recovered window will
        contain it later.
        """
        self.stop_reason = (
            f"sampling stopped: {reason}; free space in {self.spool.home} or restore the "
            "connection to the server"
        )
        self._builders.clear()
        self._last.clear()
        self.live_power.clear()
        self._retry_us = self._now().monotonic_us + _FULL_RETRY_US

    def _can_resume(self) -> bool:
        now_us = self._now().monotonic_us
        if now_us < self._retry_us:
            return False
        self._retry_us = now_us + _FULL_RETRY_US
        if self._capacity.is_usable():
            self.stop_reason = ""
            self._anchors = self.spool.anchors()
        return not self.stop_reason


def _is_split_by_cpu_time(reading: Reading) -> bool:
    return reading.processes is None and reading.device.partition(":")[0] in ("cpu", "dram")
