"""`manage.py try_provider` reports what differs from the documentation, and the hours."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from apps.carbon.providers.readings import parse_json
from apps.carbon.providers.registry import PROVIDERS
from apps.carbon.providers.shape import shape_differences
from tests.carbon.providers.fake_provider import fake_provider
from tests.carbon.providers.samples import FOLDER, changed, response


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("try_provider", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("electricity_maps", "electricity_maps_past_range.json"),
        ("electricity_maps", "electricity_maps_history.json"),
        ("electricity_maps", "electricity_maps_forecast.json"),
        ("uk_carbon_intensity", "uk_carbon_intensity.json"),
        ("energy_charts", "energy_charts.json"),
    ],
)
def test_documented_responses_differ_nowhere(name: str, file: str) -> None:
    value = parse_json(response(file))
    web = PROVIDERS[name].web
    assert web is not None
    assert shape_differences(web.shape(value), value) == []


def test_each_difference_is_named() -> None:
    def change(value: Any) -> None:
        value["extra"] = 1
        for row in value["data"]:
            row["carbonIntensity"] = str(row["carbonIntensity"])
            del row["datetime"]
        value["data"][0]["isEstimated"] = "no"

    value = parse_json(changed("electricity_maps_past_range.json", change))
    web = PROVIDERS["electricity_maps"].web
    assert web is not None
    differences = shape_differences(web.shape(value), value)
    assert len(differences) == 4
    for text in ("data[].carbonIntensity: text", "data[].datetime: missing (6 times)", "'extra'"):
        assert any(text in line for line in differences)
    assert shape_differences(web.shape([]), []) == ["response: list instead of object"]


def test_a_saved_response() -> None:
    out = run("uk_carbon_intensity", "--file", str(FOLDER / "uk_carbon_intensity.json"))
    assert "zone GB, direct basis" in out
    assert "as documented" in out
    assert "2026-11-20T00:00Z  152.500 g/kWh  actual" in out
    assert "2026-11-20T01:00Z  159.000 g/kWh  estimated" in out
    out = run("csv_folder", "--zone", "Germany", "--file", str(FOLDER / "grid.csv"))
    assert "401.250 g/kWh  actual" in out


def test_a_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    token.chmod(0o600)
    saved = tmp_path / "response.json"
    body = response("electricity_maps_past_range.json")
    arguments = ["electricity_maps", "--zone", "DE", "--token-file", str(token)]
    with fake_provider(lambda *_: (200, {}, body)) as fake:
        with override_settings(GRID_PROVIDERS={"electricity_maps": fake.address}):
            out = run(*arguments, "--save", str(saved))
            with pytest.raises(CommandError, match="exists"):
                run(*arguments, "--save", str(saved))
            fake.respond = lambda *_: (401, {}, response("electricity_maps_401.json"))
            with pytest.raises(CommandError, match="You do not have access"):
                run(*arguments)
        assert fake.requests[0][2]["auth-token"] == "secret-token"
    assert "secret-token" not in out
    assert "3 actual, 2 estimated" in out
    assert saved.read_bytes() == body


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["energy_charts"], "--zone DE"),
        (["energy_charts", "--zone", "Atlantis"], "not a grid zone"),
        (["energy_charts", "--zone", "DE", "--basis", "direct"], "lifecycle factors only"),
        (["uk_carbon_intensity", "--zone", "DE"], "only GB"),
        (["energy_charts", "--zone", "DE", "--hours", "9999"], "from 1 to 240"),
        (["csv_folder", "--zone", "DE"], "needs --file"),
        (["energy_charts", "--zone", "DE", "--file", "/nonexistent"], "cannot be read"),
        (["energy_charts", "--zone", "DE", "--file", str(FOLDER / "grid.csv")], "not JSON"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        run(*arguments)


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    text = capsys.readouterr().out
    assert "\n  manage.py try_provider energy_charts --zone DE\n" in text
