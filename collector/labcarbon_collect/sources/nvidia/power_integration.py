"""Energy of GPUs without a working counter: power samples at random intervals, integrated.

Regular intervals could synchronise with periodic work and always sample its peak or always its
pause. The mean interval follows the sensor: its value is sampled at least once per update.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.nvidia.driver import GpuLost
from labcarbon_collect.sources.nvidia.gpu import Gpu

# While the update interval of the sensor is unknown.
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 0.2
# The time between two samples further apart than this is a gap.
MAX_SAMPLE_GAP_US = 2_000_000
# A search samples this often for this long, after a change of the value.
SEARCH_INTERVAL_S, SEARCH_US = 0.005, 3_000_000
SEARCH_AGAIN_US = 60_000_000  # after a search without result
SEARCH_RENEWED_US = 3_600_000_000  # after one with a result: the fastest is valid
MIN_CHANGES = 5  # in a search, for a result
FASTEST_US, SLOWEST_US = 20_000, 200_000  # limits of the sampled interval


class SensorInterval:
    """The update interval of a power sensor, found from the times at which its value changes."""

    def __init__(self) -> None:
        self.interval_us: Optional[int] = None
        self._last_mw: Optional[int] = None
        self._changes_us: List[int] = []
        self._search_until_us: Optional[int] = None
        self._search_from_us = 0

    def add(self, monotonic_us: int, power_mw: int) -> None:
        """Add a sample."""
        is_changed = self._last_mw is not None and power_mw != self._last_mw
        self._last_mw = power_mw
        if self._search_until_us is None:
            if is_changed and monotonic_us >= self._search_from_us:
                self._search_until_us, self._changes_us = monotonic_us + SEARCH_US, []
            return
        if is_changed:
            self._changes_us.append(monotonic_us)
        if monotonic_us >= self._search_until_us:
            self._end_search(monotonic_us)

    def wait_s(self) -> float:
        """Return the time to the next sample, random within its limits."""
        if self._search_until_us is not None:
            return SEARCH_INTERVAL_S
        if self.interval_us is None:
            return random.uniform(MIN_INTERVAL_S, MAX_INTERVAL_S)  # noqa: S311 - jitter, no secret
        sampled_us = min(max(self.interval_us, FASTEST_US), SLOWEST_US)
        return sampled_us * random.uniform(0.5, 1.0) / 1_000_000  # noqa: S311 - as above

    def _end_search(self, monotonic_us: int) -> None:
        """Take the lower quartile of the times between changes: a value may repeat, never come
        early.
        """
        times = sorted(
            after - before for before, after in zip(self._changes_us, self._changes_us[1:])
        )
        self._search_until_us = None
        self._search_from_us = monotonic_us + SEARCH_AGAIN_US
        if len(times) + 1 >= MIN_CHANGES:
            found_us = times[len(times) // 4]
            self.interval_us = min(found_us, self.interval_us or found_us)
            self._search_from_us = monotonic_us + SEARCH_RENEWED_US


@dataclass
class PowerIntegral:
    """Power over time by the trapezoid rule in integers: mW × µs = nJ, doubled so that halving is
    exact.
    """

    started: Optional[Clock] = None  # of the current segment
    gaps: List[Tuple[Clock, Clock]] = field(default_factory=list)
    _doubled_nj: int = 0
    _last: Optional[Clock] = None
    _last_mw: int = 0

    @property
    def total_mj(self) -> int:
        """Energy of the current segment in mJ, floored on the running total."""
        return self._doubled_nj // 2_000_000

    def add(self, clock: Clock, power_mw: int) -> None:
        """Add a sample. After a long interval a new segment starts at zero and the gap is
        recorded.
        """
        last = self._last
        if last is not None and clock.monotonic_us <= last.monotonic_us:
            # two threads read the clock in one order and added in the other: the later sample is
            # valid
            return
        if last is not None and clock.monotonic_us - last.monotonic_us > MAX_SAMPLE_GAP_US:
            self.gaps.append((last, clock))
            last = None
        if last is None:
            self.started, self._doubled_nj = clock, 0
        else:
            self._doubled_nj += (self._last_mw + power_mw) * (
                clock.monotonic_us - last.monotonic_us
            )
        self._last, self._last_mw = clock, power_mw


@dataclass(frozen=True)
class PowerSample:
    """The integral of a GPU at one moment. ``gaps`` are returned one time: last sample before,
    first sample after.
    """

    clock: Clock
    power_mw: int
    started: Clock
    total_mj: int
    gaps: Tuple[Tuple[Clock, Clock], ...]


@dataclass
class _SampledGpu:
    gpu: Gpu
    integral: PowerIntegral = field(default_factory=PowerIntegral)
    sensor: SensorInterval = field(default_factory=SensorInterval)
    due_s: float = 0.0


class PowerSampler:
    """Samples the power of GPUs in one thread, which runs as long as there are any. ``poll`` of the
    source adds a sample at each reading.
    """

    def __init__(
        self,
        now: Callable[[], Clock],
        *,
        threaded: bool = True,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._timer = now, timer
        self._threaded = threaded
        self._lock = threading.Lock()
        self._sampled: Dict[str, _SampledGpu] = {}
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def add(self, gpu: Gpu, powers: Sequence[Tuple[Clock, int]] = ()) -> None:
        """Sample a GPU from now on. ``powers``: earlier samples, oldest first."""
        sampled = _SampledGpu(gpu)
        for clock, power_mw in powers:
            sampled.integral.add(clock, power_mw)
        sampled.integral.gaps = []  # before the first segment nothing was integrated
        with self._lock:
            self._sampled[gpu.key] = sampled
        if self._threaded and self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(
                target=self._run, name="labcarbon-nvml-power", daemon=True
            )
            self._thread.start()

    def remove(self, gpu: Gpu) -> None:
        """Stop sampling a GPU."""
        with self._lock:
            self._sampled.pop(gpu.key, None)
            is_last = not self._sampled
        if is_last:
            self.close()

    def sample(self, gpu: Gpu, now: Callable[[], Clock]) -> PowerSample:
        """Sample one GPU and return its integral up to now. Raises GpuLost."""
        with self._lock:
            sampled = self._sampled[gpu.key]
            clock, power_mw = _add_sample(sampled, now)
            integral = sampled.integral
            gaps, integral.gaps = tuple(integral.gaps), []
            return PowerSample(clock, power_mw, integral.started or clock, integral.total_mj, gaps)

    def started(self, gpu: Gpu) -> Optional[Clock]:
        """Return the start of a GPU's current segment."""
        with self._lock:
            return self._sampled[gpu.key].integral.started

    def interval_us(self, gpu: Gpu) -> Optional[int]:
        """Return the update interval of a GPU's sensor, None while it is unknown."""
        with self._lock:
            return self._sampled[gpu.key].sensor.interval_us

    def close(self) -> None:
        """Stop the thread and wait for it. Never raises."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def next_wait_s(self) -> float:
        """Return the time until the next GPU is due."""
        with self._lock:
            due_s = min((each.due_s for each in self._sampled.values()), default=0.0)
        return min(max(due_s - self._timer(), 0.001), MAX_INTERVAL_S)

    def sample_due(self) -> None:
        """Sample the GPUs that are due."""
        with self._lock:
            for sampled in list(self._sampled.values()):
                if self._timer() < sampled.due_s:
                    continue
                try:
                    if not sampled.gpu.is_suspended():
                        _add_sample(sampled, self._now)
                except GpuLost:
                    # the next poll reports the same failure; the gap is recorded at the next sample
                    pass
                sampled.due_s = self._timer() + sampled.sensor.wait_s()

    def _run(self) -> None:
        while not self._stop.wait(self.next_wait_s()):
            self.sample_due()


def _add_sample(sampled: _SampledGpu, now: Callable[[], Clock]) -> Tuple[Clock, int]:
    power_mw = sampled.gpu.power_mw()
    if power_mw is None:
        raise GpuLost(f"{sampled.gpu.name}: power is no longer reported")
    clock = now()
    sampled.integral.add(clock, power_mw)
    sampled.sensor.add(clock.monotonic_us, power_mw)
    return clock, power_mw
