"""Energy windows from the readings of one device. Pure: no clock, no disk, no network.

The energy of a window is the difference of two raw counter readings, so the windows of an epoch
telescope: for any grid, polls and consumers their sum is the last reading minus the first. Wall
time only places a window on the UTC grid. Monotonic time measures it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Dict, Mapping, Optional, Tuple

from labcarbon_collect.sources.base import FLAG_RECOVERED, Gap, Reading


def largest_remainder(total: int, weights: Mapping[str, int]) -> Dict[str, int]:
    """Divide ``total`` (mJ, or any unit ≥ 0) in proportion to integer ``weights``. The parts sum to
    it exactly.

    Each key gets the integer part of its quota. The rest goes, one unit each, to the largest
    fractions, ties by key, so that every machine divides equally (Hamilton's method). Keys of
    weight 0 are left out.

    Raises ValueError for a negative total or weight, and for a positive total without weights.
    """
    if total < 0:
        raise ValueError(f"cannot divide a negative total: {total}")
    if any(weight < 0 for weight in weights.values()):
        raise ValueError(f"negative weight among {dict(weights)}")
    present = {key: weight for key, weight in weights.items() if weight}
    weight_sum = sum(present.values())
    if not weight_sum:
        if total:
            raise ValueError(f"cannot divide {total} without weights")
        return {}
    if len(present) == 1:
        return dict.fromkeys(present, total)
    parts = {key: total * weight // weight_sum for key, weight in present.items()}
    by_fraction = sorted(present, key=lambda key: (-(total * present[key] % weight_sum), key))
    for key in by_fraction[: total - sum(parts.values())]:
        parts[key] += 1
    return parts


SECOND_US = 1_000_000
HOUR_US = 3_600_000_000
# The weights of each poll are scaled to this sum, so that the parts of a window add up exactly over
# many polls.
PART_SCALE = 1 << 32
# A drift of wall against monotonic time between two polls beyond this is a step of the wall clock.
MAX_CLOCK_DRIFT_US = 2_000_000
# Between two readings further apart than this, only a consumer that is sole at both ends gets the
# energy.
MAX_UNWATCHED_US = 30_000_000

UNKNOWN, IDLE = "unknown", "idle"


@dataclass(frozen=True)
class Window:
    """Energy of one device in ``[start_us, end_us)``. Σ shares = energy_mj = counter_end_mj −
    counter_start_mj.
    """

    device: str
    epoch: str
    seq: int
    start_us: int  # placed on the UTC grid
    end_us: int
    mono_start_us: int  # measured, this boot's monotonic clock
    mono_end_us: int
    counter_start_mj: int
    counter_end_mj: int
    energy_mj: int
    measurement: str
    flags: int
    util_mean_pm: Optional[int]
    util_max_pm: Optional[int]
    mem_mean_mib: Optional[int]
    mem_max_mib: Optional[int]
    processes: int
    shares: Tuple[Tuple[str, int], ...]  # (consumer, mJ), sorted by consumer


@dataclass(frozen=True)
class Anchor:
    """The last stored reading of a device. The next window starts there, even after a SIGKILL."""

    device: str
    epoch: str
    seq: int  # sequence of the next window; never decreases, also over epochs
    wall_us: int
    mono_us: int
    counter_mj: int
    boot: str
    measurement: str
    sole: Optional[str] = None  # the only consumer of the last window, if there was only one


@dataclass(frozen=True)
class ClosedWindows:
    """Windows and gaps closed by a reading, with their anchor (one transaction)."""

    windows: Tuple[Window, ...] = ()
    gaps: Tuple[Gap, ...] = ()
    anchor: Optional[Anchor] = None


NOTHING_CLOSED = ClosedWindows()


@dataclass
class _Gauge:
    """A time-weighted integer mean and the maximum of a gauge that may be missing."""

    weighted: int = 0
    time_us: int = 0
    maximum: Optional[int] = None

    def add(self, value: Optional[int], duration_us: int) -> None:
        if value is None:
            return
        self.weighted += value * duration_us
        self.time_us += duration_us
        self.maximum = value if self.maximum is None else max(self.maximum, value)

    @property
    def mean(self) -> Optional[int]:
        return self.weighted // self.time_us if self.time_us else self.maximum


@dataclass
class _OpenWindow:
    """The window that is being filled."""

    start_us: int
    boundary_us: int  # it ends at the first reading from here on
    first: Reading
    last: Reading
    parts: Dict[str, int] = field(default_factory=dict)  # consumer → mJ × PARTS
    util: _Gauge = field(default_factory=_Gauge)
    memory: _Gauge = field(default_factory=_Gauge)
    processes: int = 0
    flags: int = 0

    @property
    def energy_mj(self) -> int:
        return self.last.counter_mj - self.first.counter_mj

    def add_interval(self, reading: Reading, weights: Mapping[str, int]) -> None:
        """Add the interval since the last reading, divided by ``weights``."""
        energy_mj = reading.counter_mj - self.last.counter_mj
        duration_us = max(0, reading.monotonic_us - self.last.monotonic_us)
        sole = sole_consumer(weights)
        parts = {sole: PART_SCALE} if sole else largest_remainder(PART_SCALE, weights)
        for consumer, part in parts.items():
            self.parts[consumer] = self.parts.get(consumer, 0) + energy_mj * part
        self.util.add(reading.util_pm, duration_us)
        self.memory.add(reading.memory_mib, duration_us)
        self.processes = max(self.processes, len(reading.processes or ()))
        self.flags |= reading.flags
        self.last = reading

    def shares(self) -> Dict[str, int]:
        """Return the mJ by consumer. They sum to energy_mj."""
        shares = largest_remainder(self.energy_mj, self.parts) if self.energy_mj else {}
        return {consumer: energy_mj for consumer, energy_mj in sorted(shares.items()) if energy_mj}


def next_boundary(wall_us: int, grid_us: int) -> int:
    """Return the first boundary after ``wall_us``: the next point of the UTC grid, or the hour if
    that is earlier.
    """
    hour_us = (wall_us // HOUR_US + 1) * HOUR_US
    return min((wall_us // grid_us + 1) * grid_us, hour_us)


def last_boundary(wall_us: int, grid_us: int) -> int:
    """Return the last boundary at or before ``wall_us``."""
    return max(wall_us // grid_us * grid_us, wall_us // HOUR_US * HOUR_US)


def sole_consumer(weights: Mapping[str, int]) -> Optional[str]:
    """Return the only consumer with weight, or None."""
    sole = None
    for consumer, weight in weights.items():
        if weight:
            if sole is not None:
                return None
            sole = consumer
    return sole


class WindowBuilder:
    """Windows of one device. Add each reading in order and store each result in one transaction."""

    def __init__(
        self,
        *,
        device: str,
        boot: str,
        grid_us: int,
        tolerance_us: int,
        anchor: Optional[Anchor] = None,
    ) -> None:
        """``grid_us``: length of a window. ``tolerance_us``: maximum delay of a reading that still
        counts as the boundary.
        """
        self.device = device
        self._boot = boot
        self._grid_us = grid_us
        self._tolerance_us = tolerance_us
        self._anchor = anchor
        self._window: Optional[_OpenWindow] = None
        self._weights: Mapping[str, int] = {}

    def add(
        self, reading: Reading, weights: Mapping[str, int], *, gap_reason: str = ""
    ) -> ClosedWindows:
        """Add a reading. ``weights``: use of the device since the previous one (integers, any
        scale).

        ``gap_reason``: the source's reason of an epoch change, if known.
        """
        weights = weights if any(weights.values()) else {UNKNOWN: 1}
        if self._window is None:
            closed = self._start(reading, weights, gap_reason)
        elif (
            reading.epoch != self._window.last.epoch
            or reading.counter_mj < self._window.last.counter_mj
        ):
            closed = self._close_at_restart(reading, gap_reason)
        elif reading.monotonic_us <= self._window.last.monotonic_us:
            return NOTHING_CLOSED  # the same moment: the next reading includes the difference
        else:
            closed = self._extend(reading, weights)
        self._weights = weights
        return closed

    def flush(self) -> ClosedWindows:
        """Close the open window at its last reading, when the daemon stops."""
        if self._window is None or self._window.last is self._window.first:
            return NOTHING_CLOSED
        open_window = self._window
        window = self._close(open_window, self._placed_end(open_window, open_window.last.wall_us))
        self._window = None
        return ClosedWindows((window,), (), self._anchor)

    @property
    def open_since_us(self) -> Optional[int]:
        """Start of the open window, UTC µs."""
        return self._window.start_us if self._window else None

    def open_shares(self) -> Dict[str, int]:
        """Return the mJ of the open window by consumer."""
        return self._window.shares() if self._window else {}

    def _start(
        self, reading: Reading, weights: Mapping[str, int], gap_reason: str
    ) -> ClosedWindows:
        anchor = self._anchor
        if anchor is None:
            return self._open_window(reading, reading.wall_us, 0)
        if anchor.epoch != reading.epoch or reading.counter_mj < anchor.counter_mj:
            gap = self._gap(anchor.epoch, anchor.wall_us, reading, gap_reason)
            return replace(self._open_window(reading, gap.to_us, anchor.seq), gaps=(gap,))
        if reading.counter_mj == anchor.counter_mj and reading.wall_us <= anchor.wall_us:
            return self._open_window(reading, anchor.wall_us, anchor.seq)
        window = self._recover(anchor, reading, weights)
        closed = self._open_window(reading, window.end_us, anchor.seq + 1)
        return replace(closed, windows=(window,))

    def _recover(self, anchor: Anchor, reading: Reading, weights: Mapping[str, int]) -> Window:
        """Return one window for the unmeasured time. Its consumer is known only if the same run is
        sole before and after.
        """
        # The monotonic clock of another boot cannot be compared, so the wall clock is used.
        absence_us = max(0, reading.wall_us - anchor.wall_us)
        mono_us = anchor.mono_us if anchor.boot == self._boot else reading.monotonic_us - absence_us
        # The current use does not describe the past.
        reading = replace(reading, util_pm=None, memory_mib=None, processes=None)
        before = replace(
            reading,
            monotonic_us=mono_us,
            wall_us=anchor.wall_us,
            counter_mj=anchor.counter_mj,
            flags=0,
        )
        boundary_us = next_boundary(anchor.wall_us, self._grid_us)
        window = _OpenWindow(anchor.wall_us, boundary_us, before, before, flags=FLAG_RECOVERED)
        sole = sole_consumer(weights)
        is_same_run = sole is not None and sole == anchor.sole and sole.startswith("run:")
        window.add_interval(reading, weights if is_same_run else {UNKNOWN: 1})
        return self._close(window, self._placed_end(window, reading.wall_us))

    def _close_at_restart(self, reading: Reading, gap_reason: str) -> ClosedWindows:
        """Handle a restart of the counter: close at the last valid reading, declare the gap, open a
        new window.
        """
        closed = self.flush()
        assert self._anchor is not None
        anchor = self._anchor
        gap = self._gap(anchor.epoch, anchor.wall_us, reading, gap_reason)
        return replace(
            self._open_window(reading, gap.to_us, anchor.seq), windows=closed.windows, gaps=(gap,)
        )

    def _extend(self, reading: Reading, weights: Mapping[str, int]) -> ClosedWindows:
        window = self._window
        assert window is not None
        before = window.last
        elapsed_us = reading.monotonic_us - before.monotonic_us
        if elapsed_us > MAX_UNWATCHED_US and (
            sole_consumer(weights) is None or sole_consumer(weights) != sole_consumer(self._weights)
        ):
            weights = {UNKNOWN: 1}
        window.add_interval(reading, weights)
        drift_us = reading.wall_us - before.wall_us - elapsed_us
        if abs(drift_us) > MAX_CLOCK_DRIFT_US:
            return self._cut_at_step(window, before, reading)
        if reading.wall_us < window.boundary_us:
            return NOTHING_CLOSED
        cut_us = last_boundary(reading.wall_us, self._grid_us)
        is_on_time = reading.wall_us - cut_us <= self._tolerance_us
        return self._close_at(window, reading, cut_us if is_on_time else reading.wall_us)

    def _cut_at_step(self, window: _OpenWindow, before: Reading, reading: Reading) -> ClosedWindows:
        """Handle a step of the wall clock: end the window in the old time, start the next one in
        the new time.
        """
        elapsed_us = reading.monotonic_us - before.monotonic_us
        end_us = self._placed_end(window, max(before.wall_us, window.start_us) + elapsed_us)
        return self._close_at(window, reading, end_us, reading.wall_us)

    def _close_at(
        self,
        open_window: _OpenWindow,
        reading: Reading,
        end_us: int,
        start_us: Optional[int] = None,
    ) -> ClosedWindows:
        window = self._close(open_window, end_us)
        closed = self._open_window(
            reading, end_us if start_us is None else start_us, window.seq + 1
        )
        return replace(closed, windows=(window,))

    def _open_window(self, reading: Reading, start_us: int, seq: int) -> ClosedWindows:
        boundary_us = next_boundary(start_us, self._grid_us)
        self._window = _OpenWindow(start_us, boundary_us, reading, reading)
        sole = self._anchor.sole if self._anchor and self._anchor.epoch == reading.epoch else None
        self._anchor = self._anchor_at(reading, start_us, seq, sole)
        return ClosedWindows(anchor=self._anchor)

    def _close(self, window: _OpenWindow, end_us: int) -> Window:
        shares = window.shares()
        seq = self._anchor.seq if self._anchor else 0
        closed = Window(
            device=self.device,
            epoch=window.first.epoch,
            seq=seq,
            start_us=window.start_us,
            end_us=end_us,
            mono_start_us=window.first.monotonic_us,
            mono_end_us=window.last.monotonic_us,
            counter_start_mj=window.first.counter_mj,
            counter_end_mj=window.last.counter_mj,
            energy_mj=window.energy_mj,
            measurement=window.last.measurement,
            flags=window.flags,
            util_mean_pm=window.util.mean,
            util_max_pm=window.util.maximum,
            mem_mean_mib=window.memory.mean,
            mem_max_mib=window.memory.maximum,
            processes=window.processes,
            shares=tuple(shares.items()),
        )
        self._anchor = self._anchor_at(window.last, end_us, seq + 1, sole_consumer(window.parts))
        return closed

    def _anchor_at(self, reading: Reading, wall_us: int, seq: int, sole: Optional[str]) -> Anchor:
        return Anchor(
            device=self.device,
            epoch=reading.epoch,
            seq=seq,
            wall_us=wall_us,
            mono_us=reading.monotonic_us,
            counter_mj=reading.counter_mj,
            boot=self._boot,
            measurement=reading.measurement,
            sole=sole,
        )

    @staticmethod
    def _placed_end(window: _OpenWindow, wall_us: int) -> int:
        """Return the end of a window. After a step behind its start it gets the measured length,
        because no window is empty.
        """
        if wall_us > window.start_us:
            return wall_us
        return window.start_us + max(1, window.last.monotonic_us - window.first.monotonic_us)

    def _gap(self, epoch: str, from_us: int, reading: Reading, reason: str) -> Gap:
        is_rebooted = self._anchor is not None and self._anchor.boot != self._boot
        reason = reason or ("reboot" if is_rebooted else "lost")
        return Gap(self.device, epoch, from_us, max(reading.wall_us, from_us + 1), reason)
