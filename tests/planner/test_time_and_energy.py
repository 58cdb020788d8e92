"""Time and energy by each basis, with figures computed by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import PPM
from apps.planner.choices import Basis, Trainable
from apps.planner.formulas.node_energy import rest_power, with_node_energy
from apps.planner.formulas.time_and_energy import (
    EARLY_STOP,
    Card,
    Figures,
    PastOperations,
    PastRun,
    Probe,
    from_catalogue,
    from_operations,
    from_own_runs,
    from_probe,
)
from apps.planner.formulas.work import Training, Work, training_flops, work_ratio

HOUR = 3_600_000_000
RUN = PastRun(HOUR, 700_000, 900_000, Work(samples=1000, epochs=10), is_same_recipe=True)


def check(figures: Figures | None) -> Figures:
    assert figures is not None
    return figures


# Own runs


def test_one_run_is_scaled_by_samples_and_epochs() -> None:
    figures = check(from_own_runs([RUN], Work(samples=2000, epochs=30)))
    assert figures.basis == Basis.OWN_RUNS
    assert figures.time_us.likely == 6 * HOUR
    assert (figures.gpu_energy_mj, figures.node_energy_mj) != (None, None)
    assert figures.gpu_energy_mj
    assert figures.gpu_energy_mj.likely == 6 * 700_000
    assert figures.node_energy_mj
    assert figures.node_energy_mj.likely == 6 * 900_000
    assert figures.time_us.high == 9 * HOUR, "one run has no spread: ×÷ 1.5"
    assert figures.time_us.low == pytest.approx(4 * HOUR, rel=1e-6)
    assert figures.reserve_us == 9 * HOUR


def test_equal_runs_have_the_least_range() -> None:
    figures = check(from_own_runs([RUN] * 5, RUN.work))
    assert (figures.time_us.low, figures.time_us.high) == (HOUR * 9 // 10, HOUR * 11 // 10)


def test_the_range_is_the_spread_of_past_runs() -> None:
    runs = [replace(RUN, time_us=HOUR * percent // 100) for percent in (50, 100, 200)]
    figures = check(from_own_runs(runs, RUN.work))
    assert figures.time_us.likely == HOUR
    # t of two degrees 1.8856 × deviation ln 2 × √(4/3), by hand: ×÷ 4.52
    assert figures.time_us.high / HOUR == pytest.approx(4.524, abs=0.01)


def test_model_costs_scale_with_a_wider_range() -> None:
    past = [replace(RUN, macs=10**9)] * 4
    figures = check(from_own_runs(past, RUN.work, macs=4 * 10**9))
    assert figures.time_us.likely == 4 * HOUR
    assert figures.time_us.high >= 8 * HOUR, "within the square root and the power of 1.5"
    by_parameters = check(
        from_own_runs([replace(RUN, parameters=10)] * 4, RUN.work, macs=5, parameters=20)
    )
    assert by_parameters.time_us.likely == 2 * HOUR


def test_three_runs_of_the_same_recipe_count_alone() -> None:
    other = replace(RUN, time_us=9 * HOUR, is_same_recipe=False)
    figures = check(from_own_runs([RUN, RUN, RUN, other], RUN.work))
    assert figures.time_us.likely == HOUR
    assert figures.facts["runs"] == 3
    assert check(from_own_runs([RUN, RUN, other], RUN.work)).facts["runs"] == 3


def test_an_unknown_total_is_a_range_of_its_own() -> None:
    figures = check(from_own_runs([RUN] * 5, Work()))
    assert figures.time_us.likely == HOUR
    assert figures.time_us.high > HOUR * EARLY_STOP.high_ppm // PPM
    assert figures.facts["is_total_known"] is False


def test_runs_with_unknown_work_count_for_the_same_recipe_only() -> None:
    blank = replace(RUN, work=Work())
    assert check(from_own_runs([blank], RUN.work)).time_us.likely == HOUR
    assert from_own_runs([replace(blank, is_same_recipe=False)], RUN.work) is None


def test_unmeasured_energy_stays_unknown() -> None:
    figures = check(from_own_runs([replace(RUN, gpu_energy_mj=None, node_energy_mj=None)], Work()))
    assert (figures.gpu_energy_mj, figures.node_energy_mj) == (None, None)
    assert from_own_runs([], Work(epochs=1)) is None
    assert from_own_runs([replace(RUN, time_us=0)], Work()) is None


@pytest.mark.parametrize(
    ("work", "past", "expected"),
    [
        (Work(steps=100), Work(steps=50), 2),
        (Work(steps=100, batch=32), Work(steps=50, batch=64), 1),
        (Work(steps=100, batch=32), Work(samples=320, epochs=1), 10),
        (Work(epochs=9), Work(epochs=3), 3),
        (Work(epochs=9, samples=10), Work(epochs=3), 3),
        (Work(epochs=9), Work(steps=3), None),
        (Work(), Work(epochs=3), None),
    ],
)
def test_ratio_of_work(work: Work, past: Work, expected: int | None) -> None:
    assert work_ratio(work, past) == expected


# Probe

PROBE = Probe(90_000_000, 450, 200_000, gpu_mw=250_000, node_mw=350_000)


def test_a_probe_is_extended_to_all_steps() -> None:
    figures = check(from_probe(PROBE, Work(steps=36_000)))
    assert figures.time_us.likely == 2 * HOUR
    assert figures.gpu_energy_mj
    assert figures.gpu_energy_mj.likely == 250_000 * 7200
    assert figures.node_energy_mj
    assert figures.node_energy_mj.likely == 350_000 * 7200
    assert figures.time_us.high == 2 * HOUR * 103 // 100
    assert figures.reserve_us == 124 * 60_000_000, "whole minutes, up"


def test_the_first_epoch_is_slower() -> None:
    probe = replace(PROBE, first_step_us=300_000)
    figures = check(from_probe(probe, Work(samples=100, batch=1, epochs=10)))
    assert figures.time_us.likely == 100 * 300_000 + 900 * 200_000
    unseen = check(from_probe(PROBE, Work(samples=100, batch=1, epochs=10)))
    assert unseen.time_us.likely == 1000 * 200_000
    # P10 assumes 165/180 of the steps after the first epoch
    assert unseen.time_us.low < 1000 * 200_000 - 900 * 200_000 * 15 // 180


def test_start_and_evaluations_are_added() -> None:
    probe = replace(PROBE, startup_us=5_000_000, evaluation_us=7_000_000, evaluation_steps=300)
    figures = check(from_probe(probe, Work(steps=1000)))
    assert figures.time_us.likely == 5_000_000 + 200_000_000 + 3 * 7_000_000


def test_a_probe_that_is_too_short_is_no_basis() -> None:
    assert from_probe(replace(PROBE, measured_us=58_000_000), Work(steps=10)) is None
    assert from_probe(PROBE, Work()) is None
    assert from_probe(PROBE, Work(epochs=3)) is None, "steps of an epoch unknown"
    assert check(from_probe(replace(PROBE, epoch_steps=10), Work(epochs=3))).facts["steps"] == 30
    unmeasured = check(from_probe(replace(PROBE, gpu_mw=None, node_mw=None), Work(steps=10)))
    assert (unmeasured.gpu_energy_mj, unmeasured.node_energy_mj) == (None, None)


# Operations

PAST = PastOperations(10**15, HOUR, 400_000, 600_000)


def test_operations_by_the_labs_own_energy() -> None:
    figures = check(from_operations(3 * 10**15, [PAST], is_large=True, gpus=1, stops_early=False))
    assert figures.time_us.likely == 3 * HOUR
    assert figures.node_energy_mj
    assert figures.node_energy_mj.likely == 1_800_000
    assert figures.node_energy_mj.high == 1_800_000 * 24 // 10
    small = check(from_operations(10**15, [PAST], is_large=False, gpus=1, stops_early=False))
    assert small.time_us.high == 20 * HOUR
    same = replace(PAST, is_same_model=True, time_us=2 * HOUR)
    exact = check(from_operations(10**15, [PAST, same], is_large=False, gpus=1, stops_early=False))
    assert exact.time_us.likely == 2 * HOUR
    assert exact.time_us.high == 2 * HOUR * 124 // 100
    assert from_operations(10**15, [], is_large=True, gpus=1, stops_early=False) is None
    assert from_operations(0, [PAST], is_large=True, gpus=1, stops_early=False) is None


def test_flops_of_a_training() -> None:
    """ResNet-50: 4 089 184 256 MACs a sample, forward and twice backward."""
    macs = 4_089_184_256
    assert training_flops(macs, 1, Training()) == 6 * macs
    assert training_flops(macs, 10, Training(Trainable.ADAPTERS)) == 40 * macs
    assert training_flops(macs, 10, Training(Trainable.HEAD)) == 20 * macs
    assert training_flops(macs, 10, Training(checkpointing=True)) == 80 * macs


# Catalogue


def test_the_catalogue_gives_an_order_of_magnitude() -> None:
    """H100: 989 TFLOP/s, 700 W. MLPerf Training v4.0 measured 1 179 J/PFLOP at nodes for GPT-3."""
    figures = check(
        from_catalogue(10**21, Card(989_000, 700_000), is_large=True, gpus=512, stops_early=False)
    )
    assert figures.node_energy_mj is None
    node = with_node_energy(figures, rest_power(700_000, 512)).node_energy_mj
    assert node is not None
    measured_mj = 1_179 * 10**6 * 1000  # 10^6 PFLOP
    assert node.low < measured_mj < node.high
    # a third of the peak of all cards
    assert figures.time_us.likely == pytest.approx(10**21 * 3 / (989e12 * 512) * 1e6, rel=1e-9)
    small = check(
        from_catalogue(10**21, Card(989_000, 700_000), is_large=False, gpus=512, stops_early=True)
    )
    assert small.time_us.high > figures.time_us.high * 4


@given(
    st.integers(1, 10**20), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 512),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_ranges_are_ordered(
    flops: int, peak: int, rated: int, gpus: int, is_large: bool, early: bool
) -> None:
    figures = check(
        from_catalogue(flops, Card(peak, rated), is_large=is_large, gpus=gpus, stops_early=early)
    )
    for each in (figures.time_us, figures.gpu_energy_mj):
        assert each is not None
        assert 0 <= each.low <= each.likely <= each.high


def test_catalogue_by_hand() -> None:
    """1.044 EFLOP on a card of 312 TFLOP/s at a third of it: 10 038 s; 400 W ÷ 1.53: 0.729 kWh."""
    use = from_catalogue(
        1_044 * 10**15, Card(312_000, 400_000), is_large=True, gpus=1, stops_early=False
    )
    assert use is not None
    assert use.basis == Basis.CATALOGUE
    assert use.time_us.likely == 10_038_461_538
    assert use.gpu_energy_mj is not None
    assert use.gpu_energy_mj.likely == pytest.approx(10_038.461538 * 400_000 / 1.53, rel=1e-9)
    assert use.time_us.high == pytest.approx(
        use.time_us.likely * math.exp(math.hypot(math.log(2.4), math.log(3))), rel=1e-5
    )
    unknown = from_catalogue(10**15, Card(312_000, None), is_large=True, gpus=1, stops_early=False)
    assert unknown is not None
    assert unknown.gpu_energy_mj is None


@given(
    st.integers(10**9, 10**24),
    st.integers(1, 10**7),
    st.integers(1, 10**6),
    st.integers(1, 1024),
    st.booleans(),
)
def test_catalogue_by_floats(
    flops: int, peak_gflops: int, rated_mw: int, gpus: int, is_large: bool
) -> None:
    use = from_catalogue(
        flops, Card(peak_gflops, rated_mw), is_large=is_large, gpus=gpus, stops_early=False
    )
    assert use is not None
    seconds = flops / (peak_gflops * 1e9 / 3) / gpus
    energy = use.gpu_energy_mj
    assert energy is not None
    assert use.time_us.likely == pytest.approx(seconds * 1e6, rel=1e-9, abs=0.51)
    assert energy.likely == pytest.approx(seconds * gpus * rated_mw / 1.53, rel=1e-9, abs=0.51)
    assert use.time_us.low <= use.time_us.likely <= use.time_us.high
    assert energy.low <= energy.likely <= energy.high


RUNS = st.builds(
    PastRun,
    time_us=st.integers(1, 10**12),
    gpu_energy_mj=st.none() | st.integers(1, 10**12),
    node_energy_mj=st.none() | st.integers(1, 10**12),
    work=st.builds(Work, samples=st.integers(1, 10**6), epochs=st.integers(1, 500)),
    macs=st.none() | st.integers(1, 10**12),
    is_same_recipe=st.booleans(),
)


@given(st.lists(RUNS, min_size=1, max_size=8), st.integers(1, 1000))
def test_own_runs_scale_linearly(runs: list[PastRun], times: int) -> None:
    work = Work(samples=100, epochs=3)
    once = check(from_own_runs(runs, work))
    more = check(from_own_runs(runs, Work(samples=100, epochs=3 * times)))
    assert abs(more.time_us.likely - once.time_us.likely * times) <= times
    assert once.time_us.low <= once.time_us.likely <= once.time_us.high
