"""A demo is marked on every page and download, and never becomes a real lab, nor the reverse."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client, override_settings
from django.urls import reverse

from apps.core.management.base import CHECK_TAG
from apps.dashboard.frame.navigation import GROUPS, SETTINGS
from labcarbon.demo.__main__ import begin_database, claim_folder, set_environment
from labcarbon.demo.marks import (
    DATABASE,
    MARK,
    create_database,
    is_demo_database,
    is_demo_folder,
    mark_folder,
)
from labcarbon.demo.responses import HEADER
from labcarbon.launch import StartupError
from tests.builders import SmallLab, small_lab

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def _client(lab: SmallLab) -> Client:
    client = Client()
    client.force_login(lab.owner)
    return client


def _pages() -> list[str]:
    sections = [section for _, group in GROUPS for section in group]
    return [reverse(section.page) for section in (*sections, *SETTINGS)]


def test_every_page_of_the_navigation_is_marked_in_a_demo_only(lab: SmallLab) -> None:
    client = _client(lab)
    for address in _pages():
        assert b"data-demo" not in client.get(address, follow=True).content, address
        with override_settings(DEMO=True):
            assert b"data-demo" in client.get(address, follow=True).content, address


@pytest.mark.django_db
def test_the_sign_in_is_marked() -> None:
    with override_settings(DEMO=True):
        assert b"data-demo" in Client().get(reverse("account_login")).content


def test_downloads_have_a_marked_name(lab: SmallLab, settings: Any) -> None:
    address = "/runs.csv"
    client = _client(lab)
    plain = client.get(address)
    assert plain.status_code == 200
    assert "demo-made-up" not in plain["Content-Disposition"]
    assert HEADER not in plain
    middleware = "labcarbon.demo.responses.DemoMiddleware"
    with override_settings(MIDDLEWARE=[middleware, *settings.MIDDLEWARE]):
        marked = _client(lab).get(address)
    assert 'filename="demo-made-up-' in marked["Content-Disposition"]
    assert HEADER in marked


def _problems() -> list[str | None]:
    return [problem.id for problem in run_checks(tags=[CHECK_TAG])]


def test_a_server_without_the_setting_refuses_made_up_data(tmp_path: Path) -> None:
    with override_settings(DATA_DIR=tmp_path):
        assert "labcarbon.E009" not in _problems()
        create_database(tmp_path)
        assert "labcarbon.E009" in _problems()
        (tmp_path / DATABASE).unlink()
        mark_folder(tmp_path)
        assert "labcarbon.E009" in _problems()


def test_a_demo_refuses_the_data_of_a_lab(tmp_path: Path) -> None:
    with override_settings(DATA_DIR=tmp_path, DEMO=True):
        assert "labcarbon.E009" in _problems()  # an empty folder is not a demo's
        mark_folder(tmp_path)
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
            connection.execute("CREATE TABLE lab (id)")
        assert "labcarbon.E009" in _problems()
    with pytest.raises(StartupError):
        claim_folder(_folder_of_a_lab(tmp_path / "lab"))
    with pytest.raises(StartupError):
        claim_folder(ROOT / "var")


def _folder_of_a_lab(folder: Path) -> Path:
    folder.mkdir()
    (folder / "secret_key").write_text("x" * 50)
    return folder


def test_the_mark_survives_a_backup(tmp_path: Path) -> None:
    """The write-ahead log, further tables and a copy by SQLite keep the number of the file."""
    source = tmp_path / "source"
    source.mkdir()
    create_database(source)
    with closing(sqlite3.connect(source / DATABASE)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE lab (id)")
        with closing(sqlite3.connect(tmp_path / "copy")) as copy:
            connection.backup(copy)
        connection.execute("VACUUM INTO ?", [str(tmp_path / "vacuumed")])
    assert is_demo_database(source / DATABASE)
    assert is_demo_database(tmp_path / "copy")
    assert is_demo_database(tmp_path / "vacuumed")


def test_an_incomplete_demo_is_created_again_and_a_complete_one_stays(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    claim_folder(folder)
    begin_database(folder)
    assert is_demo_folder(folder)
    assert (folder / MARK).exists()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("CREATE TABLE half (id)")
    begin_database(folder)
    assert _tables(folder) == []
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("CREATE TABLE whole (id)")
    (folder / "generated.json").write_text("{}")
    begin_database(folder)
    assert _tables(folder) == ["whole"]
    claim_folder(folder)


def _tables(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]


def test_the_launcher_drops_all_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("LABCARBON_")]:
        monkeypatch.setenv(name, os.environ[name])
    monkeypatch.setenv("LABCARBON_DATABASE_URL", "postgres://lab@db/lab")
    monkeypatch.setenv("LABCARBON_DEMO", "0")
    monkeypatch.setenv("LABCARBON_DATA", "/srv/lab")
    monkeypatch.setenv("LABCARBON_PORT", "1")
    set_environment(tmp_path, 8010)
    kept = {name: value for name, value in os.environ.items() if name.startswith("LABCARBON_")}
    assert kept == {
        "LABCARBON_DEMO": "1",
        "LABCARBON_DATA": str(tmp_path),
        "LABCARBON_PORT": "8010",
    }
