"""Forecasts are fetched after a good response, replaced as a whole, and their failure changes
nothing else.
"""

import json
from datetime import UTC, datetime

import pytest

from apps.carbon.models import ForecastHour
from apps.carbon.providers.forecasts import fetch_forecast
from apps.core.units import UG_PER_G
from tests.carbon.providers.conftest import World
from tests.carbon.providers.fake_provider import Response
from tests.carbon.providers.samples import NOV_20


def forecast_body(first: int, count: int, grams: int = 200) -> bytes:
    rows = [
        {
            "datetime": datetime.fromtimestamp(hour * 3600, tz=UTC).isoformat(),
            "carbonIntensity": grams + hour % 24,
        }
        for hour in range(first, first + count)
    ]
    return json.dumps({"zone": "DE", "forecast": rows}).encode()


def fetch(world: World, hour: int, answer: Response) -> None:
    world.fetch(hour)
    world.grid.fault = answer
    world.fake.requests.clear()
    fetch_forecast(world.row)
    world.grid.fault = None
    world.row.refresh_from_db()


def stored() -> dict[int, int]:
    return dict(ForecastHour.objects.values_list("hour", "ug_per_kwh"))


def test_coming_hours_are_stored_and_replaced(world: World) -> None:
    fetch(world, NOV_20, (200, {}, forecast_body(NOV_20 - 2, 30)))
    assert stored() == {hour: (200 + hour % 24) * UG_PER_G for hour in range(NOV_20, NOV_20 + 28)}
    [(path, query, headers)] = world.fake.requests
    assert path.endswith("/v3/carbon-intensity/forecast")
    assert (query["zone"], query["horizonHours"]) == ("DE", "72")
    assert query["emissionFactorType"] == "lifecycle"
    assert headers["auth-token"]
    fetch(world, NOV_20 + 1, (200, {}, forecast_body(NOV_20 + 1, 3, 400)))
    assert sorted(stored()) == [NOV_20 + 1, NOV_20 + 2, NOV_20 + 3]
    assert min(stored().values()) >= 400 * UG_PER_G
    assert world.row.forecast_problem == ""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((401, {}, b'{"message": "no access"}'), "refuses access"),
        ((429, {}, b""), "limits the request rate"),
        ((200, {}, b"<html>"), "not JSON"),
        ((200, {}, forecast_body(NOV_20 - 5, 4)), "no coming hours"),
    ],
)
def test_a_failure_keeps_factors_schedule_and_the_last_forecast(
    world: World, answer: Response, text: str
) -> None:
    fetch(world, NOV_20, (200, {}, forecast_body(NOV_20, 30)))
    before, due_us = stored(), world.row.due_us
    hours = dict(world.store.hours)
    world.grid.fault = answer
    fetch_forecast(world.row)
    world.row.refresh_from_db()
    assert text in world.row.forecast_problem
    assert (world.row.problem, world.row.due_us) == ("", due_us)
    assert stored() == before
    assert world.store.hours == hours


def test_a_provider_that_is_down_is_not_requested_again(world: World) -> None:
    world.grid.fault = (503, {}, b"")
    world.fetch(NOV_20)
    world.fake.requests.clear()
    fetch_forecast(world.row)
    assert world.fake.requests == []
