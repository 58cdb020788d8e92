"""Shared by the NVML tests: a stepped clock, and a source on the simulated driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import Reading
from labcarbon_collect.sources.nvidia.source import NvmlSource

from tests.fakes.nvml_driver import FakeDriver

START_US = 1_790_000_000_000_000
BOOT = "11111111-2222-3333-4444-555555555555"


class SteppedClock:
    """Both clocks, advanced only by the test. The driver's GPUs draw their power meanwhile."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.monotonic_us = 5_000_000_000
        self.wall_us = START_US

    def __call__(self) -> Clock:
        return Clock(self.monotonic_us, self.wall_us)

    def step(self, seconds: float) -> None:
        self.driver.step(seconds)
        self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        """Advance time without GPU energy."""
        self.monotonic_us += round(seconds * 1_000_000)
        self.wall_us += round(seconds * 1_000_000)


class Bench:
    """A driver, a clock and a source that uses both."""

    def __init__(self, driver: FakeDriver, sys_root: Path, **options: Any) -> None:
        self.driver = driver
        self.clock = SteppedClock(driver)
        self.sys_root = sys_root
        (sys_root / "module" / "nvidia").mkdir(parents=True, exist_ok=True)
        self.source = self.new_source(**options)

    def new_source(self, *, threaded: bool = False, **options: Any) -> NvmlSource:
        return NvmlSource(
            "node",
            {},
            now=self.clock,
            sys_root=str(self.sys_root),
            boot=BOOT,
            pause=lambda seconds: None,
            threaded=threaded,
            **options,
        )

    def reload_driver(self) -> None:
        """Reload the kernel module: a new folder in sysfs, counters at zero."""
        module = self.sys_root / "module" / "nvidia"
        module.rename(
            module.with_name(f"old{self.clock.monotonic_us}")
        )  # preserved, so that its inode is not reused
        module.mkdir()
        self.driver.reload()

    def poll(self, *, with_processes: bool = True) -> list[Reading]:
        return list(self.source.poll(self.clock, with_processes=with_processes))

    def poll_one(self) -> Reading:
        (reading,) = self.poll()
        return reading
