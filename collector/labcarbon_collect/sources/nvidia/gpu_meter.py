"""Energy of one GPU: its counter as long as it moves, else its integrated power."""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import Gap
from labcarbon_collect.sources.epochs import CounterReading, place_reading
from labcarbon_collect.sources.idle_threshold import busy_above_mw
from labcarbon_collect.sources.nvidia.driver import GpuLost
from labcarbon_collect.sources.nvidia.gpu import Gpu
from labcarbon_collect.sources.nvidia.power_integration import PowerSampler

SECOND_US = 1_000_000
# A counter that has not moved for longer than this stands still. Drivers refresh it every 20–100
# ms.
STANDS_US = SECOND_US // 2
# Three update intervals. A poll is the longest one that a counter is known to need.
MAX_STANDSTILL_US = 3 * SECOND_US
# A counter of an idle GPU may be refreshed rarely. It draws power, so it must move at last.
MAX_IDLE_STANDSTILL_US = 60 * SECOND_US
# Polls in a row in which a counter must move before it is trusted again.
TRUSTED_MOVES = 3

MeterReading = Tuple[CounterReading, Optional[int], int, str]  # with power, flags, measurement
STANDS_STILL, NOT_REPORTED = "the energy counter stands still", "the energy counter is not reported"


class GpuMeter:
    """The energy of one GPU over its life. ``problem`` states why its counter is not used."""

    def __init__(self, gpu: Gpu, load: str, last: Optional[CounterReading] = None) -> None:
        self.gpu = gpu
        self.load = load  # of the driver; the first epoch of its counters
        self.last = last
        self.problem = ""
        self.problem_since_us = 0
        self.gaps: List[Gap] = []
        self._moved_us: Optional[int] = None  # monotonic time at which the counter last moved
        # Power since the last reading, for the time in which the counter stands still.
        self._powers: List[Tuple[Clock, int]] = []
        self._returning: List[Tuple[int, int]] = []  # (counter, integrated energy) of moving polls

    @property
    def is_integrated(self) -> bool:
        """Whether the energy is integrated from power."""
        return not self.gpu.has_counter or bool(self.problem)

    @property
    def is_resting(self) -> bool:
        """Whether the counter stands still at the last poll."""
        return len(self._powers) > 1

    def read(
        self,
        now: Callable[[], Clock],
        sampler: PowerSampler,
        learnt_idle_mw: Callable[[str], Optional[int]],
    ) -> List[MeterReading]:
        """Return the readings since the last call, none while the counter stands still: the next
        one includes the energy. Raises GpuLost.
        """
        if not self.gpu.has_counter:
            return [self._integrated(now, sampler)]
        if self.problem:
            return self._read_without_counter(now, sampler)
        counter_mj = self.gpu.counter_mj()
        clock = now()
        power_mw = self.gpu.power_mw()
        if counter_mj is None:
            return self._fall_back(NOT_REPORTED, clock, power_mw, now, sampler)
        if self.last is None or counter_mj != self.last.counter_mj or not power_mw:
            return self._counted(counter_mj, clock, power_mw)
        moved_us = self.last.monotonic_us if self._moved_us is None else self._moved_us
        still_us = clock.monotonic_us - moved_us
        if still_us <= STANDS_US:
            return self._counted(counter_mj, clock, power_mw)
        busy_mw = busy_above_mw(
            learnt_idle_mw=learnt_idle_mw(self.gpu.key), limit_mw=self.gpu.limit_mw
        )
        is_busy = busy_mw is not None and power_mw > busy_mw
        if still_us >= (MAX_STANDSTILL_US if is_busy else MAX_IDLE_STANDSTILL_US):
            return self._fall_back(STANDS_STILL, clock, power_mw, now, sampler)
        self._powers.append((clock, power_mw))
        return []

    def _counted(
        self, counter_mj: int, clock: Clock, power_mw: Optional[int]
    ) -> List[MeterReading]:
        """Return the counter's reading. After a fall whose restart can be placed, return two, from
        the restart on.
        """
        before = self.last
        step = place_reading(
            before,
            counter_mj,
            clock,
            load=self.load,
            limit_mw=self.gpu.limit_mw,
            power_mw=power_mw,
            moved_us=self._moved_us,
        )
        if before is not None and step.gap_until_us is not None:
            self._add_gap(before, step.gap_until_us, "driver")
        if before is None or counter_mj != before.counter_mj or self._moved_us is None:
            self._moved_us = clock.monotonic_us
        self.last = step.readings[-1][0]
        self._powers = [] if power_mw is None else [(clock, power_mw)]
        return [
            (last, power_mw if last is self.last else None, flags, "nvml_counter")
            for last, flags in step.readings
        ]

    def _fall_back(
        self,
        reason: str,
        clock: Clock,
        power_mw: Optional[int],
        now: Callable[[], Clock],
        sampler: PowerSampler,
    ) -> List[MeterReading]:
        """Integrate power from the last reading of the counter on, so that no energy is lost."""
        if power_mw is None:
            raise GpuLost(f"{self.gpu.name}: {reason} and neither is power")
        before = self.last
        sampler.add(self.gpu, [*self._powers, (clock, power_mw)])
        self.problem, self.problem_since_us = f"{reason}; power is integrated", clock.wall_us
        self._returning, self._powers, self._moved_us = [], [], None
        reading = self._integrated(now, sampler)
        started = sampler.started(self.gpu)
        if before is None or started is None:
            return [reading]
        self._add_gap(before, max(started.wall_us, before.wall_us + 1), "counter")
        first = CounterReading(reading[0].epoch, 0, started.monotonic_us, started.wall_us)
        return [(first, None, 0, "nvml_power"), reading]

    def _read_without_counter(
        self, now: Callable[[], Clock], sampler: PowerSampler
    ) -> List[MeterReading]:
        """Return the integrated reading, and the counter's as soon as it moves as power says."""
        counter_mj = self.gpu.counter_mj()
        reading = self._integrated(now, sampler)
        if not self._is_trusted(counter_mj, reading[0].counter_mj):
            return [reading]
        assert counter_mj is not None
        integrated = reading[0]
        sampler.remove(self.gpu)
        self.problem, self._moved_us = "", integrated.monotonic_us
        self._powers = [(Clock(integrated.monotonic_us, integrated.wall_us), reading[1] or 0)]
        self._add_gap(integrated, integrated.wall_us + 1, "counter")
        self.last = CounterReading(
            f"{self.load}.{integrated.monotonic_us:x}",
            counter_mj,
            integrated.monotonic_us,
            integrated.wall_us,
        )
        return [reading, (self.last, reading[1], 0, "nvml_counter")]

    def _is_trusted(self, counter_mj: Optional[int], integrated_mj: int) -> bool:
        """Whether the counter moved in each of the last polls, in all by half to twice the
        integrated energy.
        """
        if counter_mj is None or (self._returning and counter_mj <= self._returning[-1][0]):
            self._returning = []
        if counter_mj is not None:
            self._returning = [*self._returning, (counter_mj, integrated_mj)][-TRUSTED_MOVES - 1 :]
        if len(self._returning) <= TRUSTED_MOVES:
            return False
        counted = self._returning[-1][0] - self._returning[0][0]
        drawn = self._returning[-1][1] - self._returning[0][1]
        return drawn <= 2 * counted <= 4 * drawn

    def _integrated(self, now: Callable[[], Clock], sampler: PowerSampler) -> MeterReading:
        sampled = sampler.sample(self.gpu, now)
        for before, after in sampled.gaps:
            epoch = self.last.epoch if self.last else self.load
            self.gaps.append(Gap(self.gpu.key, epoch, before.wall_us, after.wall_us, "lost"))
        self.last = CounterReading(
            f"{self.load}.s{sampled.started.monotonic_us:x}",
            sampled.total_mj,
            sampled.clock.monotonic_us,
            sampled.clock.wall_us,
        )
        return self.last, sampled.power_mw, 0, "nvml_power"

    def _add_gap(self, before: CounterReading, to_us: int, reason: str) -> None:
        self.gaps.append(Gap(self.gpu.key, before.epoch, before.wall_us, to_us, reason))
