"""Energy of GPUs without a counter: power samples at random intervals, integrated.

Regular intervals could synchronise with periodic work and always sample its peak or always its
pause.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.nvidia.driver import GpuLost
from labcarbon_collect.sources.nvidia.gpu import Gpu

MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 0.2
# The time between two samples further apart than this is a gap.
MAX_SAMPLE_GAP_US = 2_000_000


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


class PowerSampler:
    """Samples the power of GPUs in one thread. ``poll`` of the source adds a sample at each
    reading.
    """

    def __init__(
        self, gpus: Sequence[Gpu], now: Callable[[], Clock], *, threaded: bool = True
    ) -> None:
        self._gpus = list(gpus)
        self._now = now
        self._lock = threading.Lock()
        self._integrals = {gpu.key: PowerIntegral() for gpu in gpus}
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        if threaded and self._gpus:
            self._thread = threading.Thread(
                target=self._run, name="labcarbon-nvml-power", daemon=True
            )
            self._thread.start()

    def sample(self, gpu: Gpu, now: Callable[[], Clock]) -> PowerSample:
        """Sample one GPU and return its integral up to now. Raises GpuLost."""
        with self._lock:
            clock, power_mw, integral = self._add_sample(gpu, now)
            gaps, integral.gaps = tuple(integral.gaps), []
            return PowerSample(clock, power_mw, integral.started or clock, integral.total_mj, gaps)

    def _add_sample(self, gpu: Gpu, now: Callable[[], Clock]) -> Tuple[Clock, int, PowerIntegral]:
        power_mw = gpu.instant_mw()
        if power_mw is None:
            raise GpuLost(f"{gpu.name}: power is no longer reported")
        clock, integral = now(), self._integrals[gpu.key]
        integral.add(clock, power_mw)
        return clock, power_mw, integral

    def close(self) -> None:
        """Stop the thread and wait for it. Never raises."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(random.uniform(MIN_INTERVAL_S, MAX_INTERVAL_S)):  # noqa: S311 - jitter, no secret
            for gpu in self._gpus:
                try:
                    if not gpu.is_suspended():
                        with self._lock:
                            self._add_sample(gpu, self._now)
                except GpuLost:
                    # the next poll reports the same failure; the gap is recorded at the next sample
                    continue
