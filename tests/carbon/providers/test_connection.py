"""Requests to providers: address, header, limits, and an error message for each failure."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from apps.carbon.providers import connection as connections
from apps.carbon.providers.connection import ProviderConnection, read_folder
from apps.carbon.providers.readings import ProviderError, whole_hours
from apps.carbon.providers.registry import PROVIDERS
from apps.core.units import US_PER_HOUR
from labcarbon.env import ConfigurationError, read_environment
from tests.carbon.providers.fake_provider import FakeProvider, fake_provider
from tests.carbon.providers.samples import NOV_20, response

START, END = NOV_20 * US_PER_HOUR, (NOV_20 + 24) * US_PER_HOUR
FILES = {
    "electricity_maps": "electricity_maps_past_range.json",
    "uk_carbon_intensity": "uk_carbon_intensity.json",
    "energy_charts": "energy_charts.json",
}


def connect(name: str, zone: str = "DE", token: str = "secret-token") -> ProviderConnection:
    return ProviderConnection(name, PROVIDERS[name], zone, PROVIDERS[name].bases[0], token)


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    with fake_provider(lambda *_: (200, {}, response(FILES["electricity_maps"]))) as server:
        with override_settings(GRID_PROVIDERS=dict.fromkeys(FILES, server.address), GRID_FOLDER=""):
            yield server


def test_electricity_maps_sends_the_token_in_its_header_only(fake: FakeProvider) -> None:
    link = connect("electricity_maps")
    readings = link.parse(link.fetch_range(START, END))
    assert len(readings.accepted) == 6
    [(path, query, headers)] = fake.requests
    assert path == "/v3/carbon-intensity/past-range"
    assert query == {
        "zone": "DE", "start": "2026-11-20T00:00Z", "end": "2026-11-21T00:00Z",
        "temporalGranularity": "hourly", "emissionFactorType": "lifecycle",
        "disableCallerLookup": "true",
    }  # fmt: skip
    assert headers["auth-token"] == "secret-token"
    assert "secret-token" not in f"{path}{query}{link!r}"
    link.fetch_recent()
    assert fake.requests[1][0] == "/v3/carbon-intensity/history"
    assert fake.requests[1][1]["zone"] == "DE"


@pytest.mark.parametrize(
    ("name", "zone", "path", "query"),
    [
        ("uk_carbon_intensity", "GB", "/intensity/2026-11-20T00:00Z/2026-11-21T00:00Z", {}),
        (
            "energy_charts",
            "DE",
            "/co2eq",
            {"country": "de", "start": "2026-11-20T00:00Z", "end": "2026-11-21T00:00Z"},
        ),
    ],
)
def test_the_others_need_no_token(
    fake: FakeProvider, name: str, zone: str, path: str, query: dict[str, str]
) -> None:
    fake.respond = lambda *_: (200, {}, response(FILES[name]))
    link = connect(name, zone)
    assert whole_hours(link.parse(link.fetch_range(START, END)).accepted, end_hour=10**9).actual
    [(sent_path, sent_query, headers)] = fake.requests
    assert (sent_path, sent_query) == (path, query)
    assert "secret-token" not in str(headers)
    with pytest.raises(ProviderError, match="no request"):
        link.fetch_recent()


@pytest.mark.parametrize(
    ("status", "headers", "text", "wait_s"),
    [
        (401, {}, "token is valid and that its plan", 0),
        (403, {}, "token is valid and that its plan", 0),
        (404, {}, "zone DE", 0),
        (422, {}, "zone DE", 0),
        (429, {"Retry-After": "120"}, "limits the request rate", 120),
        (429, {"Retry-After": "999999999999"}, "limits the request rate", 86_400),
        (429, {"Retry-After": "soon"}, "limits the request rate", 0),
        (503, {}, "limits the request rate", 0),
        (500, {}, "returned an error", 0),
        (204, {}, "returned an error", 0),
        (302, {"Location": "http://169.254.169.254/latest"}, "Redirects are not followed", 0),
    ],
)
def test_statuses(
    fake: FakeProvider, status: int, headers: dict[str, str], text: str, wait_s: int
) -> None:
    body = b"" if status == 204 else b'{"message": "no secret-token here"}'
    fake.respond = lambda *_: (status, headers, body)
    with pytest.raises(ProviderError) as refused:
        connect("electricity_maps").fetch_range(START, END)
    assert text in refused.value.message
    assert (refused.value.wait_s, refused.value.status) == (wait_s, status)
    assert "secret-token" not in refused.value.message
    assert len(fake.requests) == 1


def test_a_plan_without_the_request_is_reported_in_its_words(fake: FakeProvider) -> None:
    fake.respond = lambda *_: (401, {}, response("electricity_maps_401.json"))
    with pytest.raises(ProviderError, match="You do not have access to this endpoint"):
        connect("electricity_maps").fetch_range(START, END)


@pytest.mark.parametrize(
    ("fault", "text"),
    [("silent", "did not respond"), ("half", "truncated"), ("huge", "more than 8 MiB")],
)
def test_faults(fake: FakeProvider, fault: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_S", 0.5)
    fake.fault = fault
    with pytest.raises(ProviderError, match=text):
        connect("electricity_maps").fetch_range(START, END)


def test_no_request_starts_after_the_time_limit(fake: FakeProvider) -> None:
    link = connect("electricity_maps")
    link.until = time.monotonic() - 1
    with pytest.raises(ProviderError, match="within 45 s"):
        link.fetch_range(START, END)
    assert fake.requests == []


def test_only_the_administrator_names_internal_addresses() -> None:
    """Without an entry, the published address is used, and must be public."""
    with override_settings(GRID_PROVIDERS={}):
        for name in FILES:
            address, allowlist = connections._server(name, connect(name)._web())
            assert address.scheme == "https"
            assert allowlist.hosts == frozenset()


def test_addresses_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCARBON_GRID_PROVIDERS", "energy_charts=https://Mirror.lab/x/")
    assert read_environment().grid_providers == {"energy_charts": "https://mirror.lab/x"}
    for text in (
        "energy_charts",
        "energy_charts=mirror",
        "csv_folder=https://a.b",
        "x=https://a.b",
    ):
        monkeypatch.setenv("LABCARBON_GRID_PROVIDERS", text)
        with pytest.raises(ConfigurationError, match="LABCARBON_GRID_PROVIDERS"):
            read_environment()


def test_files_of_the_folder_of_the_lab(tmp_path: Path) -> None:
    folder = tmp_path / "cell-lab"
    link = connect("csv_folder")
    with override_settings(GRID_FOLDER=""), pytest.raises(ProviderError, match="GRID_FOLDER"):
        read_folder("cell-lab", link)
    with override_settings(GRID_FOLDER=str(tmp_path)):
        with pytest.raises(ProviderError, match="cannot be read"):
            read_folder("cell-lab", link)
        folder.mkdir()
        with pytest.raises(ProviderError, match="no rows of zone DE") as empty:
            read_folder("cell-lab", link)
        assert empty.value.is_empty
        (folder / "a.csv").write_bytes(response("grid.csv"))
        (folder / "notes.txt").write_text("not read")
        assert len(read_folder("cell-lab", link).accepted) == 2
        (folder / "b.csv").symlink_to("/etc/passwd")
        with pytest.raises(ProviderError, match=r"b\.csv: it cannot be read"):
            read_folder("cell-lab", link)
        (folder / "b.csv").unlink()
        os.mkfifo(folder / "b.csv")
        with pytest.raises(ProviderError, match=r"b\.csv: it is not a file"):
            read_folder("cell-lab", link)
