"""A lab, a provider on loopback with a made-up grid, and a store of hours instead of factors."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from django.test import override_settings

from apps.accounts.models import Lab
from apps.carbon.providers import fetch, forecasts
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.services import ProviderInput, add_provider
from apps.core.units import UG_PER_G, US_PER_HOUR
from tests.builders import SmallLab, small_lab
from tests.carbon.providers.fake_provider import FakeProvider, Response, fake_provider
from tests.carbon.providers.samples import NOV_20

TOKEN = "secret-token"


@dataclass
class Grid:
    """The real intensity, as Electricity Maps reports it: estimated for ``provisional_h`` hours.
    ``fault``: replaces responses.
    """

    provisional_h: int = 12
    now_hour: int = NOV_20
    fault: Response | None = None
    plan_has_ranges: bool = True

    def value(self, hour: int, is_estimated: bool) -> int:
        """Return g per kWh. Estimates are 7 too high."""
        return 300 + hour % 24 + (7 if is_estimated else 0)

    def respond(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Response:
        """Return a response."""
        if self.fault is not None:
            return self.fault
        if headers.get("auth-token") != TOKEN:
            return 401, {}, b'{"error": "Invalid auth-token"}'
        if path.endswith("/past-range"):
            if not self.plan_has_ranges:
                return 401, {}, b'{"message": "You do not have access to this endpoint."}'
            start, end = (
                int(datetime.fromisoformat(query[name]).timestamp()) // 3600
                for name in ("start", "end")
            )
            assert 0 < end - start <= 240
            name = "data"
        elif path.endswith("/forecast"):
            start, end, name = self.now_hour, self.now_hour + 72, "forecast"
        else:
            start, end, name = self.now_hour - 23, self.now_hour + 1, "history"
        rows = []
        for hour in range(start, end):
            is_estimated = hour > self.now_hour - self.provisional_h
            rows.append(
                {
                    "datetime": datetime.fromtimestamp(hour * 3600).astimezone().isoformat(),
                    "carbonIntensity": self.value(hour, is_estimated),
                    "emissionFactorType": query["emissionFactorType"],
                    "isEstimated": is_estimated,
                }
            )
        return 200, {}, json.dumps({"zone": query["zone"], name: rows}).encode()


@dataclass
class HourStore:
    """The writer of hours: an actual hour replaces an estimated one, never the reverse.
    ``changes``: number of hours that each call added or changed.
    """

    hours: dict[int, tuple[bool, int]] = field(default_factory=dict)
    changes: list[int] = field(default_factory=list)

    def __call__(
        self,
        *,
        lab: Lab,
        zone: str,
        basis: str,
        is_actual: bool,
        source: str,
        licence: str,
        hours: Mapping[int, int],
        now: int,
    ) -> int:
        assert hours
        assert all(isinstance(ug, int) and 0 < ug <= 1500 * UG_PER_G for ug in hours.values())
        assert (zone, basis) == ("DE", "lifecycle")
        assert source
        assert licence
        changed = 0
        for hour, ug in hours.items():
            assert (hour + 1) * US_PER_HOUR <= now
            old = self.hours.get(hour)
            if old is None or (is_actual >= old[0] and old != (is_actual, ug)):
                self.hours[hour] = (is_actual, ug)
                changed += 1
        self.changes.append(changed)
        return changed


@dataclass
class World:
    """Everything of a test. ``clock``: returns the time to the services."""

    lab: SmallLab
    grid: Grid
    fake: FakeProvider
    store: HourStore
    row: GridProvider
    set_time: Callable[[int], None]

    def fetch(self, hour: int) -> GridProvider:
        """Fetch at the start of ``hour``."""
        self.grid.now_hour = hour
        self.set_time(hour)
        self.row.refresh_from_db()
        fetch.fetch_provider(self.row, self.store)
        self.row.refresh_from_db()
        return self.row


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


@pytest.fixture
def world(lab: SmallLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    def set_time(hour: int) -> None:
        for module in (fetch, forecasts):
            monkeypatch.setattr(module, "now_us", lambda: hour * US_PER_HOUR + 60_000_000)

    set_time(NOV_20)
    grid = Grid()
    with (
        fake_provider(grid.respond) as fake,
        override_settings(GRID_PROVIDERS={"electricity_maps": fake.address}, GRID_FOLDER=""),
    ):
        row = add_provider(
            lab=lab.lab,
            values=ProviderInput("electricity_maps", "Germany", TOKEN),
            by=lab.owner,
            now=NOV_20 * US_PER_HOUR,
        )
        yield World(lab, grid, fake, HourStore(), row, set_time)
