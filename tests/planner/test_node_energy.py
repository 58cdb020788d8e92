"""Energy of a node: its GPUs and the rest."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import MJ_PER_KWH, US_PER_HOUR
from apps.planner.choices import Basis
from apps.planner.formulas.node_energy import (
    measured_rest_power,
    node_energy,
    rest_power,
    with_node_energy,
)
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import Figures


def exact(value: int) -> Range:
    return Range(value, value, value)


def test_the_rest_of_a_node() -> None:
    assert rest_power(400_000, 2) == Range(100_000, 200_000, 400_000)
    # 0.2 kWh in 2 h is 100 W; a job on one of four GPUs has a quarter
    rest = measured_rest_power(MJ_PER_KWH // 5, 2 * US_PER_HOUR, Fraction(1, 4))
    assert rest == Range(12_500, 25_000, 50_000)
    energy = node_energy(
        Range(100, 200, 300), Range(1_000_000, 2_000_000, 3_000_000), Range(10, 20, 30)
    )
    assert energy == Range(110, 240, 390)


@given(st.integers(0, 10**15), st.integers(0, 10**13), st.integers(0, 10**7))
def test_energy_of_a_node_contains_that_of_its_gpus(gpu: int, time: int, rest: int) -> None:
    energy = node_energy(exact(gpu), exact(time), exact(rest))
    assert energy.likely == gpu + math.floor(Fraction(time * rest, 10**6) + Fraction(1, 2))


def test_a_measured_energy_of_the_node_stays() -> None:
    measured = Figures(Basis.OWN_RUNS, exact(10**6), exact(100), exact(150))
    assert with_node_energy(measured, exact(10)) == measured


def test_an_unknown_energy_stays_unknown() -> None:
    no_gpu = Figures(Basis.OWN_RUNS, exact(10**6), None, None)
    assert with_node_energy(no_gpu, exact(10)) == no_gpu
    gpu = Figures(Basis.PROBE, exact(10**6), exact(100), None)
    assert with_node_energy(gpu, None) == gpu
    assert with_node_energy(gpu, exact(10)).node_energy_mj == exact(110)
