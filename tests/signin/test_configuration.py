"""Set whole or not at all: what a half-set or careless configuration is told, and that nothing
is promised without one.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.accounts.oidc.id_token import InvalidIdToken
from labcarbon.checks import check_oidc
from labcarbon.env import ConfigurationError, Oidc, read_environment

GOOD = Oidc(
    issuer="https://id.example.org/realms/lab",
    client_id="labcarbon",
    client_secret="s",
    name="Example",
)


def _told(settings: Any, oidc: Oidc) -> list[str]:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, oidc=oidc)
    return [f"{problem.id} {problem.msg} {problem.hint}" for problem in check_oidc(None)]


@pytest.mark.parametrize(
    "oidc", [Oidc(), GOOD, replace(GOOD, name=""), replace(GOOD, issuer="http://127.0.0.1:9000/o")]
)
def test_none_and_a_whole_one_are_well(settings: Any, oidc: Oidc) -> None:
    assert _told(settings, oidc) == []


@pytest.mark.parametrize(
    ("oidc", "missing"),
    [
        (replace(GOOD, issuer=""), ["LABCARBON_OIDC_ISSUER"]),
        (replace(GOOD, client_id=""), ["LABCARBON_OIDC_CLIENT_ID"]),
        (replace(GOOD, client_secret=""), ["LABCARBON_OIDC_CLIENT_SECRET"]),
        (
            Oidc(name="Example"),
            ["LABCARBON_OIDC_ISSUER", "LABCARBON_OIDC_CLIENT_ID", "LABCARBON_OIDC_CLIENT_SECRET"],
        ),
    ],
)
def test_a_half_set_one_is_told_what_is_missing(
    settings: Any, oidc: Oidc, missing: list[str]
) -> None:
    (told,) = _told(settings, oidc)
    assert told.startswith("labcarbon.E006")
    assert f"{' and '.join(missing)} missing" in told
    assert not oidc.is_enabled


@pytest.mark.parametrize(
    "issuer",
    [
    "http://id.example.org", "http://127.0.0.1.evil.example", "id.example.org",
    "ftp://id.example.org", "https://", "https://id.example.org/?tenant=1",
    "https://id.example.org/.well-known/openid-configuration",
    "https://id.example.org/" + "x" * 200,
],
)  # fmt: skip
def test_an_issuer_that_cannot_be_used_is_told(settings: Any, issuer: str) -> None:
    (told,) = _told(settings, replace(GOOD, issuer=issuer))
    assert told.startswith("labcarbon.E007")
    assert "https://id.example.org/realms/lab" in told


def test_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("kept in a file\n")
    monkeypatch.setenv("LABCARBON_OIDC_ISSUER", " https://id.example.org ")
    monkeypatch.setenv("LABCARBON_OIDC_CLIENT_ID", "labcarbon")
    monkeypatch.setenv("LABCARBON_OIDC_CLIENT_SECRET_FILE", str(secret))
    oidc = read_environment().oidc
    assert (oidc.issuer, oidc.client_secret, oidc.is_enabled) == (
        "https://id.example.org",
        "kept in a file",
        True,
    )
    assert "kept in a file" not in repr(oidc)
    monkeypatch.setenv("LABCARBON_OIDC_CLIENT_SECRET", "given")
    assert read_environment().oidc.client_secret == "given"
    monkeypatch.delenv("LABCARBON_OIDC_CLIENT_SECRET")
    secret.unlink()
    with pytest.raises(ConfigurationError, match="LABCARBON_OIDC_CLIENT_SECRET_FILE"):
        read_environment()


def test_without_a_provider_nothing_is_promised(db: None) -> None:
    client = Client()
    assert "Sign in with" not in client.get("/accounts/login/").content.decode()
    for address in ("/accounts/oidc/login/", "/accounts/oidc/callback/?state=x&code=y"):
        assert client.get(address).status_code == 404
        assert client.post(address).status_code == 404


def test_with_one_the_button_says_its_name(db: None, settings: Any) -> None:
    for oidc, name in (
        (replace(GOOD, name="A <b>"), "A &lt;b&gt;"),
        (replace(GOOD, name=""), "id.example.org"),
    ):
        settings.ENVIRONMENT = replace(settings.ENVIRONMENT, oidc=oidc)
        page = Client().get("/accounts/login/").content.decode()
        assert re.findall(r"Sign in with ([^<]*?)\s*</button>", page) == [name]


def test_pressing_it_all_the_time_does_not_keep_the_provider_busy(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, oidc=GOOD)
    asked: list[str] = []

    def silent(url: str, **headers: str) -> None:
        asked.append(url)
        raise InvalidIdToken("The provider does not answer.")

    monkeypatch.setattr("apps.accounts.oidc.provider._fetch_json", silent)
    statuses = [Client().post("/accounts/oidc/login/").status_code for _ in range(32)]
    assert statuses == [401] * 30 + [429] * 2
    assert len(asked) == 30
    assert set(asked) == {"https://id.example.org/realms/lab/.well-known/openid-configuration"}


def test_going_there_needs_a_press_of_the_button(db: None, settings: Any) -> None:
    """No other site starts a sign-in, and so none links its own identity to an account."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, oidc=GOOD)
    strict = Client(enforce_csrf_checks=True)
    assert strict.get("/accounts/oidc/login/?process=connect").status_code == 200
    assert strict.post("/accounts/oidc/login/?process=connect").status_code == 403
    assert strict.post("/accounts/oidc/unlink/").status_code == 403
