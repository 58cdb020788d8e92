"""A simulated node: a stepped clock, meters with a known integer counter, known processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labcarbon_collect.clock import Clock
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.sources.base import DeviceInfo, Gap, ProcessUse, Reading, SourceFailed
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.capacity import SpoolCapacity
from labcarbon_collect.spool.store import Spool

from tests.collector.readings import GPU, MINUTE, SECOND, T0

BOOT = "11111111-2222-4333-8444-555555555555"
NODE = "0e7b9c1a-0000-4000-8000-00000000000a"
CPU = f"cpu:{NODE}/0"


@dataclass
class Machine:
    """The true state of the machine."""

    clock: Clock = field(default_factory=lambda: Clock(1000 * SECOND, T0))
    gpu_mj: int = 1_000_000
    cpu_mj: int = 500_000
    epoch: str = "e1"
    processes: tuple[ProcessUse, ...] | None = ()
    cpu_us: dict[str, int] = field(default_factory=dict)
    busy_us: int = 0
    is_lost: bool = False

    def now(self) -> Clock:
        return self.clock

    def step(
        self, seconds: float = 1, *, gpu_mj: int = 0, cpu_mj: int = 0, wall_s: float | None = None
    ) -> None:
        """Advance time and energy."""
        wall_s = seconds if wall_s is None else wall_s
        self.clock = Clock(
            self.clock.monotonic_us + round(seconds * SECOND),
            self.clock.wall_us + round(wall_s * SECOND),
        )
        self.gpu_mj += gpu_mj
        self.cpu_mj += cpu_mj

    def work(self, consumer: str, cpu_us: int) -> None:
        """Let a consumer use the processors."""
        self.cpu_us[consumer] = self.cpu_us.get(consumer, 0) + cpu_us
        self.busy_us += cpu_us


class MachineSource:
    """The meters of a Machine."""

    name = "machine"

    def __init__(self, machine: Machine, *, idle_mw: int | None = 0, cpu: bool = True) -> None:
        self.machine, self.idle_mw, self.cpu = machine, idle_mw, cpu
        self.opened = 0

    def open(self) -> Sequence[DeviceInfo]:
        self.opened += 1
        if self.machine.is_lost:
            raise SourceFailed("it fell off the bus")
        facts = {} if self.idle_mw is None else {"idle_mw": str(self.idle_mw)}
        devices = [DeviceInfo(GPU, "NVIDIA H100 80GB HBM3", "nvml_counter", facts)]
        return (
            [*devices, DeviceInfo(CPU, "AMD EPYC 9354", "cpu_model", facts)]
            if self.cpu
            else devices
        )

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        if self.machine.is_lost:
            raise SourceFailed("it fell off the bus")
        machine, clock = self.machine, now()
        gpu = Reading(
            GPU,
            clock.monotonic_us,
            clock.wall_us,
            machine.gpu_mj,
            machine.epoch,
            "nvml_counter",
            processes=machine.processes if with_processes else None,
        )
        cpu = Reading(CPU, clock.monotonic_us, clock.wall_us, machine.cpu_mj, "c1", "cpu_model")
        return [gpu, cpu] if self.cpu else [gpu]

    def gaps(self) -> Sequence[Gap]:
        return ()

    def close(self) -> None:
        """Do nothing."""


class FakeConsumers:
    """Consumers of the Machine. ``keys`` maps pids to consumers."""

    def __init__(self, machine: Machine, keys: Mapping[int, str] | None = None) -> None:
        self.machine, self.keys = machine, dict(keys or {})
        self.ended: list[tuple[str, int]] = []

    def snapshot(self) -> None:
        """Do nothing: the machine is always read directly."""

    def consumer_of(self, pid: int) -> str:
        return self.keys.get(pid, "unknown")

    def cpu_time_us_by_consumer(self) -> Mapping[str, int]:
        return dict(self.machine.cpu_us)

    def jobs(self) -> Mapping[str, int]:
        return {key: 1000 for key in self.keys.values() if key.startswith("job:")}

    def job_of(self, pid: int) -> str:
        return ""

    def register(self, run_uuid: str, pid: int, uid: int) -> None:
        self.keys[pid] = f"run:{run_uuid}"

    def end(self, run_uuid: str, children_cpu_us: int) -> None:
        self.ended.append((run_uuid, children_cpu_us))


def node_monitor(
    home: Path,
    machine: Machine,
    *,
    consumers: FakeConsumers | None = None,
    max_bytes: int = 200 << 20,
    **source: Any,
) -> NodeMonitor:
    """Return a monitor on ``home``, as after a start of the daemon."""
    spool = Spool(home, check=True)
    sources = SourcePoller([("machine", MachineSource(machine, **source))], now=machine.now)
    return NodeMonitor(
        spool=spool,
        capacity=SpoolCapacity(spool, max_bytes=max_bytes),
        sources=sources,
        consumers=consumers or FakeConsumers(machine),
        boot=BOOT,
        grid_us=MINUTE,
        now=machine.now,
        busy_us=lambda: machine.busy_us,
    )
