"""One node being measured: readings in, windows on disk. No thread, no socket, no network; the daemon drives it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.energy.attribution import ConsumerLookup, device_weights, idle_part_mj, processor_weights, used_since
from labcarbon_collect.energy.windows import IDLE, UNKNOWN, Anchor, ClosedWindows, Window, WindowBuilder
from labcarbon_collect.monitor.live import LivePower
from labcarbon_collect.sources.base import Gap, ProcessUse, Reading
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.capacity import SpoolCapacity, save_acknowledged
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

SECOND_US = 1_000_000
POLL_US = SECOND_US
# A reading this late still stands for the cut: one poll that came late, not a machine that stood still.
TOLERANCE_US = POLL_US + SECOND_US // 2
_FULL_RETRY_US = 30 * SECOND_US


@dataclass
class _Collected:
    """What one poll closed, over all devices."""

    windows: List[Window] = field(default_factory=list)
    gaps: List[Gap] = field(default_factory=list)
    anchors: List[Anchor] = field(default_factory=list)

    def add(self, settled: ClosedWindows) -> None:
        self.windows.extend(settled.windows)
        self.gaps.extend(settled.gaps)
        if settled.anchor is not None:
            self.anchors.append(settled.anchor)


class NodeMonitor:
    """Measures, attributes and spools."""

    def __init__(
        self,
        *,
        spool: Spool,
        room: SpoolCapacity,
        meters: SourcePoller,
        who: ConsumerLookup,
        boot: str,
        grid_us: int,
        now: Callable[[], Clock],
        busy_us: Callable[[], int],
        idle_mw: Mapping[str, int] = MappingProxyType({}),
        on_reading: Optional[Callable[[Reading], None]] = None,
    ) -> None:
        self.spool, self.meters, self.who = spool, meters, who
        self.full = ""  # why sampling stopped; "" while it goes on
        self.windows_closed = 0
        self._room, self._boot, self._grid_us = room, boot, grid_us
        self._now, self._busy_us, self._on_reading = now, busy_us, on_reading
        self._default_idle_mw = idle_mw  # device → idle power where its source does not tell one
        self._learnt_idle_mw = spool.idle_mw()
        self._builders: Dict[str, WindowBuilder] = {}
        self._last: Dict[str, Reading] = {}
        self.live = LivePower()
        self._processes: Dict[str, Optional[Tuple[ProcessUse, ...]]] = {}
        self._anchors = spool.anchors()
        self._cpu_us: Mapping[str, int] = {}
        self._busy_total_us = busy_us()
        self._busy_spent_us = 0
        self._idle_mj: Dict[str, int] = {}  # device → mJ given to idle in closed windows since the start
        self._full_until_us = 0

    def poll(self, *, with_processes: bool) -> int:
        """Read all meters once and store what that closed. Returns the number of windows stored."""
        if self.full and not self._resumed():
            return 0
        readings, reasons = self.meters.poll(with_processes=with_processes)
        if with_processes:
            self.who.snapshot()
        collected = _Collected()
        spent = self._spent() if with_processes else {}
        for reading in readings:
            if self._on_reading is not None:
                self._on_reading(reading)
            self.live.read(reading)
            if _split_by_cpu_time(reading) and not with_processes and reading.device in self._last:
                continue  # its energy waits in the counter until we know who worked
            reading = self._with_known_processes(reading, with_processes)
            collected.add(self._take(reading, spent, reasons.get(reading.device, "")))
        return self._store(collected)

    def flush(self) -> int:
        """Close all open windows at their last readings (stopping)."""
        collected = _Collected()
        for builder in self._builders.values():
            collected.add(builder.flush())
        return self._store(collected)

    def energy_of(self, consumer: str) -> Dict[str, int]:
        """Device → mJ of a consumer in windows still open."""
        found = {device: builder.peek().get(consumer, 0) for device, builder in self._builders.items()}
        return {device: energy_mj for device, energy_mj in found.items() if energy_mj}

    def open_shares(self, device: str) -> Tuple[Optional[int], Dict[str, int]]:
        """Begin (UTC µs) and consumer → mJ of a device's window still open; None and nothing where none is."""
        builder = self._builders.get(device)
        return (builder.open_since_us, builder.peek()) if builder else (None, {})

    def total_idle_mj(self) -> Dict[str, int]:
        """Device → mJ given to idle since the start, open windows included."""
        totals = dict(self._idle_mj)
        for device, energy_mj in self.energy_of(IDLE).items():
            totals[device] = totals.get(device, 0) + energy_mj
        return totals

    def last_readings(self) -> Dict[str, Reading]:
        """Device → its last reading."""
        return dict(self._last)

    def _with_known_processes(self, reading: Reading, looked: bool) -> Reading:
        """Between two looks at the process lists the last list stands, unless the source saw that it changed."""
        if looked or reading.processes is not None:
            self._processes[reading.device] = reading.processes
            return reading
        return replace(reading, processes=self._processes.get(reading.device))

    def _spent(self) -> Dict[str, int]:
        """CPU time per consumer since the last look; beside it, what all processors worked (``_busy_spent_us``)."""
        total_us = self._busy_us()
        self._busy_spent_us, self._busy_total_us = total_us - self._busy_total_us, total_us
        before, self._cpu_us = self._cpu_us, dict(self.who.cpu_time_us_by_consumer())
        return used_since(before, self._cpu_us)

    def _take(self, reading: Reading, spent: Mapping[str, int], reason: str) -> ClosedWindows:
        before = self._last.get(reading.device)
        if before is not None and before.epoch != reading.epoch:
            before = None
        self._last[reading.device] = reading
        builder = self._builders.get(reading.device)
        if builder is None:
            builder = self._builders[reading.device] = self._builder(reading.device)
        weights = self._weights(before, reading, spent)
        self.live.shared(reading.device, weights)
        return builder.add(reading, weights, gap_reason=reason)

    def _builder(self, device: str) -> WindowBuilder:
        return WindowBuilder(
            device=device, boot=self._boot, grid_us=self._grid_us, tolerance_us=TOLERANCE_US,
            anchor=self._anchors.get(device),
        )  # fmt: skip

    def _weights(self, before: Optional[Reading], reading: Reading, spent: Mapping[str, int]) -> Mapping[str, int]:
        if before is None:
            energy_mj, idle_mj = 0, 0
        else:
            energy_mj = max(0, reading.counter_mj - before.counter_mj)
            elapsed_us = reading.monotonic_us - before.monotonic_us
            idle_mj = idle_part_mj(energy_mj, self._idle_mw(reading.device), elapsed_us)
        if _split_by_cpu_time(reading):
            if before is None:
                return {UNKNOWN: 1}  # nobody watched before the first look
            return processor_weights(spent, self._busy_spent_us, energy_mj=energy_mj, idle_mj=idle_mj)
        return device_weights(reading.processes, self.who.consumer_of, energy_mj=energy_mj, idle_mj=idle_mj)

    def _idle_mw(self, device: str) -> int:
        info = self.meters.devices.get(device)
        text = info.facts.get("idle_mw", "") if info else ""
        if text.isdigit():
            return int(text)
        return self._learnt_idle_mw.get(device) or self._default_idle_mw.get(device, 0)

    def _store(self, collected: _Collected) -> int:
        if not (collected.windows or collected.gaps or collected.anchors):
            return 0
        if self._room.low() and not self._room.make(now_us=self._now().wall_us):
            self._stop_sampling("the disk is all but full")
            return 0
        try:
            self._append(collected)
        except SpoolFull as error:
            if not self._room.make(now_us=self._now().wall_us):
                self._stop_sampling(str(error))
                return 0
            try:
                self._append(collected)
            except SpoolFull as again:
                self._stop_sampling(str(again))
                return 0
        self._stored(collected)
        return len(collected.windows)

    def _append(self, collected: _Collected) -> None:
        self.spool.append(boot=self._boot, windows=collected.windows, gaps=collected.gaps, anchors=collected.anchors)

    def _stored(self, collected: _Collected) -> None:
        for anchor in collected.anchors:
            self._anchors[anchor.device] = anchor
        for window in collected.windows:
            idle_mj = dict(window.shares).get(IDLE, 0)
            self._idle_mj[window.device] = self._idle_mj.get(window.device, 0) + idle_mj
        self.windows_closed += len(collected.windows)
        if collected.windows:
            save_acknowledged(self.spool)
            self._learnt_idle_mw = self.spool.idle_mw()
        self._room.ensure_ballast()
        if self._room.tight() and not self._room.make(now_us=self._now().wall_us):
            self._stop_sampling("the spool is at its limit and cannot be merged further")

    def _stop_sampling(self, why: str) -> None:
        """Forget what is open: the counters hold it, and one recovered window will bring it when there is room."""
        self.full = f"sampling stopped, {why}; free space in {self.spool.home} or bring the server back"
        self._builders.clear()
        self._last.clear()
        self.live.clear()
        self._full_until_us = self._now().monotonic_us + _FULL_RETRY_US

    def _resumed(self) -> bool:
        now_us = self._now().monotonic_us
        if now_us < self._full_until_us:
            return False
        self._full_until_us = now_us + _FULL_RETRY_US
        if self._room.usable():
            self.full = ""
            self._anchors = self.spool.anchors()
        return not self.full


def _split_by_cpu_time(reading: Reading) -> bool:
    return reading.processes is None and reading.device.partition(":")[0] in ("cpu", "dram")
