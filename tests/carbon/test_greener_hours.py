"""The greenest start: the usual intensity of weekdays and hours, forecasts, and the choice."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.carbon.choices import IntensitySource
from apps.carbon.greener_hours.forecast import expected_intensity, greener_hours
from apps.carbon.greener_hours.starts import greenest_start, start_at, usual_intensity
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import ForecastHour
from apps.carbon.providers.services import ProviderInput, add_provider, switch_provider
from apps.core.units import UG_PER_G, US_PER_HOUR
from tests.builders import SmallLab, small_lab

BERLIN = ZoneInfo("Europe/Berlin")


def hour_at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) // 3600


def half_up(value: Fraction) -> int:
    return int(value + Fraction(1, 2))


@given(
    st.dictionaries(st.integers(0, 60), st.integers(1, 1_500_000_000), min_size=1),
    st.integers(0, 20),
    st.integers(0, 30),
    st.integers(1, 12),
)
def test_the_greenest_start_is_the_first_with_the_least_mean(
    intensity: dict[int, int], first: int, wait: int, duration: int
) -> None:
    best = greenest_start(
        intensity, first_hour=first, last_hour=first + wait, duration_hours=duration
    )
    means = {
        hour: Fraction(sum(intensity[hour + i] for i in range(duration)), duration)
        for hour in range(first, first + wait + 1)
        if all(hour + i in intensity for i in range(duration))
    }
    if not means:
        assert best is None
        return
    assert best is not None
    least = min(means.values())
    assert best.hour == min(hour for hour, mean in means.items() if mean == least)
    assert best.ug_per_kwh == half_up(least)
    assert start_at(intensity, best.hour, duration) == best


def test_an_hour_without_a_value_is_no_zero() -> None:
    intensity = {0: 500, 1: 400, 3: 1}
    best = greenest_start(intensity, first_hour=0, last_hour=3, duration_hours=2)
    assert best is not None
    assert (best.hour, best.ug_per_kwh) == (0, 450)
    assert start_at(intensity, 1, 2) is None


def test_usual_values_are_those_of_the_weekday_and_hour() -> None:
    coming = hour_at("2026-11-27T12:00+01:00")  # a Friday
    past = {coming - 168: 100, coming - 336: 201, coming - 24: 9_000, coming - 167: 8_000}
    assert usual_intensity(past, [coming], BERLIN) == {coming: 151}
    assert usual_intensity({coming - 168: 100}, [coming], BERLIN) == {}


def test_usual_values_follow_the_local_clock_over_a_change_of_it() -> None:
    after = hour_at("2026-10-26T08:00+01:00")  # clocks went back on 25 October
    past = {
        hour_at("2026-10-19T08:00+02:00"): 100,
        hour_at("2026-10-12T08:00+02:00"): 100,
        hour_at("2026-10-19T09:00+02:00"): 900,
        hour_at("2026-10-12T09:00+02:00"): 900,
    }
    assert usual_intensity(past, [after], BERLIN) == {after: 100}


@pytest.fixture
def small(db: None) -> SmallLab:
    return small_lab()


NOON = hour_at("2026-11-27T12:00+00:00")
NOW = NOON * US_PER_HOUR + 5


def record(small: SmallLab, hours: dict[int, int], zone: str = "DE") -> None:
    record_hours(
        lab=small.lab, zone=zone, basis=small.lab.basis, is_actual=True, source="S", licence="CC0",
        hours={hour: grams * UG_PER_G for hour, grams in hours.items()}, now=NOW,
    )  # fmt: skip


def four_weeks(grams_of_hour: dict[int, int]) -> dict[int, int]:
    """Return 28 days before NOON with values by UTC hour of the day, else 300."""
    return {
        hour: grams_of_hour.get(datetime.fromtimestamp(hour * 3600, tz=UTC).hour, 300)
        for hour in range(NOON - 28 * 24, NOON)
    }


def test_the_mean_of_four_weeks_where_there_is_no_forecast(small: SmallLab) -> None:
    record(small, four_weeks({3: 100, 4: 120}))
    found = greener_hours(
        small.lab, "DE", first_hour=NOON, last_hour=NOON + 24, duration_hours=2, now=NOW
    )
    assert found.best is not None
    assert (found.best.hour, found.best.ug_per_kwh) == (NOON + 15, 110 * UG_PER_G)
    assert found.now is not None
    assert found.now.ug_per_kwh == 300 * UG_PER_G
    assert found.sources_of(found.best, 2) == [IntensitySource.USUAL]
    assert len(found.hours) == 26


def test_a_zone_without_hours_is_unknown(small: SmallLab) -> None:
    found = greener_hours(
        small.lab, "DE", first_hour=NOON, last_hour=NOON + 24, duration_hours=1, now=NOW
    )
    assert (found.hours, found.best, found.now) == ([], None, None)


def test_a_superseded_hour_and_another_lab_do_not_count(small: SmallLab) -> None:
    record(small, four_weeks({}))
    record(
        small, {NOON - 168 + 3: 200, NOON - 336 + 3: 200, NOON - 504 + 3: 200, NOON - 672 + 3: 200}
    )
    other = small_lab(name="Other")
    assert expected_intensity(other.lab, "DE", NOON, NOON + 6, NOW) == []
    hours = expected_intensity(small.lab, "DE", NOON, NOON + 6, NOW)
    assert [each.ug_per_kwh // UG_PER_G for each in hours] == [300, 300, 300, 200, 300, 300]


def test_a_forecast_precedes_the_mean(small: SmallLab) -> None:
    record(small, four_weeks({}))
    provider = add_provider(
        lab=small.lab, values=ProviderInput("energy_charts", "DE"), by=small.owner, now=NOW
    )
    ForecastHour.objects.bulk_create(
        ForecastHour(
            provider=provider, basis=small.lab.basis, hour=hour, ug_per_kwh=50 * UG_PER_G,
            fetched_us=NOW,
        )
        for hour in (NOON + 1, NOON + 2)
    )  # fmt: skip
    sources = [each.source for each in expected_intensity(small.lab, "DE", NOON, NOON + 4, NOW)]
    usual, forecast = IntensitySource.USUAL, IntensitySource.FORECAST
    assert sources == [usual, forecast, forecast, usual]
    found = greener_hours(
        small.lab, "DE", first_hour=NOON, last_hour=NOON + 4, duration_hours=3, now=NOW
    )
    assert found.best is not None
    assert found.sources_of(found.best, 3) == [forecast, usual]
    old = NOW + 25 * US_PER_HOUR
    assert {each.source for each in expected_intensity(small.lab, "DE", NOON, NOON + 4, old)} == {
        usual
    }
    switch_provider(provider=provider, enabled=False, by=small.owner, now=NOW)
    assert {each.source for each in expected_intensity(small.lab, "DE", NOON, NOON + 4, NOW)} == {
        usual
    }
