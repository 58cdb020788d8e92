"""Idle power estimated from windows without consumers."""

from __future__ import annotations

from pathlib import Path

import pytest
from labcarbon_collect.energy.idle_power import DAY_US, MIN_WINDOWS, idle_bin, percentile_mw
from labcarbon_collect.sources.base import FLAG_MERGED, FLAG_RECOVERED, ProcessUse
from labcarbon_collect.spool.store import Spool

from tests.collector.readings import GPU, minute, window
from tests.collector.simulated_node import BOOT, FakeConsumers, Machine, node_monitor


def test_the_power_of_an_idle_minute() -> None:
    assert idle_bin(minute(0, 4_200_000)) == 140  # 70 W


@pytest.mark.parametrize(
    "changes",
    [
    {"shares": (("run:a", 1), ("idle", 4_199_999))}, {"shares": (("unknown", 4_200_000),)},
    {"flags": FLAG_RECOVERED}, {"flags": FLAG_MERGED},
],
)  # fmt: skip
def test_used_or_unusual_window_is_not_counted(changes: dict[str, object]) -> None:
    assert idle_bin(minute(0, 4_200_000, **changes)) is None
    assert idle_bin(window(0, end_s=0.9, energy_mj=63_000)) is None
    assert idle_bin(minute(0, 0)) is None


@pytest.mark.parametrize("length_s", [3, 9.98, 10, 30, 60, 300])
def test_idle_power_is_learnt_with_any_window_length(length_s: float) -> None:
    assert idle_bin(window(0, end_s=length_s, energy_mj=round(70_000 * length_s))) == 140


def test_an_unused_gpu_above_the_assumed_idle_power_is_learnt() -> None:
    unknown = (("unknown", 4_200_000),)
    unused = {"shares": unknown, "util_max_pm": 0, "processes": 0}
    assert idle_bin(minute(0, 4_200_000, **unused)) == 140
    assert idle_bin(minute(0, 4_200_000, **{**unused, "util_max_pm": 10})) is None
    assert idle_bin(minute(0, 4_200_000, **{**unused, "util_max_pm": None})) is None
    assert idle_bin(minute(0, 4_200_000, **{**unused, "device": "cpu:x/0"})) is None


def test_the_fifth_percentile_of_enough_windows() -> None:
    assert percentile_mw([(140, MIN_WINDOWS - 1)]) is None
    assert percentile_mw([(100, 4), (140, 96)]) == 140 * 500 + 250
    assert percentile_mw([(140, 95), (100, 5)]) == 100 * 500 + 250
    assert percentile_mw([]) is None


def test_days_older_than_two_weeks_are_forgotten(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(boot=BOOT, windows=[minute(seq, 4_200_000) for seq in range(20)])
    assert spool.idle_mw() == {GPU: 70_250}
    next_day = minute(20, 6_000_000)
    moved = {"start_us": next_day.start_us + 20 * DAY_US, "end_us": next_day.end_us + 20 * DAY_US}
    spool.append(boot=BOOT, windows=[minute(20, 6_000_000, **moved)])
    assert spool.idle_mw() == {}
    spool.close()


def test_shared_gpu_divides_its_estimated_idle_power_in_equal_parts(tmp_path: Path) -> None:
    machine = Machine()
    consumers = FakeConsumers(machine, {1: "run:a", 2: "run:b"})
    monitor = node_monitor(tmp_path, machine, consumers=consumers, cpu=False, idle_mw=None)
    monitor.poll(with_processes=True)
    for _ in range(60 * 15):
        machine.step(gpu_mj=70_000)
        monitor.poll(with_processes=True)
    monitor.flush()
    before = {w.seq for w in monitor.spool.windows()}
    machine.processes = (ProcessUse(1, 900), ProcessUse(2, 100))
    monitor.poll(with_processes=True)
    for _ in range(50):
        machine.step(gpu_mj=270_250)
        monitor.poll(with_processes=True)
    monitor.flush()
    shares: dict[str, int] = {}
    for stored in monitor.spool.windows():
        for consumer, energy_mj in stored.shares if stored.seq not in before else ():
            shares[consumer] = shares.get(consumer, 0) + energy_mj
    # 70.25 W idle: half each. The 200 W above it: 9 to 1.
    assert shares == {"run:a": 50 * (35_125 + 180_000), "run:b": 50 * (35_125 + 20_000)}
    monitor.spool.close()
