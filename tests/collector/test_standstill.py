"""Counters that stand still: no energy is discarded and none is invented."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.epochs import CounterReading, place_reading
from labcarbon_collect.sources.idle_threshold import busy_above_mw

from tests.examples import examples

POWER_MW = 398_000


def counted_mj(readings):
    return sum(
        after.counter_mj - before.counter_mj
        for before, after in pairwise(readings)
        if before.epoch == after.epoch
    )


def polled(machine, seconds):
    readings = []
    for _ in range(seconds):
        machine.clock.step(1)
        readings += machine.poll()
    return readings


@pytest.mark.parametrize("stall_s", [1, 2, 3, 10, 45, 300])
def test_a_standstill_under_load_loses_nothing(bench, stall_s):
    machine = bench("ampere")
    gpu = machine.driver.gpus[0]
    gpu.set_power(POWER_MW)
    readings = [*machine.poll(), *polled(machine, 5)]
    gpu.stall()
    readings += polled(machine, stall_s)
    gpu.publish()
    readings += polled(machine, 10)
    assert counted_mj(readings) == (stall_s + 15) * POWER_MW
    assert all(gap.to_us - gap.from_us <= 1 for gap in machine.source.gaps())
    assert machine.source.problems() == []


def test_a_counter_that_stands_under_load_is_replaced_by_power_and_never_zero(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    gpu.set_power(460_000)
    machine.poll_one()
    gpu.stall()
    readings = polled(machine, 20)
    assert readings
    assert {reading.measurement for reading in readings} == {"nvml_power"}
    assert counted_mj(readings) == 20 * 460_000
    (problem,) = machine.source.problems()
    assert (problem.device, problem.state) == (gpu.key, "power")


def test_a_counter_of_an_idle_gpu_may_rest_for_a_minute(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    readings = machine.poll()
    gpu.stall()
    assert polled(machine, 50) == [], "no reading: the next one includes the energy"
    gpu.publish()
    readings += polled(machine, 1)
    assert {reading.measurement for reading in readings} == {"nvml_counter"}
    assert counted_mj(readings) == 51 * 70_000
    assert machine.source.gaps() == []


def test_a_counter_without_power_may_rest(bench):
    machine = bench("hopper")
    machine.driver.gpus[0].set_power(0)
    machine.poll_one()
    readings = polled(machine, 90)
    assert len(readings) == 90
    assert counted_mj(readings) == 0


@settings(max_examples=examples(200), deadline=None)
@given(
    stall_s=st.integers(1, 600),
    limit_mw=st.integers(50_000, 1_000_000),
    percent=st.integers(0, 150),
)
def test_a_jump_is_judged_by_the_last_movement(stall_s, limit_mw, percent):
    """Any energy that the device can draw since the counter moved is counted, no other."""
    energy_mj = limit_mw * stall_s * percent // 100
    before = CounterReading("load", 1000, stall_s * 1_000_000 - 1_000_000, 0)
    clock = Clock(stall_s * 1_000_000, 1_000_000)
    arguments = {"load": "load", "limit_mw": limit_mw, "power_mw": None}
    step = place_reading(before, 1000 + energy_mj, clock, moved_us=0, **arguments)
    assert step.gap_until_us is None
    impossible = 1000 + limit_mw * 3 * (stall_s + 1) // 2 + 1
    step = place_reading(before, impossible, clock, moved_us=0, **arguments)
    assert step.gap_until_us is not None


@pytest.mark.parametrize(
    ("learnt_mw", "limit_mw", "expected_mw"),
    [
        (70_000, 700_000, 175_000),
        (12_000, 100_000, 32_000),
        (70_000, 0, 90_000),
        (None, 700_000, 157_500),
        (None, 0, None),
    ],
)
def test_the_power_above_which_a_device_works(learnt_mw, limit_mw, expected_mw):
    assert busy_above_mw(learnt_idle_mw=learnt_mw, limit_mw=limit_mw) == expected_mw
