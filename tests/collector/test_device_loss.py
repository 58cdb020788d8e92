"""GPUs that are dead at start, drop out, or lose their counter: the others go on and it is said."""

from __future__ import annotations

import pytest
from labcarbon_collect.commands.status import format_lines
from labcarbon_collect.doctor.meters import device_problems_check, nvml_check
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.sources.base import SourceFailed
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.capacity import SpoolCapacity
from labcarbon_collect.spool.store import Spool

from tests.collector.nvml_bench import BOOT
from tests.collector.readings import MINUTE
from tests.collector.simulated_node import FakeConsumers, Machine
from tests.fakes.nvml_state import CAN_COUNTER, PROFILES

HOPPER = PROFILES["hopper"].capabilities


def node_of(machine, home):
    spool = Spool(home, check=True)
    poller = SourcePoller([("nvml", machine.source)], now=machine.clock)
    return NodeMonitor(
        spool=spool,
        capacity=SpoolCapacity(spool, max_bytes=200 << 20),
        sources=poller,
        consumers=FakeConsumers(Machine()),
        boot=BOOT,
        grid_us=MINUTE,
        now=machine.clock,
        busy_us=lambda: 0,
    )


def run(monitor, machine, seconds):
    for _ in range(seconds):
        machine.clock.step(1)
        monitor.poll(with_processes=True)


def energy_mj(monitor, device):
    return sum(w.energy_mj for w in monitor.spool.windows() if w.device == device)


def gap_reasons(monitor, device):
    batch = monitor.spool.begin_batch(live_from_us=0)
    return [gap.reason for gap in batch.gaps if gap.device == device]


def test_one_dead_gpu_at_start_does_not_blind_the_other_seven(bench):
    machine = bench(*["hopper"] * 8, opened=False)
    machine.driver.gpus[3].set(lost=1)
    devices = machine.source.open()
    assert [info.key for info in devices] == [
        gpu.key for index, gpu in enumerate(machine.driver.gpus) if index != 3
    ]
    assert len(machine.poll()) == 7
    (problem,) = machine.source.problems()
    assert (problem.device, problem.name, problem.state) == ("", "GPU 3", "lost")


def test_a_gpu_that_was_dead_at_start_returns_and_is_measured(bench, tmp_path):
    machine = bench("hopper", "hopper", opened=False)
    dead = machine.driver.gpus[1]
    dead.set(lost=1)
    monitor = node_of(machine, tmp_path)
    monitor.poll(with_processes=True)
    run(monitor, machine, 5)
    dead.set(lost=0)
    run(monitor, machine, 130)
    assert dead.key in monitor.last_readings()
    assert monitor.device_problems == ()
    assert energy_mj(monitor, dead.key) > 0


def test_all_gpus_dead_at_start_is_a_failure_that_names_them(bench):
    machine = bench("hopper", "hopper", opened=False)
    for gpu in machine.driver.gpus:
        gpu.set(lost=1)
    with pytest.raises(SourceFailed, match=r"no GPU responds: GPU 0.*GPU 1"):
        machine.source.open()
    for gpu in machine.driver.gpus:
        gpu.set(lost=0)
    assert len(machine.source.open()) == 2


def test_a_lost_gpu_is_declared_and_its_last_window_is_closed(bench, tmp_path):
    machine = bench("hopper", "ampere", opened=False)
    lost = machine.driver.gpus[0]
    monitor = node_of(machine, tmp_path)
    monitor.poll(with_processes=True)
    before_mj = lost.counter_mj
    run(monitor, machine, 20)
    drawn_mj = lost.counter_mj - before_mj
    lost.set(lost=1)
    run(monitor, machine, 40)
    assert energy_mj(monitor, lost.key) == drawn_mj, "the energy before the loss is stored"
    (problem,) = monitor.device_problems
    assert (problem.device, problem.state) == (lost.key, "lost")
    assert gap_reasons(monitor, lost.key) == []
    run(monitor, machine, 600)
    (problem,) = monitor.device_problems
    assert (problem.device, problem.state) == (lost.key, "silent")
    assert gap_reasons(monitor, lost.key) == ["lost"]


@pytest.mark.parametrize("days", [-3, 3])
def test_a_step_of_the_wall_clock_changes_no_duration_of_a_loss(bench, tmp_path, days):
    machine = bench("hopper", "ampere", opened=False)
    lost = machine.driver.gpus[0]
    monitor = node_of(machine, tmp_path)
    monitor.poll(with_processes=True)
    run(monitor, machine, 20)
    lost.set(lost=1)
    run(monitor, machine, 30)
    machine.clock.wall_us += days * 86_400_000_000
    run(monitor, machine, 500)
    assert [each.state for each in monitor.device_problems] == ["lost"]
    run(monitor, machine, 120)
    assert [each.state for each in monitor.device_problems] == ["silent"]
    (gap,) = (g for g in monitor.spool.begin_batch(live_from_us=0).gaps if g.device == lost.key)
    assert gap.to_us - gap.from_us == 600_000_000


def test_a_gpu_that_is_dead_at_start_is_silent_after_ten_minutes_of_any_wall_clock(bench, tmp_path):
    machine = bench("hopper", "ampere", opened=False)
    machine.driver.gpus[0].set(lost=1)
    monitor = node_of(machine, tmp_path)
    monitor.poll(with_processes=True)
    machine.clock.wall_us -= 86_400_000_000
    run(monitor, machine, 590)
    assert [each.state for each in monitor.device_problems] == ["lost"]
    run(monitor, machine, 20)
    assert [each.state for each in monitor.device_problems] == ["silent"]


def test_an_idle_gpu_whose_counter_rests_is_not_lost(bench, tmp_path):
    machine = bench("hopper", opened=False)
    (gpu,) = machine.driver.gpus
    monitor = node_of(machine, tmp_path)
    monitor.poll(with_processes=True)
    before_mj = gpu.counter_mj
    run(monitor, machine, 30)
    gpu.stall()
    for _ in range(50):
        run(monitor, machine, 1)
        assert monitor.device_problems == ()
    gpu.publish()
    run(monitor, machine, 30)
    monitor.flush()
    windows = [w for w in monitor.spool.windows() if w.device == gpu.key]
    assert {consumer for w in windows for consumer, _ in w.shares} == {"idle"}
    assert sum(w.energy_mj for w in windows) == gpu.counter_mj - before_mj


def test_a_gpu_that_the_driver_no_longer_lists_after_a_restart_is_named(bench, tmp_path):
    machine = bench("hopper", "ampere", opened=False)
    gone = machine.driver.gpus[1]
    monitor = node_of(machine, tmp_path)
    monitor.poll(with_processes=True)
    run(monitor, machine, 10)
    monitor.flush()
    monitor.sources.close()
    monitor.spool.close()
    machine.driver.set(gpu_count=1)
    machine.source = machine.new_source()
    monitor = node_of(machine, tmp_path)
    monitor.poll(with_processes=True)
    run(monitor, machine, 60)
    assert [(each.device, each.state) for each in monitor.device_problems] == [(gone.key, "lost")]


def test_a_counter_that_disappears_is_replaced_by_integrated_power(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    gpu.set_power(300_000)
    machine.poll_one()
    machine.clock.step(1)
    before = machine.poll_one()
    gpu.set(capabilities=HOPPER & ~CAN_COUNTER)
    machine.clock.step(1)
    first, last = machine.poll()
    assert (first.counter_mj, last.counter_mj) == (0, 300_000)
    assert {first.measurement, last.measurement} == {"nvml_power"}
    assert first.epoch == last.epoch != before.epoch
    (gap,) = machine.source.gaps()
    assert (gap.reason, gap.to_us - gap.from_us) == ("counter", 1)
    (problem,) = machine.source.problems()
    assert (problem.device, problem.state) == (gpu.key, "power")


def test_the_counter_is_used_again_when_it_returns(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    gpu.set_power(300_000)
    machine.poll_one()
    gpu.set(capabilities=HOPPER & ~CAN_COUNTER)
    machine.clock.step(1)
    readings = machine.poll()
    gpu.set(capabilities=HOPPER)
    for _ in range(5):
        machine.clock.step(1)
        readings += machine.poll()
    assert [reading.measurement for reading in readings[-2:]] == ["nvml_counter"] * 2
    assert machine.source.problems() == []
    by_epoch = {}
    for reading in readings:
        by_epoch.setdefault(reading.epoch, []).append(reading.counter_mj)
    assert sum(values[-1] - values[0] for values in by_epoch.values()) == 6 * 300_000


def test_a_gpu_without_counter_and_power_is_lost_not_zero(bench):
    machine = bench("hopper", "ampere")
    machine.poll()
    machine.driver.gpus[0].set(capabilities=0)
    machine.clock.step(1)
    assert [reading.device for reading in machine.poll()] == [machine.driver.gpus[1].key]
    assert [problem.state for problem in machine.source.problems()] == ["lost"]


def test_doctor_names_a_dead_gpu(bench):
    machine = bench("hopper", "hopper", opened=False)
    machine.driver.gpus[1].set(lost=1)
    check = nvml_check(str(machine.sys_root))
    assert check.state == "bad"
    assert "GPU 1" in check.summary


@pytest.mark.parametrize(
    ("state", "found"), [("lost", "bad"), ("silent", "bad"), ("power", "warn")]
)
def test_doctor_reports_the_problems_of_the_daemon(state, found):
    problem = {"device": "gpu:x", "name": "H100", "state": state, "reason": "why", "since_us": 1}
    assert device_problems_check([problem]).state == found
    assert device_problems_check([]).state == "ok"


def test_status_prints_the_problem_of_a_device():
    status = {
        "node": "n", "version": "1", "pid": 1, "socket": "s", "enrolled": False, "url": "",
        "lab": "", "users": "", "sources": {}, "devices": [], "answered": {}, "skew_us": None,
        "spool": {"rows": 0, "bytes": 0, "dead": 0}, "push": {"at_us": None, "error": ""},
        "notes": [], "full": "", "complaint": "",
        "device_problems": [
            {"device": "gpu:x", "name": "H100", "state": "silent", "reason": "why", "since_us": 0}
        ],
    }  # fmt: skip
    (line,) = [
        line for line in format_lines(status, now_us=700_000_000) if line.startswith("device")
    ]
    assert "gpu:x" in line
    assert "silent, since 700 s ago: why" in line
