"""A node on a stepped clock: consumers, and the oracle over kills, outages and a full disk."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from labcarbon_collect.api.transport import Transport
from labcarbon_collect.api.uploader import Uploader
from labcarbon_collect.energy.attribution import (
    cpu_time_since,
    device_weights,
    idle_energy_mj,
    processor_weights,
)
from labcarbon_collect.sources.base import ProcessUse
from labcarbon_collect.spool.capacity import release_ballast
from labcarbon_collect.spool.schema import SpoolFull
from labcarbon_collect.spool.store import Spool

from tests.collector.readings import GPU, MINUTE, check, total_mj
from tests.collector.simulated_node import BOOT, CPU, NODE, FakeConsumers, Machine, node_monitor
from tests.fakes import labcarbon_server as fakes

RUN_A, RUN_B = (
    "run:6a1f0f3e-0000-4000-8000-00000000000a",
    "run:6a1f0f3e-0000-4000-8000-00000000000b",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def shares_of(spool: Spool, device: str) -> dict[str, int]:
    totals: dict[str, int] = {}
    for window in spool.windows():
        if window.device == device:
            for consumer, energy_mj in window.shares:
                totals[consumer] = totals.get(consumer, 0) + energy_mj
    return totals


@pytest.mark.parametrize(
    ("power_mw", "limit_w", "idle_mw", "consumer"),
    [
        (460_000, "700", "", "unknown"),
        (120_000, "700", "", "idle"),  # not above 1.5 times what its limit suggests
        (180_000, "700", "70000", "unknown"),  # above 70 W + 15 % of 700 W
        (170_000, "700", "70000", "idle"),
        (35_000, "100", "12000", "unknown"),  # above 12 W + 20 W
        (31_000, "100", "12000", "idle"),
    ],
)
def test_power_decides_whether_a_gpu_without_processes_is_idle(
    home: Path, power_mw: int, limit_w: str, idle_mw: str, consumer: str
) -> None:
    machine = Machine(processes=())
    monitor = node_monitor(home, machine, cpu=False, idle_mw=None)
    monitor.poll(with_processes=True)
    facts = {"power_limit_w": limit_w, **({"idle_mw": idle_mw} if idle_mw else {})}
    polled = monitor.sources.sources[0]
    polled.devices[GPU] = replace(polled.devices[GPU], facts=facts)
    for _ in range(10):
        machine.step(gpu_mj=power_mw)
        monitor.poll(with_processes=True)
    monitor.flush()
    assert shares_of(monitor.spool, GPU) == {consumer: 10 * power_mw}


def test_gpu_without_processes_is_idle_and_with_hidden_ones_unknown(home: Path) -> None:
    machine = Machine(processes=())
    monitor = node_monitor(home, machine, cpu=False)
    monitor.poll(with_processes=True)
    for _ in range(10):
        machine.step(gpu_mj=70_000)
        monitor.poll(with_processes=False)
    machine.processes = None
    machine.step(gpu_mj=100)
    monitor.poll(with_processes=True)
    monitor.flush()
    assert shares_of(monitor.spool, GPU) == {"idle": 700_000, "unknown": 100}
    monitor.spool.close()


def test_last_process_list_applies_until_the_next_one(home: Path) -> None:
    machine = Machine(processes=(ProcessUse(7),))
    monitor = node_monitor(home, machine, consumers=FakeConsumers(machine, {7: RUN_A}), cpu=False)
    monitor.poll(with_processes=True)
    for second in range(1, 12):
        machine.step(gpu_mj=300_000)
        monitor.poll(with_processes=second % 5 == 0)
    monitor.flush()
    assert shares_of(monitor.spool, GPU) == {RUN_A: 3_300_000}
    monitor.spool.close()


def test_processor_energy_follows_cpu_time_and_its_idle_part_stays_idle(home: Path) -> None:
    machine = Machine()
    monitor = node_monitor(home, machine, idle_mw=2_000)
    monitor.poll(with_processes=True)
    for second in range(1, 11):
        machine.step(cpu_mj=5_000)
        machine.work(RUN_A, 600_000)
        machine.work("proc:ana/python", 200_000)
        machine.busy_us += 200_000  # hidden processes
        monitor.poll(with_processes=second % 5 == 0)
    monitor.flush()
    # 50 J: 2 W × 10 s are idle, the rest is divided 6 : 2 : 2.
    assert shares_of(monitor.spool, CPU) == {
        "idle": 20_000,
        RUN_A: 18_000,
        "proc:ana/python": 6_000,
        "unknown": 6_000,
    }
    monitor.spool.close()


def test_weights_on_a_shared_gpu() -> None:
    keys = {1: RUN_A, 2: RUN_B, 3: RUN_B}.__getitem__
    results = (ProcessUse(1, 600), ProcessUse(2, 200))
    assert device_weights(results, keys, energy_mj=100, idle_mj=20) == {
        RUN_A: 20 * 800 + 80 * 600 * 2,
        RUN_B: 20 * 800 + 80 * 200 * 2,
    }
    untold = (ProcessUse(1, 600), ProcessUse(2), ProcessUse(3))
    weights = device_weights(untold, keys, energy_mj=100, idle_mj=20)
    assert weights[RUN_B] == 2 * weights[RUN_A]
    assert device_weights((), keys, energy_mj=1, idle_mj=0) == {"idle": 1}
    assert device_weights(None, keys, energy_mj=1, idle_mj=0) == {"unknown": 1}


def test_idle_power_becomes_energy_in_the_right_unit() -> None:
    assert idle_energy_mj(10**9, 1_478, 7_000_000) == 10_346  # 1.478 W for 7 s
    assert idle_energy_mj(5, 1_478, 7_000_000) == 5
    assert idle_energy_mj(10**9, 0, 7_000_000) == 0


def test_processors_without_work_are_idle() -> None:
    assert processor_weights({}, 0, energy_mj=500, idle_mj=20) == {"idle": 1}
    assert processor_weights({RUN_A: 5}, 5, energy_mj=20, idle_mj=20) == {"idle": 1}
    assert cpu_time_since({"a": 5, "b": 9}, {"a": 7, "b": 3, "c": 1}) == {"a": 2, "c": 1}


def test_failed_source_is_retried_with_backoff_and_loses_no_energy(home: Path) -> None:
    machine = Machine()
    monitor = node_monitor(home, machine, cpu=False)
    source = monitor.sources.sources[0].source
    monitor.poll(with_processes=True)
    machine.is_lost = True
    for _ in range(200):
        machine.step(gpu_mj=10)
        monitor.poll(with_processes=True)
    assert 5 <= source.opened <= 12  # type: ignore[attr-defined]
    assert monitor.sources.status()["machine"]["why"] == "it fell off the bus"
    machine.is_lost = False
    for _ in range(300):
        machine.step(gpu_mj=10)
        monitor.poll(with_processes=True)
    monitor.flush()
    check(list(monitor.spool.windows()))
    assert total_mj(monitor.spool.windows()) == 5000
    monitor.spool.close()


def test_full_spool_stops_sampling_and_the_counter_recovers_the_energy(home: Path) -> None:
    machine = Machine()
    monitor = node_monitor(home, machine, cpu=False)
    monitor.poll(with_processes=True)
    start_mj = machine.gpu_mj
    monitor.spool._database.execute(
        "PRAGMA max_page_count = "
        f"{monitor.spool._database.execute('PRAGMA page_count').fetchone()[0]}"
    )
    for _ in range(60 * 200):
        machine.step(gpu_mj=10)
        monitor.poll(with_processes=True)
        if monitor.stop_reason:
            break
    assert "free space" in monitor.stop_reason
    for _ in range(600):
        machine.step(gpu_mj=10)
        assert monitor.poll(with_processes=True) == 0
    monitor.spool._database.execute("PRAGMA max_page_count = 100000")
    for _ in range(120):
        machine.step(gpu_mj=10)
        monitor.poll(with_processes=True)
    monitor.flush()
    assert monitor.stop_reason == ""
    check(list(monitor.spool.windows()))
    assert total_mj(monitor.spool.windows()) == machine.gpu_mj - start_mj
    monitor.spool.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs root and mount for a disk of 1 MiB")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_of_one_mebibyte_fills_and_drains_without_losing_a_millijoule(
    small_disk: Path,
) -> None:
    machine = Machine()
    monitor = node_monitor(small_disk, machine, cpu=False)
    monitor.poll(with_processes=True)
    start_mj = machine.gpu_mj
    for _ in range(5000):  # more than fits unmerged
        machine.step(60, gpu_mj=30)
        monitor.poll(with_processes=True)
    assert monitor.spool.depth().rows < 5000
    while True:
        try:
            batch = monitor.spool.begin_batch(live_from_us=0)
            if batch is None:
                break
            monitor.spool.end_batch(batch, [("accepted", "")] * len(batch.ids), now_us=1)
        except SpoolFull:
            release_ballast(monitor.spool)
    for _ in range(120):
        machine.step(gpu_mj=30)
        monitor.poll(with_processes=True)
    monitor.flush()
    assert monitor.stop_reason == ""
    answered_mj = sum(mj for _, mj in monitor.spool.result_totals().values())
    assert answered_mj + monitor.spool.spooled_mj() == machine.gpu_mj - start_mj
    monitor.spool.close()


@pytest.fixture
def server() -> Iterator[fakes.FakeServer]:
    with fakes.running() as fake:
        yield fake


@pytest.mark.parametrize("seed", range(5))
def test_oracle_over_kills_and_faults(home: Path, server: fakes.FakeServer, seed: int) -> None:
    """Σ accepted + quarantined + dead + spooled = counter difference, over 50 kills, truncated
    responses and an hour's outage.
    """
    dice = random.Random(seed)
    machine = Machine(processes=(ProcessUse(7),))
    start_mj = machine.gpu_mj
    monitor = node_monitor(home, machine, consumers=FakeConsumers(machine, {7: RUN_A}), cpu=False)
    transport = Transport(server.url, "t")

    def push(spool: Spool) -> None:
        Uploader(
            spool, transport, node=NODE, boot=BOOT, interval_us=MINUTE, now=machine.now
        ).upload_batch()

    monitor.poll(with_processes=True)
    kills = 0
    while kills < 50:
        for _ in range(dice.randrange(1, 150)):
            machine.step(dice.choice([0.9, 1, 1, 1.3, 40]), gpu_mj=dice.randrange(0, 700_000))
            monitor.poll(with_processes=dice.random() < 0.2)
        if dice.random() < 0.7:
            choices = [
                fakes.error_response(503),
                fakes.drop_connection,
                fakes.store_and_drop_connection,
                fakes.truncate_response,
                fakes.error_response(429),
            ]
            server.faults = dice.sample(choices, dice.randrange(3))
            push(monitor.spool)
            server.faults = []
        kills += 1
        monitor.spool.close()  # no flush: the open windows in memory are lost
        monitor = node_monitor(
            home, machine, consumers=FakeConsumers(machine, {7: RUN_A}), cpu=False
        )
        monitor.poll(with_processes=True)
    machine.step(3600, gpu_mj=10**9)
    monitor.poll(with_processes=True)
    monitor.flush()
    check(list(monitor.spool.windows()))
    tally = monitor.spool.result_totals()
    answered_mj = sum(mj for _, mj in tally.values())
    assert answered_mj + monitor.spool.spooled_mj() == machine.gpu_mj - start_mj, f"seed {seed}"
    while monitor.spool.depth().rows:
        push(monitor.spool)
    assert server.stored_mj == machine.gpu_mj - start_mj, f"seed {seed}"
    transport.close()
    monitor.spool.close()
