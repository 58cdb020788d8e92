"""The job stores hours as factors of the lab: actual ones replace estimated ones, once."""

import pytest

from apps.carbon.models import ForecastHour, HourFactor
from apps.carbon.providers.services import FETCH, switch_provider
from apps.core import jobs
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import UG_PER_G, US_PER_HOUR
from tests.carbon.providers.conftest import World
from tests.carbon.providers.samples import NOV_20


def run_at(world: World, hour: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world.grid.now_hour = hour
    world.set_time(hour)
    monkeypatch.setattr(jobs, "now_us", lambda: hour * US_PER_HOUR + 120_000_000)
    run_until_idle(worker="test")


def stored() -> dict[int, tuple[str, int]]:
    rows = HourFactor.objects.filter(superseded_us=None).select_related("factor")
    return {row.hour: (row.factor.resolution, row.ug_per_kwh) for row in rows}


def test_hours_become_factors_every_hour(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run_at(world, NOV_20, monkeypatch)
    factors = stored()
    assert sorted(factors) == list(range(NOV_20 - 720, NOV_20))
    first, last = NOV_20 - 720, NOV_20 - 1
    assert factors[first] == ("hourly_actual", world.grid.value(first, False) * UG_PER_G)
    assert factors[last] == ("hourly_estimated", world.grid.value(last, True) * UG_PER_G)
    assert not Job.objects.filter(last_error__gt="").exists()
    requests = len(world.fake.requests)
    run_at(world, NOV_20, monkeypatch)
    assert len(world.fake.requests) == requests  # not due
    run_at(world, NOV_20 + 2, monkeypatch)
    assert len(world.fake.requests) == requests + 2  # the last days, and the forecast
    assert len(stored()) == 722
    forecast = ForecastHour.objects.values_list("hour", flat=True)
    assert sorted(forecast) == list(range(NOV_20 + 2, NOV_20 + 74))
    number = HourFactor.objects.count()
    run_at(world, NOV_20 + 20, monkeypatch)
    assert stored()[last] == ("hourly_actual", world.grid.value(last, False) * UG_PER_G)
    # 18 new hours, and the hours that were provisional and are final now
    assert HourFactor.objects.count() == number + 18 + 11


def test_a_disabled_provider_is_not_requested(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_provider(provider=world.row, enabled=False, by=world.lab.owner, now=1)
    run_at(world, NOV_20, monkeypatch)
    assert world.fake.requests == []
    assert not Job.objects.filter(kind__startswith=FETCH, done__lt=1).exists()
    switch_provider(provider=world.row, enabled=True, by=world.lab.owner, now=1)
    run_at(world, NOV_20 + 1, monkeypatch)
    assert len(stored()) == 720
