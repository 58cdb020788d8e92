"""Time, energy, carbon and samples per joule on different cards: hand-computed and by an oracle."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import MJ_PER_KWH, US_PER_HOUR
from apps.planner.choices import Basis
from apps.planner.formulas import places
from apps.planner.formulas.places import (
    Fit,
    PeakRatio,
    Reference,
    Release,
    ScalingStep,
)
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import Figures

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


def test_a_card_twice_as_fast_takes_half_the_time() -> None:
    """Two cards at 300 W of 400 W for 10 h; the other card: twice the peak, 600 W, so 450 W each:
    5 h × 2 × 450 W = 4.5 kWh.
    """
    energy = 2 * 3 * MJ_PER_KWH  # 2 cards × 0.3 kW × 10 h
    figures = Figures(Basis.OWN_RUNS, exact(10 * US_PER_HOUR), exact(energy), None)
    reference = Reference(figures, 2, rated_mw=400_000)
    use = places.on_other_card(reference, PeakRatio(2_000_000, 2_000_000, 2_000_000), 600_000)
    assert use.basis == Basis.CATALOGUE
    assert use.time_us.likely == 5 * US_PER_HOUR
    assert use.time_us.high == 12 * US_PER_HOUR  # ×÷ 2.4
    assert use.gpu_energy_mj is not None
    assert use.gpu_energy_mj.likely == 4_500_000 * MJ_PER_KWH // 10**6
    # ln 2.4 = 0.8755 and ln 1.4 = 0.3365 in quadrature: × 2.555
    assert use.gpu_energy_mj.high == pytest.approx(4.5 * MJ_PER_KWH * 2.5549, rel=1e-3)


def test_bounds_of_the_peaks_widen_the_time() -> None:
    reference = Reference(Figures(Basis.OWN_RUNS, exact(6_000_000), None, None), 1)
    use = places.on_other_card(reference, PeakRatio(500_000, 2_000_000, 6_000_000), None)
    assert use.time_us.likely == 3_000_000
    assert use.time_us.low == pytest.approx(1_000_000, rel=2e-6)  # ends are rounded to ppm
    assert use.time_us.high == pytest.approx(12_000_000, rel=2e-6)
    assert use.gpu_energy_mj is None


def test_a_load_above_the_power_limit_counts_as_the_limit() -> None:
    figures = Figures(Basis.OWN_RUNS, exact(1_000_000), exact(500_000), None)
    reference = Reference(figures, 1, rated_mw=400_000)
    use = places.on_other_card(reference, PeakRatio(1_000_000, 1_000_000, 1_000_000), 100_000)
    assert use.gpu_energy_mj is not None
    assert use.gpu_energy_mj.likely == 100_000


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
