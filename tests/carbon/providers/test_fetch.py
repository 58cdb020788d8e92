"""Hours are fetched on a schedule: provisional ones become final, a provider that was down is asked
once for what is missing, and no failure changes a factor.
"""

from pathlib import Path

import pytest
from django.test import override_settings

from apps.carbon.providers.fetch import fetch_provider
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.services import (
    ProviderInput,
    add_provider,
    remove_provider,
    switch_provider,
)
from apps.core.units import UG_PER_G, US_PER_HOUR
from tests.builders import SmallLab
from tests.carbon.providers import conftest
from tests.carbon.providers.conftest import HourStore, World
from tests.carbon.providers.samples import NOV_20, response


def requested(world: World) -> list[tuple[str, str]]:
    return [(query["start"], query["end"]) for _, query, _ in world.fake.requests]


def test_the_first_fetch(world: World) -> None:
    row = world.fetch(NOV_20)
    assert (row.problem, row.failures, row.message) == ("", 0, "")
    assert row.succeeded_us == row.tried_us
    assert row.due_us == NOV_20 * US_PER_HOUR + 60_000_000 + US_PER_HOUR
    assert sorted(world.store.hours) == list(range(NOV_20 - 720, NOV_20))
    assert world.store.hours[NOV_20 - 100] == (
        True,
        world.grid.value(NOV_20 - 100, False) * UG_PER_G,
    )
    assert world.store.hours[NOV_20 - 1] == (False, world.grid.value(NOV_20 - 1, True) * UG_PER_G)
    assert [end for _, end in requested(world)] == [
        "2026-10-31T00:00Z", "2026-11-10T00:00Z", "2026-11-20T00:00Z",
    ]  # fmt: skip


def test_provisional_hours_become_final_once(world: World) -> None:
    for hour in range(NOV_20, NOV_20 + 30):
        world.fetch(hour)
    assert all(
        ug == world.grid.value(hour, False) * UG_PER_G
        for hour, (is_actual, ug) in world.store.hours.items()
        if hour <= NOV_20 + 29 - 12 and is_actual
    )
    assert sum(not is_actual for is_actual, _ in world.store.hours.values()) == 11
    changes = sum(world.store.changes)
    # 720 hours, of which 11 provisional; then 29 new hours and 29 that become final
    assert changes == 720 + 29 + 29
    world.fetch(NOV_20 + 29)
    assert sum(world.store.changes) == changes


def test_the_last_days_are_requested_again_once_a_day(world: World) -> None:
    world.fetch(NOV_20)
    world.fake.requests.clear()
    for hour in range(NOV_20 + 1, NOV_20 + 25):
        world.fetch(hour)
    assert len(world.fake.requests) == 24
    starts = [start for start, _ in requested(world)]
    assert starts[0] == "2026-11-18T00:00Z"
    assert starts[-1] == "2026-11-13T23:00Z"


def test_down_for_seven_days(world: World) -> None:
    world.fetch(NOV_20)
    before = dict(world.store.hours)
    world.fake.requests.clear()
    world.grid.fault = (503, {}, b"")
    hour, row = NOV_20 + 1, world.row
    while hour < NOV_20 + 1 + 168:
        row = world.fetch(hour)
        assert row.problem
        hour = -(-row.due_us // US_PER_HOUR)
    assert row.failures <= 12  # 1, 2, 4, 8, 16, 24, 24, … hours
    assert world.store.hours == before
    world.grid.fault = None
    world.fake.requests.clear()
    row = world.fetch(hour)
    assert (row.problem, row.failures) == ("", 0)
    ranges = requested(world)
    assert len(ranges) == 2  # from seven days before the outage, each hour once
    assert ranges[0][1] == ranges[1][0]
    assert sorted(world.store.hours) == list(range(NOV_20 - 720, hour))
    assert sum(not is_actual for is_actual, _ in world.store.hours.values()) == 11
    changes = list(world.store.changes)
    world.fetch(hour)
    assert world.store.changes == [*changes, 0, 0]


def test_a_long_absence_is_caught_up_in_parts(world: World) -> None:
    world.fetch(NOV_20)
    world.fake.requests.clear()
    later = NOV_20 + 100 * 24
    row = world.fetch(later)
    assert (len(world.fake.requests), row.fetched_to_hour) == (6, NOV_20 + (60 - 7) * 24)
    assert row.due_us == later * US_PER_HOUR + 60_000_000
    world.fetch(later)
    assert sorted(world.store.hours) == list(range(NOV_20 - 720, later))


def test_429_waits_as_long_as_the_provider_states(world: World) -> None:
    world.grid.fault = (429, {"Retry-After": "10000"}, b"")
    row = world.fetch(NOV_20)
    assert row.due_us == NOV_20 * US_PER_HOUR + 60_000_000 + 10_000_000_000
    assert (row.succeeded_us, row.failures) == (None, 1)
    assert world.store.hours == {}


def test_a_refused_token(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "TOKEN", "another")
    row = world.fetch(NOV_20)
    assert "token" in row.problem
    assert row.succeeded_us is None


def test_a_plan_with_the_last_24_hours_only(world: World) -> None:
    world.grid.plan_has_ranges = False
    row = world.fetch(NOV_20)
    assert row.problem == ""
    assert "24 hours" in row.message
    assert sorted(world.store.hours) == list(range(NOV_20 - 23, NOV_20))
    world.fetch(NOV_20 + 5)
    assert sorted(world.store.hours) == list(range(NOV_20 - 23, NOV_20 + 5))


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"zone": "FR", "data": []}', b'{"zone": "DE"}'])
def test_unusable_responses_change_nothing(world: World, body: bytes) -> None:
    world.fetch(NOV_20)
    before = dict(world.store.hours)
    world.grid.fault = (200, {}, body)
    row = world.fetch(NOV_20 + 1)
    assert row.problem
    assert row.succeeded_us == NOV_20 * US_PER_HOUR + 60_000_000
    assert world.store.hours == before


def test_an_empty_response_is_a_problem_and_is_caught_up(world: World) -> None:
    world.fetch(NOV_20)
    world.grid.fault = (200, {}, b'{"zone": "DE", "data": []}')
    row = world.fetch(NOV_20 + 3)
    assert "no hours" in row.problem
    assert row.fetched_to_hour == NOV_20
    world.grid.fault = None
    world.fetch(NOV_20 + 4)
    assert sorted(world.store.hours) == list(range(NOV_20 - 720, NOV_20 + 4))


def test_refused_readings_are_reported_and_the_others_stored(world: World) -> None:
    wrong = {NOV_20 - 30: 0, NOV_20 - 29: 4120}
    world.grid.value = lambda hour, _: wrong.get(hour, 300)  # type: ignore[method-assign]
    row = world.fetch(NOV_20)
    assert "2 readings were refused" in row.message
    assert len(world.store.hours) == 718
    assert NOV_20 - 30 not in world.store.hours
    world.grid.value = lambda hour, is_estimated: 0  # type: ignore[method-assign]
    row = world.fetch(NOV_20 + 1)
    assert "were refused" in row.problem
    assert len(world.store.hours) == 718


def test_a_removed_or_disabled_provider_stores_nothing(world: World) -> None:
    switch_provider(provider=world.row, enabled=False, by=world.lab.owner, now=1)
    row = GridProvider.objects.select_related("lab").get(pk=world.row.pk)
    world.fetch(NOV_20)
    assert world.store.hours == {}
    switch_provider(provider=row, enabled=True, by=world.lab.owner, now=1)
    token = row.token
    remove_provider(provider=row, by=world.lab.owner, now=1)
    GridProvider.objects.filter(pk=row.pk).update(token=token)
    world.fetch(NOV_20)
    assert world.store.hours == {}


def test_a_lab_on_another_basis(world: World) -> None:
    row = GridProvider.objects.select_related("lab").get(pk=world.row.pk)
    row.kind = "uk_carbon_intensity"
    row.save()
    row = world.fetch(NOV_20)
    assert "this lab uses lifecycle factors" in row.problem
    assert world.fake.requests == []


def test_files(lab: SmallLab, tmp_path: Path) -> None:
    folder = tmp_path / lab.lab.slug
    folder.mkdir()
    (folder / "grid.csv").write_bytes(response("grid.csv"))
    store = HourStore()
    row = add_provider(lab=lab.lab, values=ProviderInput("csv_folder", "DE"), by=lab.owner, now=1)
    with override_settings(GRID_FOLDER=str(tmp_path), GRID_PROVIDERS={}):
        fetch_provider(row, store)
        assert row.problem == ""
        assert store.hours == {NOV_20: (True, 401_250_000), NOV_20 + 1: (False, 399_000_000)}
        (folder / "grid.csv").unlink()
        fetch_provider(row, store)
        assert "no rows" in row.problem
        assert len(store.hours) == 2
