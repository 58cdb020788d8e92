"""Counters that restart, jump, disappear and return: never negative, never invented, exact where
possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.clock import Clock
from labcarbon_collect.energy.windows import WindowBuilder
from labcarbon_collect.sources.base import FLAG_BRIDGED, SourceFailed
from labcarbon_collect.sources.epochs import (
    CounterReading,
    classify_reading,
    driver_load,
    max_energy_mj,
    place_reading,
    since_restart_us,
)

from tests.collector.nvml_bench import BOOT


@dataclass(frozen=True)
class Stored:
    epoch: str
    counter_mj: int
    mono_us: int
    wall_us: int
    boot: str = BOOT


def test_the_bound_is_one_and_a_half_times_the_limit_over_gap_and_refresh():
    assert max_energy_mj(9_000_000, 400_000) == 400_000 * 10 * 3 // 2
    assert classify_reading(100, 100 + 6_000_000, 9_000_000, 400_000) == "continues"
    assert classify_reading(100, 101 + 6_000_000, 9_000_000, 400_000) == "jumped"
    assert classify_reading(7_000_000, 6_000_000, 9_000_000, 400_000) == "restarted"
    assert classify_reading(7_000_000, 6_000_001, 9_000_000, 400_000) == "jumped"


def test_restart_time_is_derived_from_energy_and_power():
    assert since_restart_us(600_000, 60_000_000, 300_000) == 2_000_000
    assert since_restart_us(600_000, 1_000_000, 300_000) == 1_000_000
    assert since_restart_us(600_000, 1_000_000, 0) == 1_000_000, (
        "unknown power: anywhere in the gap"
    )


def test_counter_fall_opens_an_epoch_and_is_bridged(bench):
    machine = bench("ampere")
    gpu = machine.driver.gpus[0]
    gpu.set_power(200_000)
    before = machine.poll_one()
    machine.clock.step(3)
    gpu.set_counter_mj(0)
    machine.clock.step(2)
    began, after = machine.poll()
    assert after.epoch == began.epoch != before.epoch
    assert (began.counter_mj, began.flags) == (0, 0)
    assert (after.counter_mj, after.flags) == (400_000, FLAG_BRIDGED)
    assert after.monotonic_us - began.monotonic_us == 2_000_000, "400 J at 200 W"
    (gap,) = machine.source.gaps()
    assert (gap.epoch, gap.from_us, gap.to_us, gap.reason) == (
        before.epoch,
        before.wall_us,
        began.wall_us,
        "driver",
    )
    assert machine.source.gaps() == []
    machine.clock.step(1)
    assert machine.poll_one().epoch == after.epoch


def test_counter_fall_without_a_time_is_a_gap(bench):
    machine = bench("ampere")
    gpu = machine.driver.gpus[0]
    before = machine.poll_one()
    machine.clock.pass_by(1)
    gpu.set_counter_mj(
        900_000_000
    )  # below the previous value, but above the possible energy since a restart from zero
    after = machine.poll_one()
    assert (after.flags, after.epoch != before.epoch) == (0, True)
    (gap,) = machine.source.gaps()
    assert (gap.from_us, gap.to_us) == (before.wall_us, after.wall_us)


def test_an_impossible_jump_is_a_gap_not_energy(bench):
    machine = bench("ampere")
    before = machine.poll_one()
    machine.clock.step(1)
    machine.driver.gpus[0].add_mj(50_000_000)
    after = machine.poll_one()
    assert after.epoch != before.epoch
    assert [gap.reason for gap in machine.source.gaps()] == ["driver"]


def test_one_lost_gpu_does_not_silence_the_other_and_its_energy_is_not_lost(bench):
    machine = bench("hopper", "ampere")
    hopper, ampere = machine.driver.gpus
    before = {reading.device: reading for reading in machine.poll()}
    ampere.set(lost=1)
    machine.clock.step(1)
    assert [reading.device for reading in machine.poll()] == [hopper.key]
    ampere.set(lost=0)
    for _ in range(4):
        machine.clock.step(1)
        readings = {reading.device: reading for reading in machine.poll()}
    assert set(readings) == {hopper.key, ampere.key}
    assert readings[ampere.key].epoch == before[ampere.key].epoch
    assert readings[ampere.key].counter_mj - before[ampere.key].counter_mj == 5 * 55_000
    assert machine.source.gaps() == []


def test_loss_of_all_gpus_is_a_failure_and_the_source_recovers(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    before = machine.poll_one()
    gpu.set(lost=1)
    machine.clock.step(1)
    for _ in range(3):
        with pytest.raises(SourceFailed, match="no GPU responds: NVIDIA H100"):
            machine.poll()
    gpu.set(lost=0)
    machine.clock.step(1)
    after = machine.poll_one()
    assert (after.epoch, after.counter_mj - before.counter_mj) == (before.epoch, 140_000)


def test_reloaded_driver_is_a_new_epoch_even_with_a_higher_counter(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    gpu.set_counter_mj(10)
    before = machine.poll_one()
    machine.reload_driver()
    machine.clock.step(30)
    with pytest.raises(SourceFailed):
        machine.poll()
    machine.clock.step(1)
    after = machine.poll()[-1]
    assert after.counter_mj > before.counter_mj
    assert after.epoch != before.epoch
    assert [gap.reason for gap in machine.source.gaps()] == ["driver"]


def test_epoch_continues_over_a_restart_of_the_collector(bench):
    machine = bench("hopper")
    machine.poll_one()
    machine.driver.gpus[0].set_counter_mj(5)
    machine.clock.step(1)
    last = machine.poll()[-1]
    machine.source.close()
    machine.clock.step(3600)
    machine.source = machine.new_source()
    machine.source.resume(
        {last.device: Stored(last.epoch, last.counter_mj, last.monotonic_us, last.wall_us)}
    )
    machine.source.open()
    second = machine.poll_one()
    assert (second.epoch, second.counter_mj - last.counter_mj) == (last.epoch, 3600 * 70_000)


@pytest.mark.parametrize("case", ["fell", "jumped", "other boot"])
def test_epoch_is_checked_after_a_restart(bench, case):
    machine = bench("hopper")
    last = machine.poll_one()
    machine.source.close()
    machine.clock.step(100)
    gpu = machine.driver.gpus[0]
    if case == "fell":
        gpu.set_counter_mj(7)
    elif case == "jumped":
        gpu.add_mj(10**12)
    boot = "another" if case == "other boot" else BOOT
    machine.source = machine.new_source()
    machine.source.resume(
        {last.device: Stored(last.epoch, last.counter_mj, last.monotonic_us, last.wall_us, boot)}
    )
    machine.source.open()
    reading = machine.poll()[-1]
    if case == "other boot":
        assert machine.source.gaps() == [], (
            "the daemon declares the gap over a reboot from its stored anchor"
        )
    else:
        assert reading.epoch != last.epoch
        assert len(machine.source.gaps()) == 1


def test_each_load_of_a_kernel_module_has_its_number(tmp_path):
    assert driver_load(str(tmp_path)) == 0
    (tmp_path / "module/nvidia").mkdir(parents=True)
    assert driver_load(str(tmp_path)) == driver_load(str(tmp_path)) != 0


counters = st.integers(0, 10**9)


@given(
    st.lists(
        st.tuples(counters, st.integers(1, 10**9), st.integers(0, 10**6)), min_size=1, max_size=30
    ),
    st.integers(0, 10**6),
)
def test_any_history_of_counters_gives_rising_epochs_within_what_is_possible(history, limit_mw):
    """For any counter values: time and energy rise within an epoch, and never faster than the
    limit.
    """
    before, last_by_epoch, mono_us = None, {}, 0
    for counter_mj, gap_us, power_mw in history:
        mono_us += gap_us
        step = place_reading(
            before,
            counter_mj,
            Clock(mono_us, mono_us),
            load="boot.1",
            limit_mw=limit_mw,
            power_mw=power_mw,
        )
        for last, flags in step.readings:
            previous = last_by_epoch.get(last.epoch)
            if previous is not None:
                assert last.counter_mj >= previous.counter_mj
                assert last.monotonic_us > previous.monotonic_us
            if flags & FLAG_BRIDGED:
                assert previous is not None
                assert previous.counter_mj == 0
            last_by_epoch[last.epoch] = last
        new_epoch = before is not None and step.readings[-1][0].epoch != before.epoch
        assert (step.gap_until_us is not None) == new_epoch
        if new_epoch:
            assert before.wall_us <= step.gap_until_us <= mono_us
        before = step.readings[-1][0]
    assert before == CounterReading(before.epoch, history[-1][0], mono_us, mono_us)


SECONDS, WATTS = st.integers(1, 20), st.integers(0, 700)
EVENTS = st.one_of(
    st.tuples(st.just("work"), st.integers(1, 900), WATTS, st.just(0), st.just(0)),
    st.tuples(st.just("lost"), SECONDS, WATTS, SECONDS, WATTS),
    st.tuples(st.just("fall"), SECONDS, WATTS, SECONDS, WATTS),
    st.tuples(st.just("reload"), SECONDS, WATTS, SECONDS, WATTS),
)


def _replay_events(machine, event) -> tuple[int, int]:
    """Apply the event between two readings. Returns (mJ that must be known, gaps that must be
    declared).
    """
    kind, before_s, before_watts, after_s, after_watts = event
    gpu = machine.driver.gpus[0]
    start_mj = gpu.counter_mj
    if kind in ("fall", "reload") and start_mj <= 20 * 700_000:
        kind = (
            "work"  # a counter above its old value cannot be distinguished from one that continued
        )
    gpu.set_power(before_watts * 1000)
    machine.clock.step(before_s)
    gathered_mj = gpu.counter_mj - start_mj
    if kind == "work":
        return gathered_mj, 0
    if kind == "lost":
        gpu.set(lost=1)
        with pytest.raises(SourceFailed):
            machine.poll()
        gpu.set(lost=0)
    elif kind == "fall":
        gpu.set_counter_mj(0)
    else:
        machine.reload_driver()
        with pytest.raises(SourceFailed):
            machine.poll()
    gpu.set_power(after_watts * 1000)
    machine.clock.step(after_s)
    since_mj = after_watts * after_s * 1000
    return (gathered_mj + since_mj, 0) if kind == "lost" else (since_mj, 1)


def test_any_history_of_a_gpu_is_complete_except_for_declared_gaps(bench):
    """Through the driver: Σ differences within epochs = counter growth outside declared gaps,
    exactly.
    """
    machine = bench("hopper")

    @settings(max_examples=60, deadline=None)
    @given(st.lists(EVENTS, min_size=1, max_size=20))
    def check_history(events):
        machine.source.close()
        machine.source = machine.new_source()
        machine.driver.gpus[0].set_counter_mj(10**9)
        machine.source.open()
        readings, counted_mj, gaps = machine.poll(), 0, 0
        reasons = []
        for event in events:
            must_know_mj, must_declare = _replay_events(machine, event)
            readings += machine.poll()
            declared = machine.source.gaps()
            assert len(declared) == must_declare
            assert all(gap.from_us < gap.to_us for gap in declared)
            reasons += [gap.reason for gap in declared]
            counted_mj, gaps = counted_mj + must_know_mj, gaps + must_declare
        steps = [
            following.counter_mj - earlier.counter_mj
            for earlier, following in _within_epochs(readings)
        ]
        assert min(steps, default=0) >= 0
        assert sum(steps) == counted_mj
        assert len({reading.epoch for reading in readings}) == gaps + 1
        assert reasons == ["driver"] * gaps
        windows, declared = _windows(readings)
        assert sum(window.energy_mj for window in windows) == counted_mj
        assert len(declared) == gaps
        assert all(dict(window.shares).get("idle", 0) == window.energy_mj for window in windows)

    check_history()


def _windows(readings):
    """Return the windows and gaps of the readings."""
    builder = WindowBuilder(
        device=readings[0].device, boot=BOOT, grid_us=60_000_000, tolerance_us=1_500_000
    )
    settled = [builder.add(reading, {"idle": 1}) for reading in readings] + [builder.flush()]
    return [window for reading in settled for window in reading.windows], [
        gap for reading in settled for gap in reading.gaps
    ]


def _within_epochs(readings):
    return [(a, b) for a, b in pairwise(readings) if a.epoch == b.epoch]
