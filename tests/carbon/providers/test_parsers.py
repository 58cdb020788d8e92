"""Responses of providers become readings; one bad value refuses only itself."""

import json
from typing import Any

import pytest

from apps.carbon.providers import csv_folder, electricity_maps, energy_charts, uk_carbon_intensity
from apps.carbon.providers.readings import Kind, ProviderError, whole_hours
from apps.carbon.providers.registry import PROVIDERS
from tests.carbon.providers.samples import NOV_20, changed, grams, response

BAD = [
    "0", "-5", "1500.1", "4120", "1e400", "1e999999999999999999999", "NaN", "Infinity", "-Infinity",
    '"412"', "true", "{}", "[]", "1e-9",
]  # fmt: skip


def maps_body(values: list[str]) -> bytes:
    rows = ",".join(
        f'{{"carbonIntensity": {value}, "datetime": "2026-11-20T{i:02}:00:00Z", '
        '"isEstimated": false, "emissionFactorType": "lifecycle"}'
        for i, value in enumerate(values)
    )
    return f'{{"zone": "DE", "data": [{rows}]}}'.encode()


def test_electricity_maps() -> None:
    readings = electricity_maps.parse(
        response("electricity_maps_past_range.json"), "DE", "lifecycle"
    )
    assert readings.refused == []
    assert [reading.ug_per_kwh for reading in readings.accepted] == [
        412_000_000, 398_500_000, 371_000_000, None, 365_000_000, 377_000_000,
    ]  # fmt: skip
    first = readings.accepted[0]
    assert (first.zone, first.basis, first.provider) == ("DE", "lifecycle", "electricity_maps")
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 100)
    assert hours.actual == {
        NOV_20: grams(412), NOV_20 + 1: grams(398.5), NOV_20 + 2: grams(371),
    }  # fmt: skip
    assert hours.estimated == {NOV_20 + 4: grams(365), NOV_20 + 5: grams(377)}


def test_history_and_forecast_of_electricity_maps() -> None:
    past = electricity_maps.parse(response("electricity_maps_history.json"), "DE", "lifecycle")
    assert {reading.kind for reading in past.accepted} == {Kind.ACTUAL}
    ahead = electricity_maps.parse(response("electricity_maps_forecast.json"), "DE", "lifecycle")
    assert {reading.kind for reading in ahead.accepted} == {Kind.FORECAST}


def test_a_reading_of_unknown_state_is_not_actual() -> None:
    body = changed(
        "electricity_maps_past_range.json", lambda value: value["data"][0].pop("isEstimated")
    )
    assert electricity_maps.parse(body, "DE", "lifecycle").accepted[0].kind == Kind.ESTIMATED


@pytest.mark.parametrize("value", BAD)
def test_impossible_values_are_refused_and_the_others_kept(value: str) -> None:
    readings = electricity_maps.parse(maps_body(["400", value, "1500"]), "DE", "lifecycle")
    assert [reading.ug_per_kwh for reading in readings.accepted] == [grams(400), grams(1500)]
    [refused] = readings.refused
    assert refused.start == "2026-11-20T01:00:00Z"
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 100)
    assert sorted(hours.actual) == [NOV_20, NOV_20 + 2]
    assert hours.estimated == {}


def test_another_zone_or_basis_is_not_used() -> None:
    body = response("electricity_maps_past_range.json")
    with pytest.raises(ProviderError, match="of zone DE instead of FR"):
        electricity_maps.parse(body, "FR", "lifecycle")
    readings = electricity_maps.parse(body, "DE", "direct")
    assert readings.accepted == []
    assert len(readings.refused) == 6
    moved = changed(
        "electricity_maps_past_range.json", lambda value: value["data"][0].update(zone="DK-DK2")
    )
    assert len(electricity_maps.parse(moved, "DE", "lifecycle").refused) == 1


def test_uk_carbon_intensity_averages_half_hours() -> None:
    readings = uk_carbon_intensity.parse(response("uk_carbon_intensity.json"), "GB", "direct")
    assert [reading.kind for reading in readings.accepted] == [Kind.ACTUAL] * 3 + [
        Kind.FORECAST
    ] * 3
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 100)
    # 23:30 alone is no hour; (151 + 154) / 2; then forecasts, which are estimates.
    assert hours.actual == {NOV_20: grams(152.5)}
    assert hours.estimated == {NOV_20 + 1: grams(159)}


def test_null_is_no_value_and_never_0() -> None:
    def remove(value: Any) -> None:
        value["data"][1]["intensity"].update(actual=None, forecast=None)
        value["data"][2]["intensity"].update(actual=None)

    readings = uk_carbon_intensity.parse(
        changed("uk_carbon_intensity.json", remove), "GB", "direct"
    )
    assert readings.accepted[1].ug_per_kwh is None
    assert readings.refused == []
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 100)
    assert hours.actual == {}
    assert NOV_20 not in hours.estimated


def test_an_hour_with_one_forecast_is_estimated() -> None:
    body = changed(
        "uk_carbon_intensity.json", lambda value: value["data"][2]["intensity"].update(actual=None)
    )
    readings = uk_carbon_intensity.parse(body, "GB", "direct")
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 1)
    assert (hours.actual, hours.estimated) == ({}, {NOV_20: grams((151 + 155) / 2)})


def test_a_repeated_half_hour() -> None:
    same = changed("uk_carbon_intensity.json", lambda value: value["data"].append(value["data"][1]))
    assert len(uk_carbon_intensity.parse(same, "GB", "direct").accepted) == 6

    def contradict(value: Any) -> None:
        again = json.loads(json.dumps(value["data"][1]))
        again["intensity"]["actual"] = 99
        value["data"].append(again)

    readings = uk_carbon_intensity.parse(
        changed("uk_carbon_intensity.json", contradict), "GB", "direct"
    )
    assert len(readings.accepted) == 5
    assert "different values" in readings.refused[0].reason
    assert NOV_20 not in whole_hours(readings.accepted, end_hour=NOV_20 + 9).actual


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-11-20T00:00Z", "2026-11-20T01:00Z"),
        ("2026-11-20T00:10Z", "2026-11-20T00:40Z"),
        ("2026-11-20T00:00", "2026-11-20T00:30"),
        ("2026-11-20T00:30Z", "2026-11-20T00:00Z"),
        (None, "2026-11-20T00:30Z"),
        (1_795_132_800, 1_795_134_600),
        ("0001-01-01T00:00+14:00", "0001-01-01T00:30+14:00"),
        ("x" * 10_000, ""),
    ],
)
def test_other_times_than_half_hours_are_refused(start: Any, end: Any) -> None:
    def change(value: Any) -> None:
        value["data"][1].update({"from": start, "to": end})

    readings = uk_carbon_intensity.parse(
        changed("uk_carbon_intensity.json", change), "GB", "direct"
    )
    assert len(readings.accepted) + len(readings.refused) == 6
    assert NOV_20 not in whole_hours(readings.accepted, end_hour=NOV_20 + 9).actual


def test_energy_charts_averages_quarter_hours() -> None:
    readings = energy_charts.parse(response("energy_charts.json"), "de", "lifecycle")
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 100)
    assert hours.actual == {NOV_20: grams(310)}
    assert hours.estimated == {
        NOV_20 + 1: grams((300.2 + 299.7 + 298.1 + 297.5) / 4),
        NOV_20 + 2: grams((296 + 295.5 + 294.4 + 293.3) / 4),
    }


def test_a_missing_quarter_of_an_hour_is_not_bridged() -> None:
    def drop(value: Any) -> None:
        for name in ("unix_seconds", "co2eq", "co2eq_forecast"):
            del value[name][2]

    readings = energy_charts.parse(changed("energy_charts.json", drop), "de", "lifecycle")
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 100)
    assert NOV_20 not in hours.actual
    assert NOV_20 not in hours.estimated
    assert len(hours.estimated) == 2


def test_lists_of_energy_charts_of_different_length() -> None:
    body = changed("energy_charts.json", lambda value: value["co2eq"].pop())
    with pytest.raises(ProviderError, match="12, 11 and 12"):
        energy_charts.parse(body, "de", "lifecycle")


def test_times_of_energy_charts_that_are_none() -> None:
    def change(value: Any) -> None:
        value["unix_seconds"][0] = "soon"
        value["unix_seconds"][5] = 1e30
        value["unix_seconds"][6] = value["unix_seconds"][6] + 0.5
        value["unix_seconds"][7] = None

    readings = energy_charts.parse(changed("energy_charts.json", change), "de", "lifecycle")
    assert (len(readings.accepted), len(readings.refused)) == (8, 4)
    with pytest.raises(ProviderError, match="duration"):
        energy_charts.parse(
            b'{"unix_seconds": [1795132800], "co2eq": [3], "co2eq_forecast": [null]}',
            "de",
            "lifecycle",
        )


def test_csv() -> None:
    readings = csv_folder.parse(response("grid.csv"), "DE", "lifecycle")
    hours = whole_hours(readings.accepted, end_hour=NOV_20 + 100)
    assert hours.actual == {NOV_20: grams(401.25)}
    assert hours.estimated == {NOV_20 + 1: grams(399)}


@pytest.mark.parametrize(
    "row",
    [
        "2026-11-20T00:00Z,2026-11-20T01:00Z,0,actual",
        "2026-11-20T00:00Z,2026-11-20T01:00Z,1_0,actual",
        "2026-11-20T00:00Z,2026-11-20T01:00Z,NaN,actual",
        "2026-11-20T00:00Z,2026-11-20T01:00Z,4e3,actual",
        "2026-11-20T00:00Z,2026-11-20T01:00Z,400,measured",
        "2026-11-20T00:00Z,2026-11-20T01:00Z,400,forecast",
        "2026-11-20T00:00,2026-11-20T01:00,400,actual",
        "2026-11-20T01:00Z,2026-11-20T00:00Z,400,actual",
        "0001-01-01T00:00Z,9999-12-31T00:00Z,400,actual",
        "=1+1,,400,actual",
    ],
)
def test_bad_rows_of_a_file_are_refused(row: str) -> None:
    body = f"zone,start,end,g_per_kwh,kind,basis\nDE,{row},lifecycle\n".encode()
    readings = csv_folder.parse(body, "DE", "lifecycle")
    assert (len(readings.accepted), len(readings.refused)) == (0, 1)


def test_an_empty_cell_is_no_value() -> None:
    body = (
        b"zone,start,end,g_per_kwh,kind,basis\n"
        b"DE,2026-11-20T00:00Z,2026-11-20T01:00Z,,actual,lifecycle\n"
    )
    readings = csv_folder.parse(body, "DE", "lifecycle")
    assert (readings.accepted[0].ug_per_kwh, readings.refused) == (None, [])


@pytest.mark.parametrize("body", [b"\xff\xfe", b"", b"a,b\n1,2\n", b'zone,"x\n'])
def test_files_without_the_columns(body: bytes) -> None:
    with pytest.raises(ProviderError):
        csv_folder.parse(body, "DE", "lifecycle")


@pytest.mark.parametrize("name", ["electricity_maps", "uk_carbon_intensity", "energy_charts"])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"[]", b"null", b"3", b'{"data": 3}', b'{"data": {}}', b'{"zone": "DE"}',
        b'{"zone": "DE", "data": []}', b'{"unix_seconds": []}', b"[" * 100_000, b"\x00",
        b"9" * 9999,
        b'{"unix_seconds": [], "co2eq": [], "co2eq_forecast": []}', b'{"error": "no"}',
        b'{"detail": [3]}', b'{"message": {"a": 1}}', b'{"unix_seconds": 3, "co2eq": []}',
    ],
)  # fmt: skip
def test_wrong_shapes_are_reported(name: str, body: bytes) -> None:
    provider = PROVIDERS[name]
    with pytest.raises(ProviderError) as refused:
        provider.parse(body, "DE", provider.bases[0])
    assert 0 < len(refused.value.message) < 300


@pytest.mark.parametrize("name", ["electricity_maps", "uk_carbon_intensity"])
def test_items_that_are_no_objects_are_refused(name: str) -> None:
    provider = PROVIDERS[name]
    readings = provider.parse(
        b'{"zone": "DE", "data": [null, 3, "x", [], {}, {"intensity": 3}]}',
        "DE",
        provider.bases[0],
    )
    assert (readings.accepted, len(readings.refused)) == ([], 6)


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("electricity_maps", "electricity_maps_401.json", "do not have access"),
        ("uk_carbon_intensity", "uk_carbon_intensity_400.json", "valid date"),
        ("energy_charts", "energy_charts_422.json", "not a valid country"),
    ],
)
def test_error_responses_are_quoted(name: str, file: str, text: str) -> None:
    with pytest.raises(ProviderError, match=text):
        PROVIDERS[name].parse(response(file), "DE", PROVIDERS[name].bases[0])
