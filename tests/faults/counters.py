"""Advances the simulated driver's counters continuously and records every value independently."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from tests.fakes.nvml_driver import FakeDriver, FakeGpu, process

STEP_S = 0.05
# Maximum step if the thread was delayed; a real board has a maximum power, too.
LONGEST_S = 0.25
POWER_W = (40, 250)
# A reset is invisible to a collector if the counter exceeds the last reading before the next one.
# So a counter is reset only above a value that takes more than 20 s at the highest power, which is
# longer than any downtime in these tests.
UNMISTAKABLE_MJ = 5_000_000
FULL_MJ = 4 * UNMISTAKABLE_MJ


@dataclass
class CounterPeriod:
    """A counter between two resets: every value, the last one being its peak."""

    values_mj: list[int]
    fell_us: int = 0  # wall time of the reset; 0 if there was none yet


@dataclass
class Record:
    """The history of one GPU: the truth for the oracle."""

    start_mj: int
    periods: list[CounterPeriod] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.periods.append(CounterPeriod([self.start_mj]))

    @property
    def now_mj(self) -> int:
        return self.periods[-1].values_mj[-1]

    def rise(self, drawn_mj: int) -> None:
        self.periods[-1].values_mj.append(self.now_mj + drawn_mj)

    def fall(self, wall_us: int) -> None:
        self.periods[-1].fell_us = wall_us
        self.periods.append(CounterPeriod([0]))

    def at(self, counter_mj: int, falls: int) -> int:
        """Return the energy since the start when the counter had the value ``counter_mj`` after
        ``falls`` resets.
        """
        return sum(life.values_mj[-1] for life in self.periods[:falls]) + counter_mj - self.start_mj

    @property
    def total_mj(self) -> int:
        return self.at(self.now_mj, len(self.periods) - 1)

    def falls_before(self, readings_mj: set[int], wall_us: int) -> int:
        """Return the number of resets before the counter had all these values. Ambiguous cases are
        decided by time.

        A collector may place a restart earlier than it was, because it knows the power and not the
        time. Time alone would be wrong.
        """
        candidates = [
            falls
            for falls, period in enumerate(self.periods)
            if readings_mj <= set(period.values_mj)
        ]
        assert candidates, f"the counter never showed {sorted(readings_mj)} without a fall between"
        by_time = sum(1 for period in self.periods if 0 < period.fell_us < wall_us)
        return min(candidates, key=lambda falls: abs(falls - by_time))


class CounterSimulator:
    """A thread that adds energy on every GPU and starts and ends processes."""

    def __init__(self, driver: FakeDriver, rng: random.Random, pids: list[int]) -> None:
        self._driver, self._rng, self._pids = driver, rng, pids
        self.records = {gpu.key: Record(gpu.counter_mj) for gpu in driver.gpus}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def freeze(self) -> None:
        """Stop for good: counters keep their value."""
        self._stop.set()
        self._thread.join()

    def fall(self) -> None:
        """Reset the fullest GPU's counter to zero, if that can be distinguished from a pause."""
        gpu = max(self._driver.gpus, key=lambda gpu: gpu.counter_mj)
        record = self.records[gpu.key]
        if gpu.counter_mj < UNMISTAKABLE_MJ:
            return
        with self._lock:
            record.fall(time.time_ns() // 1000)
            gpu.set_counter_mj(0)

    def _run(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(STEP_S):
            now = time.monotonic()
            elapsed_ms = round(min(now - before, LONGEST_S) * 1000)
            before = now
            with self._lock:
                for gpu in self._driver.gpus:
                    self._step(gpu, elapsed_ms)

    def _step(self, gpu: FakeGpu, elapsed_ms: int) -> None:
        record = self.records[gpu.key]
        drawn_mj = self._rng.randint(*POWER_W) * elapsed_ms
        record.rise(drawn_mj)
        gpu.add_mj(drawn_mj)
        if self._rng.random() < 0.05:
            here = self._rng.sample(self._pids, self._rng.randint(0, len(self._pids)))
            gpu.set_processes(
                *(
                    process(pid, sm_percent=self._rng.randint(0, 100), memory_mib=100)
                    for pid in here
                )
            )
