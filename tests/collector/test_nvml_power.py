"""GPUs without an energy counter: sampled and integrated power. A long interval is a gap, never an
estimate.
"""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import SourceFailed
from labcarbon_collect.sources.nvidia import power_integration
from labcarbon_collect.sources.nvidia.power_integration import MAX_SAMPLE_GAP_US, PowerIntegral


def test_a_card_without_a_counter_is_sampled_not_zero(bench):
    machine = bench("pascal", opened=False)
    (device,) = machine.source.open()
    assert device.measurement == "nvml_power"
    gpu = machine.driver.gpus[0]
    gpu.set_power(100_000, util_percent=50)
    first = machine.poll_one()
    for power_mw in (200_000, 200_000, 40_000):
        machine.clock.step(0.5)
        gpu.set_power(power_mw)
        last = machine.poll_one()
    assert last.counter_mj - first.counter_mj == (150_000 + 200_000 + 120_000) // 2
    assert (last.measurement, last.epoch, last.power_mw) == ("nvml_power", first.epoch, 40_000)


def test_counter_that_stays_at_zero_is_no_counter(bench):
    machine = bench("vgpu_zero", opened=False)
    (device,) = machine.source.open()
    assert device.measurement == "nvml_power"
    first = machine.poll_one()
    machine.clock.step(1)
    assert machine.poll_one().counter_mj - first.counter_mj == 30_000


def test_long_interval_between_samples_is_a_gap_and_a_new_epoch(bench):
    machine = bench("pascal")
    machine.poll_one()
    machine.clock.step(1)
    before = machine.poll_one()
    machine.clock.step(10)
    after = machine.poll_one()
    assert after.epoch != before.epoch
    assert after.counter_mj == 0
    (gap,) = machine.source.gaps()
    assert (gap.epoch, gap.from_us, gap.to_us, gap.reason) == (
        before.epoch,
        before.wall_us,
        after.wall_us,
        "lost",
    )


def test_a_lost_card_is_a_failure_and_its_absence_a_gap(bench):
    machine = bench("pascal")
    machine.poll_one()
    machine.driver.gpus[0].set(lost=1)
    machine.clock.step(1)
    with pytest.raises(SourceFailed):
        machine.poll()
    machine.driver.gpus[0].set(lost=0)
    machine.clock.step(5)
    machine.poll_one()
    machine.clock.step(1)
    assert machine.poll_one().counter_mj == 12_000


def test_only_cards_without_a_counter_are_sampled_and_by_one_thread(bench, monkeypatch):
    """The real thread on the machine's clock: it samples at random intervals and ends with the
    source.
    """
    monkeypatch.setattr(power_integration, "MIN_INTERVAL_S", 0.001)
    monkeypatch.setattr(power_integration, "MAX_INTERVAL_S", 0.002)
    machine = bench("hopper", "pascal", opened=False)
    machine.source = machine.new_source(threaded=True)
    machine.source.open()
    hopper, pascal = (gpu.state for gpu in machine.driver.gpus)
    opened_calls = hopper.calls
    enough = pascal.calls + 40
    waited = threading.Event()
    for _ in range(2000):
        if pascal.calls >= enough:
            break
        waited.wait(0.005)
    assert pascal.calls >= enough
    assert hopper.calls == opened_calls, "a card with a counter is not sampled"
    assert [thread.name for thread in threading.enumerate()].count("labcarbon-nvml-power") == 1
    machine.source.close()
    assert "labcarbon-nvml-power" not in [thread.name for thread in threading.enumerate()]


@given(
    st.lists(
        st.tuples(st.integers(1, MAX_SAMPLE_GAP_US), st.integers(0, 10**6)), min_size=1, max_size=60
    )
)
def test_integral_is_the_exact_trapezoid_floored_at_the_end(steps):
    integral, monotonic_us, doubled_nj, before_mw = PowerIntegral(), 1, 0, 5
    integral.add(Clock(1, 1), before_mw)
    for gap_us, power_mw in steps:
        monotonic_us += gap_us
        doubled_nj += (before_mw + power_mw) * gap_us
        before_mw = power_mw
        integral.add(Clock(monotonic_us, monotonic_us), power_mw)
        assert integral.total_mj == doubled_nj // 2 // 1_000_000
    assert integral.gaps == []


def test_sample_out_of_order_is_ignored():
    integral = PowerIntegral()
    for monotonic_us, power_mw in (
        (10, 1000),
        (1_000_010, 1000),
        (500_000, 9_000_000),
        (2_000_010, 1000),
    ):
        integral.add(Clock(monotonic_us, 0), power_mw)
    assert integral.total_mj == 2000
