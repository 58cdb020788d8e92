"""Windows from readings: any counter history preserves every millijoule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.energy.windows import (
    HOUR_US,
    Anchor,
    ClosedWindows,
    Window,
    WindowBuilder,
    last_boundary,
    next_boundary,
)
from labcarbon_collect.sources.base import FLAG_RECOVERED, Gap, Reading

from tests.collector.readings import GPU, MINUTE, SECOND, T0, check, reading, total_mj

RUN = {"run:6a1f0f3e-0000-4000-8000-000000000001": 1}


def builder(
    anchor: Anchor | None = None, *, grid_us: int = MINUTE, boot: str = "boot-1"
) -> WindowBuilder:
    return WindowBuilder(
        device=GPU, boot=boot, grid_us=grid_us, tolerance_us=1_500_000, anchor=anchor
    )


@dataclass
class Disk:
    """The content of a spool."""

    windows: list[Window] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    anchor: Anchor | None = None

    def store(self, settled: ClosedWindows) -> None:
        self.windows.extend(settled.windows)
        self.gaps.extend(settled.gaps)
        self.anchor = settled.anchor or self.anchor


def play(readings: list[Reading], weights: dict[str, int] | None = None) -> Disk:
    disk, window_builder = Disk(), builder()
    for sample in readings:
        disk.store(window_builder.add(sample, weights or RUN))
    disk.store(window_builder.flush())
    return disk


def test_a_steady_minute_is_one_window_on_the_grid() -> None:
    disk = play([reading(second + 0.004, 10_000 + 50 * second) for second in range(125)])
    check(disk.windows)
    assert [(w.start_us - T0, w.end_us - T0, w.energy_mj) for w in disk.windows] == [
        (4_000, MINUTE, 3000),
        (MINUTE, 2 * MINUTE, 3000),
        (2 * MINUTE, 2 * MINUTE + 4 * SECOND + 4_000, 200),
    ]


def test_windows_are_cut_at_the_hour_whatever_the_grid() -> None:
    readings = [reading(second, second) for second in range(3590, 3620)]
    window_builder, disk = builder(grid_us=70 * SECOND), Disk()
    for sample in readings:
        disk.store(window_builder.add(sample, RUN))
    assert disk.windows[0].end_us == T0 + HOUR_US


def test_a_late_reading_ends_the_window_where_it_was_read() -> None:
    disk = play([reading(58, 0), reading(59, 10), reading(66, 500), reading(67, 510)])
    assert disk.windows[0].end_us == T0 + 66 * SECOND
    check(disk.windows)


def test_shares_follow_the_weights_poll_by_poll() -> None:
    window_builder = builder()
    window_builder.add(reading(0, 0), {"idle": 1})
    window_builder.add(reading(10, 100), {"idle": 1})
    window_builder.add(reading(20, 400), {"run:a": 2, "run:b": 1})
    assert window_builder.open_shares() == {"idle": 100, "run:a": 200, "run:b": 100}


def test_a_counter_that_falls_is_a_gap_never_negative_energy() -> None:
    disk = play([reading(0, 1000), reading(1, 1100), reading(2, 5), reading(3, 25)])
    check(disk.windows)
    assert [w.energy_mj for w in disk.windows] == [100, 20]
    assert [(g.from_us, g.to_us, g.reason) for g in disk.gaps] == [
        (T0 + SECOND, T0 + 2 * SECOND, "lost")
    ]


def test_new_epoch_closes_the_window_with_the_reason_of_the_source() -> None:
    window_builder, disk = builder(), Disk()
    for sample in (reading(0, 1000), reading(1, 1100)):
        disk.store(window_builder.add(sample, RUN))
    disk.store(window_builder.add(reading(5, 2000, epoch="e2"), RUN, gap_reason="driver"))
    assert [w.energy_mj for w in disk.windows] == [100]
    assert [g.reason for g in disk.gaps] == ["driver"]
    assert disk.anchor is not None
    assert (disk.anchor.epoch, disk.anchor.counter_mj, disk.anchor.seq) == ("e2", 2000, 1)


def test_recovered_window_after_a_kill_is_unattributed() -> None:
    before = play([reading(second, 100 * second) for second in range(61)])
    window_builder = builder(before.anchor)
    settled = window_builder.add(reading(600, 90_000), RUN)
    (recovered,) = settled.windows
    check([*before.windows, recovered])
    assert recovered.flags == FLAG_RECOVERED
    assert recovered.energy_mj == 90_000 - before.windows[-1].counter_end_mj
    assert recovered.util_mean_pm is None
    assert dict(recovered.shares) == dict.fromkeys(
        RUN, recovered.energy_mj
    )  # sole consumer before and after
    idle = builder(before.anchor).add(reading(600, 90_000), {"idle": 1})
    assert dict(idle.windows[0].shares) == {"unknown": recovered.energy_mj}


def test_gap_after_a_reboot_has_that_reason() -> None:
    before = play([reading(0, 0), reading(1, 10)])
    settled = builder(before.anchor, boot="boot-2").add(
        reading(100, 3, epoch="e2", monotonic_us=5), RUN
    )
    assert [g.reason for g in settled.gaps] == ["reboot"]
    assert not settled.windows


def test_after_a_step_back_of_the_wall_clock_windows_are_contiguous_in_monotonic_time() -> None:
    readings = [reading(second, 10 * second) for second in range(90)]
    readings += [
        replace(reading(second, 10 * second), wall_us=T0 + (second - 30) * SECOND)
        for second in range(90, 300)
    ]
    disk = play(readings)
    check(disk.windows)
    assert total_mj(disk.windows) == 10 * 299
    assert all(a.mono_end_us == b.mono_start_us for a, b in zip(disk.windows, disk.windows[1:]))
    assert all(b.mono_end_us - b.mono_start_us <= 60 * SECOND for b in disk.windows)


def test_wall_clock_step_of_a_day_preserves_the_energy() -> None:
    for day in (-1, 1):
        step = day * 24 * HOUR_US
        readings = [reading(second, 10 * second) for second in range(90)]
        readings += [
            replace(r, wall_us=r.wall_us + step)
            for r in (reading(s, 10 * s) for s in range(90, 200))
        ]
        disk = play(readings)
        check(disk.windows)
        assert total_mj(disk.windows) == 10 * 199
        assert max(w.end_us - w.start_us for w in disk.windows) <= 2 * MINUTE


def test_consumer_of_unwatched_time_is_unknown_unless_sole() -> None:
    window_builder = builder()
    window_builder.add(reading(0, 0), RUN)
    window_builder.add(reading(50, 500), {"run:b": 1})
    assert window_builder.open_shares() == {"unknown": 500}
    window_builder = builder()
    window_builder.add(reading(0, 0), RUN)
    window_builder.add(reading(50, 500), RUN)
    assert window_builder.open_shares() == dict.fromkeys(RUN, 500)


@given(st.integers(0, 10**16), st.integers(10, 300))
def test_boundaries_are_on_the_grid_or_the_hour(wall_us: int, grid_s: int) -> None:
    grid_us = grid_s * SECOND
    cut = next_boundary(wall_us, grid_us)
    assert cut > wall_us >= last_boundary(wall_us, grid_us)
    assert cut % grid_us == 0 or cut % HOUR_US == 0
    assert cut - wall_us <= grid_us


@dataclass
class Step:
    """One poll: time, energy, and events of clock, counter and daemon."""

    seconds: float
    energy_mj: int
    weights: dict[str, int]
    reset: bool
    killed: bool
    wall_step_us: int


CONSUMERS = st.sampled_from(["idle", "unknown", "run:a", "run:b", "job:c/1", "proc:ana/python"])
STEPS = st.builds(
    Step,
    seconds=st.one_of(st.floats(0.1, 3), st.floats(3, 5000)),
    energy_mj=st.one_of(st.just(0), st.integers(0, 10**7)),
    weights=st.dictionaries(CONSUMERS, st.integers(0, 10**18), max_size=5),
    reset=st.integers(0, 19).map(lambda n: n == 0),
    killed=st.integers(0, 9).map(lambda n: n == 0),
    wall_step_us=st.one_of(
        st.just(0), st.just(0), st.integers(-2 * 86_400, 2 * 86_400).map(lambda s: s * SECOND)
    ),
)


@given(st.lists(STEPS, max_size=80), st.sampled_from([10, 60, 70, 300]))
def test_any_history_conserves_energy(steps: list[Step], grid_s: int) -> None:
    """Σ shares = window; Σ windows + energy in declared gaps = total energy of the device."""
    disk, window_builder = Disk(), builder(grid_us=grid_s * SECOND)
    mono, wall, counter, epoch = 1000 * SECOND, T0, 12_345, 0
    used_mj = hidden_mj = 0

    def read() -> Reading:
        return reading(0, counter, monotonic_us=mono, wall_us=wall, epoch=f"e{epoch}")

    disk.store(window_builder.add(read(), RUN))
    last_reading = 0  # energy up to the last reading of the builder
    for step in steps:
        mono += round(step.seconds * SECOND)
        wall += round(step.seconds * SECOND) + step.wall_step_us
        used_mj += step.energy_mj
        counter += step.energy_mj
        if step.killed:
            window_builder = builder(disk.anchor, grid_us=grid_s * SECOND)
            counter_at_anchor = total_mj(disk.windows) + hidden_mj
            last_reading = counter_at_anchor
        if step.reset:
            epoch, counter = epoch + 1, 7
            hidden_mj += used_mj - last_reading
        gaps_before = len(disk.gaps)
        disk.store(window_builder.add(read(), step.weights))
        assert len(disk.gaps) == gaps_before + step.reset
        last_reading = used_mj
    disk.store(window_builder.flush())
    check(disk.windows)
    assert total_mj(disk.windows) + hidden_mj == used_mj
    assert all(gap.to_us > gap.from_us for gap in disk.gaps)


def test_counter_fall_during_a_restart_is_a_gap() -> None:
    before = play([reading(0, 1000), reading(1, 1100)])
    settled = builder(before.anchor).add(reading(9, 40), RUN)
    assert not settled.windows
    assert [(g.from_us, g.to_us) for g in settled.gaps] == [(T0 + SECOND, T0 + 9 * SECOND)]
