"""Factors by hour and by month: which applies, what stays, and which figures change."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import Lab
from apps.carbon.figures.energy import entries, figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import EmissionFactor, HourFactor
from apps.carbon.rollups import writer
from apps.carbon.services import apply_factors
from apps.core.errors import InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.services import correct_zone
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.carbon.test_rolled_days_history import H0, NOW

pytestmark = pytest.mark.django_db
HOURS = 60
MJ = 3_600_000  # 1 Wh


@pytest.fixture
def small() -> SmallLab:
    """A workstation in Germany (PUE 1) with 1 Wh in each of 60 hours."""
    lab = small_lab()
    windows = [
        W("gpu:GPU-1", MJ, at, at + MINUTE, i, None, None, "nvml_power")
        for i, at in enumerate((H0 + offset) * US_PER_HOUR for offset in range(HOURS))
    ]
    assert push(lab.node, windows, received_us=NOW, sent_at=NOW) == [["accepted"]] * HOURS
    assert writer.roll_up(lab=lab.lab, now=NOW)
    return lab


def record(
    lab: Lab, hours: dict[int, int], *, zone: str = "DE", is_actual: bool = True, source: str = "S"
) -> int:
    number = record_hours(
        lab=lab, zone=zone, basis=lab.basis, is_actual=is_actual, source=source, licence="CC0",
        hours={H0 + offset: grams * 1_000_000 for offset, grams in hours.items()}, now=NOW,
    )  # fmt: skip
    run_until_idle(worker="test")
    return number


def grams(small: SmallLab) -> list[int]:
    """Return g per kWh of each hour, as emitted by its 1 Wh."""
    query = FigureQuery("emission_ug", H0, H0 + HOURS, basis=small.lab.basis)
    by_hour = {hour: part for (hour,), part in figures_by(small.lab, query, ["hour"]).items()}
    listed = [by_hour[H0 + offset].emission_ug for offset in range(HOURS)]
    assert figure(small.lab, query).emission_ug == sum(listed)
    return [round(ug / 1_000) for ug in listed]


def annual(small: SmallLab) -> int:
    factor = EmissionFactor.objects.get(lab=None, zone="DE", year=2025, basis=small.lab.basis)
    assert factor.ug_per_kwh is not None
    return round(factor.ug_per_kwh / 1_000_000)


def test_an_hour_has_its_own_factor_and_the_others_that_of_the_year(small: SmallLab) -> None:
    year = annual(small)
    assert grams(small) == [year] * HOURS
    assert record(small.lab, {0: 100, 30: 900, 59: 1}) == 3
    expected = [year] * HOURS
    expected[0], expected[30], expected[59] = 100, 900, 1
    assert grams(small) == expected


def test_days_are_summed_again_with_the_factors_of_their_hours(small: SmallLab) -> None:
    record(small.lab, {offset: 10 + offset for offset in range(HOURS)})
    assert writer.roll_up(lab=small.lab, now=NOW)
    query = FigureQuery("emission_ug", H0, H0 + HOURS, basis=small.lab.basis)
    assert figure(small.lab, query).emission_ug == sum(range(10, 10 + HOURS)) * 1_000
    assert grams(small) == list(range(10, 10 + HOURS))
    record(small.lab, {3: 500})
    assert figure(small.lab, query).emission_ug == (sum(range(10, 10 + HOURS)) + 487) * 1_000


def test_an_actual_value_replaces_an_estimated_one_and_not_the_reverse(small: SmallLab) -> None:
    record(small.lab, {1: 200, 2: 200}, is_actual=False)
    assert record(small.lab, {1: 150}) == 1
    assert record(small.lab, {1: 250, 2: 250}, is_actual=False) == 1
    assert grams(small)[1:3] == [150, 250]
    stored = HourFactor.objects.filter(series__lab=small.lab).order_by("hour", "pk")
    assert [
        (row.hour - H0, row.ug_per_kwh // 1_000_000, row.superseded_us is None) for row in stored
    ] == [(1, 200, False), (1, 150, True), (2, 200, False), (2, 250, True)]
    assert {row.factor.resolution for row in stored} == {"hourly_actual", "hourly_estimated"}


def test_the_same_values_again_change_nothing(small: SmallLab) -> None:
    assert record(small.lab, {1: 200, 2: 300}) == 2
    assert record(small.lab, {1: 200, 2: 300}) == 0
    assert HourFactor.objects.count() == 2


def test_no_hours_leave_no_series_without_hours(small: SmallLab) -> None:
    assert record(small.lab, {}) == 0
    assert not small.lab.hourly_series.exists()
    assert record(small.lab, {1: 200}) == 1
    assert grams(small)[1] == 200


def test_another_source_is_another_edition(small: SmallLab) -> None:
    record(small.lab, {1: 200})
    record(small.lab, {1: 200}, source="T")
    assert [
        (factor.source, factor.edition, factor.ug_per_kwh)
        for factor in EmissionFactor.objects.filter(lab=small.lab).order_by("edition")
    ] == [("S", 1, None), ("T", 2, None)]


@pytest.mark.parametrize("grams_per_kwh", [0, -5, 1501])
def test_an_impossible_value_records_nothing(small: SmallLab, grams_per_kwh: int) -> None:
    with pytest.raises(InvalidInput, match="impossible factor"):
        record(small.lab, {1: 200, 2: grams_per_kwh})
    with pytest.raises(InvalidInput, match="not a grid zone"):
        record(small.lab, {1: 200}, zone="ATLANTIS")
    assert not HourFactor.objects.exists()


def test_hours_of_a_parent_zone_apply_until_the_zone_has_its_own(small: SmallLab) -> None:
    correct_zone(site=small.site, zone="US-CAL-CISO", by=None, now=NOW)
    run_until_idle(worker="test")
    record(small.lab, {1: 100}, zone="DE")
    assert grams(small)[1] != 100
    record(small.lab, {1: 111, 2: 112}, zone="US")
    assert grams(small)[1:3] == [111, 112]
    record(small.lab, {1: 55}, zone="US-CAL-CISO")
    assert grams(small)[1] == 55
    assert grams(small)[2] != 112, "the series of the closest zone applies alone"


def test_another_lab_keeps_its_factors(small: SmallLab) -> None:
    other = small_lab(name="Another lab")
    record(other.lab, dict.fromkeys(range(HOURS), 1))
    assert grams(small) == [annual(small)] * HOURS


def test_a_month_has_its_own_factor(small: SmallLab) -> None:
    time = datetime.fromtimestamp(H0 * 3600, tz=UTC)
    EmissionFactor.objects.create(
        lab=small.lab, zone="DE", zone_name="Germany", basis=small.lab.basis, year=time.year,
        resolution="monthly", month=time.month, edition=1, ug_per_kwh=77_000_000, source="S",
        licence="CC0", loaded_us=T0,
    )  # fmt: skip
    apply_factors(lab=small.lab)
    in_month = [
        datetime.fromtimestamp((H0 + offset) * 3600, tz=UTC).month == time.month
        for offset in range(HOURS)
    ]
    assert grams(small) == [77 if inside else annual(small) for inside in in_month]
    record(small.lab, {0: 5})
    assert grams(small)[0] == 5


def test_every_entry_states_the_factor_of_its_hour(small: SmallLab) -> None:
    record(small.lab, {1: 200, 2: 300})
    query = FigureQuery("emission_ug", H0, H0 + 4, basis=small.lab.basis)
    year = annual(small)
    stated = [round(row["factor_ug_per_kwh"] / 1_000_000) for row in entries(small.lab, query)]
    assert stated == [year, 300, 200, year]
    by_factor = figures_by(small.lab, query, ["factor"])
    assert sorted(round(part.emission_ug / 2_000) for part in by_factor.values()) == [250, year]


@given(
    st.lists(
        st.tuples(
            st.integers(0, HOURS - 1), st.integers(1, 20), st.integers(1, 1500), st.booleans()
        ),
        max_size=6,
    ),
    st.integers(1, 10**12),
)
def test_emissions_are_those_of_each_hour(
    steps: list[tuple[int, int, int, bool]], energy_mj: int
) -> None:
    """The oracle keeps the last value of each hour, actual before estimated, and rounds a
    fraction.
    """
    small = small_lab()
    windows = [
        W("gpu:GPU-1", energy_mj % (10**7) + i, at, at + MINUTE, i, None, None, "nvml_power")
        for i, at in enumerate((H0 + offset) * US_PER_HOUR for offset in range(HOURS))
    ]
    push(small.node, windows, received_us=NOW, sent_at=NOW)
    writer.roll_up(lab=small.lab, now=NOW)
    values = dict.fromkeys(range(HOURS), (annual(small), False))
    year_ug = EmissionFactor.objects.get(lab=None, zone="DE", year=2025, basis="lifecycle")
    for first, number, value, is_actual in steps:
        hours = dict.fromkeys(range(first, min(HOURS, first + number)), value)
        record(small.lab, hours, is_actual=is_actual)
        for offset, grams_per_kwh in hours.items():
            if is_actual or not values[offset][1]:
                values[offset] = (grams_per_kwh, is_actual)
    touched = {offset for first, number, _, _ in steps for offset in range(first, first + number)}
    expected = 0
    for offset in range(HOURS):
        factor = values[offset][0] * 10**6 if offset in touched else year_ug.ug_per_kwh
        exact = Fraction((energy_mj % (10**7) + offset) * factor, 1000 * MJ)
        expected += (2 * exact.numerator + exact.denominator) // (2 * exact.denominator)
    query = FigureQuery("emission_ug", H0, H0 + HOURS, basis=small.lab.basis)
    assert figure(small.lab, query).emission_ug == expected
    writer.roll_up(lab=small.lab, now=NOW)
    assert figure(small.lab, query).emission_ug == expected
