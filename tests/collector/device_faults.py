"""Faults of one of two GPUs at three moments: what is counted, declared and reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labcarbon_collect.doctor.meters import device_problems_check
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.capacity import SpoolCapacity
from labcarbon_collect.spool.store import Spool

from tests.collector.nvml_bench import BOOT, Bench
from tests.collector.readings import MINUTE
from tests.collector.simulated_node import FakeConsumers, Machine
from tests.fakes.nvml_driver import FakeGpu, process
from tests.fakes.nvml_state import CAN_COUNTER, PROFILES

POWER_MW = 400_000
AFTER_S = 700  # longer than the ten minutes after which a GPU is silent
FAULT_S = 45  # until a passing fault is over
HOPPER = PROFILES["hopper"].capabilities
MOMENTS = {"start": 0, "mid-window": 90, "window end": 120}


def _wrap(gpu: FakeGpu) -> None:
    gpu.set_counter_mj(3)


# name: (beginning, end after FAULT_S or None)
FAULTS: dict[str, tuple[Callable[[FakeGpu], None], Callable[[FakeGpu], None] | None]] = {
    "lost": (lambda gpu: gpu.set(lost=1), None),
    "back": (lambda gpu: gpu.set(lost=1), lambda gpu: gpu.set(lost=0)),
    "stalled": (lambda gpu: gpu.stall(), lambda gpu: gpu.publish()),
    "stalled for good": (lambda gpu: gpu.stall(), None),
    "jumped": (lambda gpu: gpu.add_mj(50_000_000), None),
    "reset": (lambda gpu: gpu.set_counter_mj(0), None),
    "wrapped": (_wrap, None),
    "refused": (lambda gpu: gpu.set(capabilities=HOPPER & ~CAN_COUNTER), None),
    "refused and back": (
        lambda gpu: gpu.set(capabilities=HOPPER & ~CAN_COUNTER),
        lambda gpu: gpu.set(capabilities=HOPPER),
    ),
    "MIG on": (lambda gpu: gpu.set_mig(3, 4), None),
    "MIG off": (lambda gpu: gpu.set_mig(), None),
}


@dataclass(frozen=True)
class Outcome:
    """What the collector counted, declared and reported of the GPU with the fault.

    ``states``: of the GPU, in order, as ``status`` shows them. ``other_error_mj``: of the healthy
    GPU.
    """

    drawn_mj: int
    counted_mj: int
    other_error_mj: int
    gap_s: float
    gap_reasons: tuple[str, ...]
    states: tuple[str, ...]
    doctor: str

    @property
    def error_mj(self) -> int:
        return self.counted_mj - self.drawn_mj


def node_of(machine: Bench, home: Path) -> NodeMonitor:
    """Return a monitor of the machine's GPUs, as after a start of the daemon."""
    spool = Spool(home, check=True)
    return NodeMonitor(
        spool=spool,
        capacity=SpoolCapacity(spool, max_bytes=200 << 20),
        sources=SourcePoller([("nvml", machine.source)], now=machine.clock),
        consumers=FakeConsumers(Machine(), {7: "run:a"}),
        boot=BOOT,
        grid_us=MINUTE,
        now=machine.clock,
        busy_us=lambda: 0,
    )


def play(machine: Bench, home: Path, fault: str, moment: str) -> Outcome:
    """Let the fault happen. The drawn energy counts from the start of the daemon on."""
    gpu, other = machine.driver.gpus
    if fault == "MIG off":
        gpu.set_mig(3, 4)
    for each in machine.driver.gpus:
        each.set_power(POWER_MW, util_percent=90)
        each.set_processes(process(7, sm_percent=90, instance=0 if fault == "MIG off" else -1))
    begin, end = FAULTS[fault]
    at_s = MOMENTS[moment]
    machine.clock.pass_by(60 - machine.clock.wall_us % MINUTE / 1_000_000)
    if not at_s:
        begin(gpu)
    monitor = node_of(machine, home)
    monitor.poll(with_processes=True)
    states: list[str] = []
    seconds = at_s + AFTER_S
    for second in range(1, seconds + 1):
        machine.clock.step(1)
        if second == at_s:
            begin(gpu)
        if end is not None and second == at_s + FAULT_S:
            end(gpu)
        monitor.poll(with_processes=second % 5 == 0)
        here = [each.state for each in monitor.device_problems] or ["measured"]
        if here[0] != (states[-1] if states else None):
            states.append(here[0])
    problems: list[dict[str, Any]] = [vars(each) for each in monitor.device_problems]
    monitor.flush()
    windows = list(monitor.spool.windows())
    batch = monitor.spool.begin_batch(live_from_us=0)
    gaps = [gap for gap in batch.gaps if gap.device == gpu.key] if batch else []
    spans: dict[int, int] = {}  # the latest end of each gap, as the server stores it
    for gap in gaps:
        spans[gap.from_us] = max(spans.get(gap.from_us, 0), gap.to_us)
    monitor.spool.close()

    def counted(device: FakeGpu) -> int:
        return sum(window.energy_mj for window in windows if window.device == device.key)

    return Outcome(
        drawn_mj=seconds * POWER_MW,
        counted_mj=counted(gpu),
        other_error_mj=counted(other) - seconds * POWER_MW,
        gap_s=sum(to_us - from_us for from_us, to_us in spans.items()) / 1_000_000,
        gap_reasons=tuple(dict.fromkeys(gap.reason for gap in gaps)),
        states=tuple(states),
        doctor=device_problems_check(problems).state,
    )
