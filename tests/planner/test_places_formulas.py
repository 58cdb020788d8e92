"""Time, energy, carbon and samples per joule on different cards: hand-computed and by an oracle."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import MJ_PER_KWH, US_PER_HOUR
from apps.planner.choices import Basis
from apps.planner.formulas import places
from apps.planner.formulas.places import (
    Fit,
    OwnOperations,
    PeakRatio,
    Reference,
    Release,
    ScalingStep,
)
from apps.planner.formulas.ranges import Range

GIB = 1 << 30


def exact(value: int) -> Range:
    return Range(value, value, value)


@pytest.mark.parametrize(
    ("needed", "fit"),
    [
        ((20, 21, 27), Fit.FITS),  # 87.5 % of 24, at most 112.5 %
        ((20, 21, 28), Fit.BORDERLINE),  # the high end is above 115 %
        ((20, 22, 24), Fit.BORDERLINE),  # 91.7 %
        ((22, 27, 29), Fit.BORDERLINE),  # 112.5 %
        ((22, 28, 30), Fit.DOES_NOT_FIT),  # 116.7 %, at least 91.7 %
        ((21, 28, 30), Fit.BORDERLINE),  # the low end is below 90 %
    ],
)
def test_fit_against_a_card_of_24_gib(needed: tuple[int, int, int], fit: Fit) -> None:
    low, likely, high = (gib * GIB for gib in needed)
    assert places.judge_fit(Range(low, likely, high), 24 * GIB) == fit


def test_the_edges_of_borderline_belong_to_it() -> None:
    assert places.judge_fit(exact(899), 1000) == Fit.FITS
    assert places.judge_fit(exact(900), 1000) == Fit.BORDERLINE
    assert places.judge_fit(exact(1150), 1000) == Fit.BORDERLINE
    assert places.judge_fit(exact(1151), 1000) == Fit.DOES_NOT_FIT


@given(
    st.tuples(*[st.integers(1, 10**12)] * 3).map(sorted),
    st.integers(1, 10**12),
    st.integers(0, 10**12),
)
def test_a_larger_card_never_fits_worse(ends: list[int], card: int, more: int) -> None:
    order = [Fit.FITS, Fit.BORDERLINE, Fit.DOES_NOT_FIT]
    needed = Range(*ends)
    assert order.index(places.judge_fit(needed, card + more)) <= order.index(
        places.judge_fit(needed, card)
    )


def test_the_card_of_the_reference_keeps_its_figures() -> None:
    reference = Reference(Basis.PROBE, 2, Range(8, 10, 12), Range(80, 100, 120), 300_000)
    use = places.on_same_card(reference)
    assert (use.basis, use.time_us, use.gpu_energy_mj) == (
        Basis.PROBE, Range(8, 10, 12), Range(80, 100, 120),
    )  # fmt: skip


def test_a_card_twice_as_fast_takes_half_the_time() -> None:
    """Two cards at 300 W of 400 W for 10 h; the other card: twice the peak, 600 W, so 450 W each:
    5 h × 2 × 450 W = 4.5 kWh.
    """
    energy = 2 * 3 * MJ_PER_KWH  # 2 cards × 0.3 kW × 10 h
    reference = Reference(
        Basis.OWN_RUNS, 2, exact(10 * US_PER_HOUR), exact(energy), rated_mw=400_000
    )
    use = places.on_other_card(reference, PeakRatio(2_000_000, 2_000_000, 2_000_000), 600_000)
    assert use.basis == Basis.CATALOGUE
    assert use.time_us.likely == 5 * US_PER_HOUR
    assert use.time_us.high == 12 * US_PER_HOUR  # ×÷ 2.4
    assert use.gpu_energy_mj is not None
    assert use.gpu_energy_mj.likely == 4_500_000 * MJ_PER_KWH // 10**6
    # ln 2.4 = 0.8755 and ln 1.4 = 0.3365 in quadrature: × 2.555
    assert use.gpu_energy_mj.high == pytest.approx(4.5 * MJ_PER_KWH * 2.5549, rel=1e-3)


def test_bounds_of_the_peaks_widen_the_time() -> None:
    reference = Reference(Basis.OWN_RUNS, 1, exact(6_000_000), None)
    use = places.on_other_card(reference, PeakRatio(500_000, 2_000_000, 6_000_000), None)
    assert use.time_us.likely == 3_000_000
    assert use.time_us.low == pytest.approx(1_000_000, rel=2e-6)  # ends are rounded to ppm
    assert use.time_us.high == pytest.approx(12_000_000, rel=2e-6)
    assert use.gpu_energy_mj is None


def test_a_load_above_the_power_limit_counts_as_the_limit() -> None:
    reference = Reference(Basis.OWN_RUNS, 1, exact(1_000_000), exact(500_000), rated_mw=400_000)
    use = places.on_other_card(reference, PeakRatio(1_000_000, 1_000_000, 1_000_000), 100_000)
    assert use.gpu_energy_mj is not None
    assert use.gpu_energy_mj.likely == 100_000


def test_own_operations() -> None:
    """10 EFLOP took 2 h and 3 kWh on one card, so 40 EFLOP on two cards take 4 h and 12 kWh."""
    own = OwnOperations(10**19, 2 * US_PER_HOUR, 3 * MJ_PER_KWH)
    use = places.from_own_operations(4 * 10**19, own, 2, is_large=True)
    assert use.basis == Basis.OPERATIONS
    assert use.time_us.likely == 4 * US_PER_HOUR
    assert use.gpu_energy_mj is not None
    assert use.gpu_energy_mj.likely == 12 * MJ_PER_KWH
    assert use.gpu_energy_mj.low == pytest.approx(5 * MJ_PER_KWH, rel=2e-6)
    assert use.gpu_energy_mj.high == pytest.approx(28.8 * MJ_PER_KWH, rel=2e-6)
    small = places.from_own_operations(4 * 10**19, own, 2, is_large=False)
    assert small.time_us.high == 80 * US_PER_HOUR


def test_catalogue() -> None:
    """1.044 EFLOP on a card of 312 TFLOP/s at a third of it: 10 038 s; 400 W ÷ 1.53: 0.729 kWh."""
    use = places.from_catalogue(1_044 * 10**15, 312_000, 400_000, 1, is_large=True)
    assert use.basis == Basis.CATALOGUE
    assert use.time_us.likely == 10_038_461_538
    assert use.gpu_energy_mj is not None
    assert use.gpu_energy_mj.likely == pytest.approx(10_038.461538 * 400_000 / 1.53, rel=1e-9)
    assert use.time_us.high == pytest.approx(
        use.time_us.likely * math.exp(math.hypot(math.log(2.4), math.log(3))), rel=1e-5
    )
    unknown = places.from_catalogue(10**15, 312_000, None, 1, is_large=True)
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
    use = places.from_catalogue(flops, peak_gflops, rated_mw, gpus, is_large=is_large)
    seconds = flops / (peak_gflops * 1e9 / 3) / gpus
    energy = use.gpu_energy_mj
    assert energy is not None
    assert use.time_us.likely == pytest.approx(seconds * 1e6, rel=1e-9, abs=0.51)
    assert energy.likely == pytest.approx(seconds * gpus * rated_mw / 1.53, rel=1e-9, abs=0.51)
    assert use.time_us.low <= use.time_us.likely <= use.time_us.high
    assert energy.low <= energy.likely <= energy.high


def test_the_rest_of_a_node() -> None:
    assert places.rest_power(400_000, 2) == Range(100_000, 200_000, 400_000)
    # 0.2 kWh in 2 h is 100 W; a job on one of four GPUs has a quarter
    rest = places.measured_rest_power(MJ_PER_KWH // 5, 2 * US_PER_HOUR, Fraction(1, 4))
    assert rest == Range(12_500, 25_000, 50_000)
    energy = places.node_energy(
        Range(100, 200, 300), Range(1_000_000, 2_000_000, 3_000_000), Range(10, 20, 30)
    )
    assert energy == Range(110, 240, 390)


@given(st.integers(0, 10**15), st.integers(0, 10**13), st.integers(0, 10**7))
def test_energy_of_a_node_contains_that_of_its_gpus(gpu: int, time: int, rest: int) -> None:
    energy = places.node_energy(exact(gpu), exact(time), exact(rest))
    assert energy.likely == gpu + math.floor(Fraction(time * rest, 10**6) + Fraction(1, 2))


def test_emissions_and_embodied_carbon() -> None:
    # 10 kWh × 1.2 × 400 g/kWh = 4.8 kg
    assert places.times_rate(exact(10 * MJ_PER_KWH), 1_200_000, 400_000_000) == exact(4_800_000_000)
    # BLOOM: 150 kg, 6 years at 85 % use: 0.003358 kg per GPU-hour
    life_hours = 6 * 8760 * 85 // 100
    share = places.embodied_share(exact(150 * 10**9), life_hours, Fraction(1), exact(US_PER_HOUR))
    assert share.likely == 3_357_507
    # SCI: 1000 kg, 4 years, 1 hour: 28.54 g
    assert (
        places.embodied_share(exact(10**12), 4 * 8760, Fraction(1), exact(US_PER_HOUR)).likely
        == 28_538_813
    )


def test_samples_per_joule() -> None:
    assert places.usamples_per_joule(Fraction(11_868), Fraction(1_200)) == 9_890_000
    # 1 000 samples with 100, 200 and 400 J
    assert places.samples_per_energy(1_000, Range(100_000, 200_000, 400_000)) == Range(
        2_500_000, 5_000_000, 10_000_000
    )


@given(st.fractions(min_value="0.001", max_value=10**6), st.fractions(1, 10**5))
def test_samples_per_joule_by_energy_of_a_second(rate: Fraction, watts: Fraction) -> None:
    """Samples of a second ÷ joules of a second."""
    assert abs(places.usamples_per_joule(rate, watts) - float(rate) / float(watts) * 1e6) <= 1 + (
        float(rate) / float(watts)
    )


def test_newer_is_not_greener() -> None:
    rows = [
        Release("old", 2018, 500),
        Release("older", 2016, 700),
        Release("new", 2022, 600),
        Release("best", 2024, 400),
        Release("unknown", None, 100),
        Release("without", 2010, None),
    ]
    assert places.find_greener_older(rows) == {"new": "old"}


@given(
    st.lists(
        st.tuples(st.none() | st.integers(2010, 2026), st.none() | st.integers(0, 50)), max_size=8
    )
)
def test_newer_is_not_greener_by_comparison_of_all(
    values: list[tuple[int | None, int | None]],
) -> None:
    rows = [Release(str(i), year, ug) for i, (year, ug) in enumerate(values)]
    found = places.find_greener_older(rows)
    for i, (year, ug) in enumerate(values):
        older = [
            other_ug
            for other_year, other_ug in values
            if None not in (year, ug, other_year, other_ug) and other_year < year and other_ug < ug  # type: ignore[operator]
        ]
        assert (str(i) in found) == bool(older)
        if older:
            assert values[int(found[str(i)])][1] == min(older)  # type: ignore[type-var]


def test_scaling_is_compared_with_the_fewest_gpus() -> None:
    steps = places.compare_scaling([ScalingStep(8, 64, 250, 130), ScalingStep(1, 8, 1000, 100)])
    assert [(step.gpus, step.speedup_ppm, step.energy_ppm) for step in steps] == [
        (8, 1_000_000, 1_000_000),
        (64, 4_000_000, 1_300_000),
    ]
    assert places.compare_scaling([]) == []
