"""/install/: the same script for everybody, over https only, and the files with their digests."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.fleet.install.script import install_script

pytestmark = pytest.mark.django_db
HTTPS = "https://lab.example.org"


def _text(response: Any) -> str:
    return str(response.content.decode())


def test_everybody_gets_the_same_script(settings: Any) -> None:
    settings.SITE_URL, settings.ALLOWED_HOSTS = HTTPS, ["*"]
    texts = {
        _text(Client(headers=headers).get("/install/", secure=True))
        for headers in (
            {},
            {"Host": "evil.example"},
            {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"},
            {"Authorization": "Bearer x"},
        )
    }
    (text,) = texts
    assert "evil.example" not in text
    assert f"\nURL={HTTPS}\n" in text
    assert hashlib.sha256(text.encode()).hexdigest() == install_script().sha256
    assert "@" not in [line[:1] for line in text.splitlines()]
    response = Client().get("/install/", secure=True)
    assert response["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/install/", "/install/files/", "/install/files/x"])
def test_it_is_refused_over_http_and_not_redirected(settings: Any, path: str) -> None:
    settings.SITE_URL, settings.ALLOWED_HOSTS = HTTPS, ["*"]
    settings.SECURE_SSL_REDIRECT = True
    response = Client().get(path)
    assert response.status_code == 403
    assert HTTPS in _text(response)
    assert Client().get("/nodes/").status_code == 301


def test_a_server_without_tls_serves_no_script(settings: Any) -> None:
    settings.SITE_URL, settings.ALLOWED_HOSTS = "http://lab.example.org", ["*"]
    for secure in (False, True):
        response = Client().get("/install/", secure=secure)
        assert response.status_code == 503
        assert "LABCARBON_SITE_URL" in _text(response)


def test_the_url_cannot_leave_its_quotes(settings: Any) -> None:
    settings.SITE_URL = "https://lab.example.org/$(touch x)'"
    assert "\nURL='https://lab.example.org/$(touch x)'\"'\"''\n" in install_script().text


def test_without_files_the_address_names_the_command(settings: Any, tmp_path: Path) -> None:
    settings.WHEELS_DIR = tmp_path / "none"
    for path in ("/install/", "/install/files/", "/install/files/pip-1-py3-none-any.whl"):
        response = Client().get(path)
        assert response.status_code == 503
        assert "manage.py collect_wheels" in _text(response)


@pytest.mark.parametrize("damage", ["other", "shorter", "missing", "manifest"])
def test_damaged_files_are_not_served(settings: Any, tmp_path: Path, damage: str) -> None:
    folder = shutil.copytree(settings.WHEELS_DIR, tmp_path / "wheels")
    settings.WHEELS_DIR = folder
    wheel = folder / "pip-1-py3-none-any.whl"
    address = f"/install/files/{wheel.name}"
    assert Client().get(address).content == wheel.read_bytes()
    if damage == "other":
        wheel.write_bytes(b"x" * wheel.stat().st_size)
    elif damage == "shorter":
        wheel.write_bytes(b"x")
    elif damage == "missing":
        wheel.unlink()
    else:
        (folder / "manifest.json").write_text("{", encoding="utf-8")
    assert Client().get(address).status_code == 503


@pytest.mark.parametrize(
    "name", ["manifest.json", "..%2Fmanifest.json", "%2Fetc%2Fpasswd", "x.whl"]
)
def test_only_files_of_the_manifest_are_served(name: str) -> None:
    assert Client().get(f"/install/files/{name}").status_code == 404


def test_pip_finds_the_wheels_with_their_digests() -> None:
    page = _text(Client().get("/install/files/"))
    content = Client().get("/install/files/pip-1-py3-none-any.whl").content
    digest = hashlib.sha256(content).hexdigest()
    assert f'href="/install/files/pip-1-py3-none-any.whl#sha256={digest}"' in page
    assert ".service" not in page
