"""Replace or keep, the formula: more use or a dirtier grid never lengthens the break-even, more
embodied carbon never shortens it, the range holds the value, and what never pays is said to
never pay."""

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import HOURS_PER_YEAR, PPM, UG_PER_G, UG_PER_KG
from apps.replacement.payback import (
    Inputs,
    Known,
    Payback,
    middle,
    payback,
    ways,
    work_ratio,
)
from apps.replacement.requirements import MET, UNMET, hours_requirement

MANY = 10**9


@st.composite
def known(draw: st.DrawFn, low: int, high: int) -> Known:
    value = draw(st.integers(low, high))
    down, up = draw(st.integers(0, 900_000)), draw(st.integers(0, 2_000_000))
    return draw(st.sampled_from([Known.exact(value), Known.within(value, down, up)]))


@st.composite
def inputs(draw: st.DrawFn, *, idle: bool = True) -> Inputs:
    """Anything; with ``idle`` both cards idle, the new one not below the old one."""
    old_idle = draw(st.integers(0, 80_000)) if idle else 0
    new_idle = old_idle + draw(st.integers(0, 80_000)) if idle else 0
    return Inputs(
        te_ug=draw(known(UG_PER_KG, 3000 * UG_PER_KG)),
        old_mw=draw(known(1_000, 1_500_000)),
        new_mw=draw(known(1_000, 1_500_000)),
        ratio_ppm=draw(known(10_000, 3_000_000)),
        hours=draw(known(0, HOURS_PER_YEAR)),
        pue_ppm=draw(known(PPM, 2 * PPM)),
        ci_ug_per_kwh=draw(known(UG_PER_G, 1000 * UG_PER_G)),
        old_idle_mw=Known.exact(old_idle),
        new_idle_mw=Known.exact(new_idle),
        idle_hours=Known.exact(draw(st.integers(0, HOURS_PER_YEAR)) if idle else 0),
    )


def _length(found: Payback) -> Fraction:
    return Fraction(MANY) * MANY if found.years is None else found.years


def _more(found: Inputs, name: str, factor: Fraction) -> Inputs:
    return replace(found, **{name: Known.exact(int(getattr(found, name).value * factor))})


more = st.fractions(1, 5)


@given(inputs(), more, st.sampled_from(["hours", "ci_ug_per_kwh", "pue_ppm", "old_mw"]))
def test_more_use_a_dirtier_grid_or_a_hungrier_old_card_never_lengthens(
    found: Inputs, factor: Fraction, name: str
) -> None:
    assert _length(payback(_more(found, name, factor))) <= _length(payback(found))


@given(inputs(), more, st.sampled_from(["te_ug", "new_mw"]))
def test_more_embodied_carbon_or_a_hungrier_new_card_never_shortens(
    found: Inputs, factor: Fraction, name: str
) -> None:
    assert _length(payback(_more(found, name, factor))) >= _length(payback(found))


@given(inputs(idle=False), more)
def test_a_slower_new_card_never_shortens(found: Inputs, factor: Fraction) -> None:
    assert _length(payback(_more(found, "ratio_ppm", factor))) >= _length(payback(found))


@given(inputs(), st.integers(0, 80_000), st.integers(1_000_000, 5_000_000))
def test_a_card_never_saves_by_idling_a_negative_time(
    found: Inputs, idle_mw: int, ratio_ppm: int
) -> None:
    """A hungrier idle new card never emits less, however slow it is."""
    slow = replace(found, ratio_ppm=Known.exact(ratio_ppm))
    frugal = middle(replace(slow, new_idle_mw=Known.exact(0))).new_ug_per_year
    assert middle(replace(slow, new_idle_mw=Known.exact(idle_mw))).new_ug_per_year >= frugal


@given(known(0, HOURS_PER_YEAR), known(10_000, 5_000_000))
def test_work_longer_than_a_year_never_fits(hours: Known, ratio_ppm: Known) -> None:
    found = hours_requirement(hours, ratio_ppm)
    assert (found.state == UNMET) == (hours.value * ratio_ppm.value > HOURS_PER_YEAR * PPM)
    alone = (hours.high * ratio_ppm.value, hours.value * ratio_ppm.high)
    if found.state == MET:
        assert all(needed <= HOURS_PER_YEAR * PPM for needed in alone)


@given(inputs())
def test_the_range_holds_the_value(found: Inputs) -> None:
    told = payback(found)
    if told.years is None:
        assert told.high is None, "what never pays never pays at the worst end either"
        return
    assert told.low is not None
    assert 0 < told.low <= told.years
    assert told.high is None or told.high >= told.years


@given(inputs(), st.sampled_from([field.name for field in fields(Inputs)]))
def test_the_range_holds_what_each_input_alone_can_do(found: Inputs, name: str) -> None:
    told = payback(found)
    for end in ("low", "high"):
        alone = payback(replace(found, **{name: Known.exact(getattr(getattr(found, name), end))}))
        if alone.years is None:
            assert told.high is None
        else:
            assert told.low is not None
            assert told.low <= alone.years
            assert told.high is None or alone.years <= told.high


@given(inputs(idle=False))
def test_without_idle_it_is_the_formula(found: Inputs) -> None:
    at = middle(found)
    saved_mw = Fraction(at.old_mw) - Fraction(at.new_mw * at.ratio_ppm, PPM)
    kwh = saved_mw / 10**6 * at.hours
    ug = kwh * Fraction(at.pue_ppm, PPM) * at.ci_ug_per_kwh
    assert payback(found).years == (at.te_ug / ug if ug > 0 else None)


def test_exact_inputs_have_no_range() -> None:
    exact: dict[str, Any] = {field.name: Known.exact(1) for field in fields(Inputs)}
    found = payback(Inputs(**exact | {"old_mw": Known.exact(10**6), "hours": Known.exact(5000)}))
    assert found.low == found.years == found.high


@pytest.mark.parametrize(
    ("hours", "grams", "years"),
    [(6000, 700, Fraction(5, 42)), (6000, 20, Fraction(25, 6)), (0, 700, None)],
)
def test_a_worked_example(hours: int, grams: int, years: Fraction | None) -> None:
    """100 kg; 300 W against 400 W for a quarter of the time: 200 W saved; in 6 000 h 1 200 kWh:
    840 kg at 700 g/kWh.
    """
    found = Inputs(
        te_ug=Known.exact(100 * UG_PER_KG),
        old_mw=Known.exact(300_000),
        new_mw=Known.exact(400_000),
        ratio_ppm=Known.exact(250_000),
        hours=Known.exact(hours),
        pue_ppm=Known.exact(PPM),
        ci_ug_per_kwh=Known.exact(grams * UG_PER_G),
    )
    assert payback(found).years == years


@given(inputs(), st.integers(1, 20), st.integers(1, 10))
def test_the_ways_begin_together_and_cross_at_the_break_even(
    found: Inputs, horizon: int, wait: int
) -> None:
    told = ways(found, horizon, wait)
    at = middle(found)
    assert (told[0].keep_ug, told[0].replace_ug, told[0].wait_ug) == (0, at.te_ug, 0)
    years = payback(found).years
    for way in told:
        if years is not None and way.year:
            assert (way.replace_ug <= way.keep_ug + 1) == (way.year >= years) or abs(
                way.replace_ug - way.keep_ug
            ) <= 1
        if way.year < wait:
            assert way.wait_ug == way.keep_ug
    for before, after in zip(told, told[1:], strict=False):  # noqa: RUF007
        assert after.keep_ug >= before.keep_ug


def test_a_work_ratio_is_the_mean_or_one_measure_bounded_by_all() -> None:
    peaks = [(1, 4), (1, 2), (8, 8)]
    assert work_ratio(peaks) == Known(500_000, 250_000, 1_000_000), "the cube root of an eighth"
    assert work_ratio(peaks, 0) == Known(250_000, 250_000, 1_000_000)
    assert work_ratio([(1, 2)]) == Known(500_000, 350_000, 650_000)
    assert work_ratio([(0, 2), (1, 0)]) is None


@given(st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 10**7)), min_size=1, max_size=3))
def test_any_work_ratio_lies_in_its_range(peaks: list[tuple[int, int]]) -> None:
    found = work_ratio(peaks)
    assert found is not None
    assert found.low <= found.value <= found.high
