"""Mistakes at ``make run``: ports, Pythons, folders, settings."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.test import override_settings

from apps.core.migration_history import LAST_COMMIT_WITH_STEPS
from labcarbon import checks
from labcarbon.launch import create_data_dir
from tests.faults.installation import ROOT, plain_environ
from tests.services.data_directories import prepare_data_dir

_FAKE_PYTHON = """#!/bin/sh
case "$1" in
  -V) echo "Python 3.9.18" ;;
  *) exit 1 ;;
esac
"""


def _launch(data_dir: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labcarbon.launch"],
        env={**plain_environ(), "LABCARBON_DATA": str(data_dir), **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = _launch(tmp_path / "data", LABCARBON_PORT=str(port))
    assert done.returncode == 1
    assert f"Port {port} cannot be used" in done.stderr
    assert f"LABCARBON_PORT={port + 1} make run" in done.stderr


@pytest.mark.parametrize("port", ["http", "70000", "-1"])
def test_a_port_that_is_none(tmp_path: Path, port: str) -> None:
    done = _launch(tmp_path / "data", LABCARBON_PORT=port)
    assert done.returncode == 1
    assert "LABCARBON_PORT" in done.stderr
    assert "8000" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = _launch(tmp_path / "file" / "data")
    assert done.returncode == 1
    assert f"{tmp_path}/file/data cannot be written" in done.stderr
    assert "LABCARBON_DATA=$HOME/labcarbon make run" in done.stderr


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_lost_secret_of_an_existing_database_is_not_replaced(
    tmp_path: Path, *, is_empty: bool
) -> None:
    """A new one would make all tokens and second factors invalid."""
    (tmp_path / "labcarbon.sqlite3").write_bytes(b"")
    if is_empty:
        (tmp_path / "token_peppers").touch()
    done = _launch(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path}/token_peppers is missing or empty" in done.stderr
    assert "manage.py backup --keys" in done.stderr
    assert not is_empty or (tmp_path / "token_peppers").read_bytes() == b""


def test_secrets_that_a_crash_left_empty_are_created_again(tmp_path: Path) -> None:
    """The start stopped with the advice to run `make run`, which was running."""
    for name in ("secret_key", "token_peppers"):
        (tmp_path / name).touch()
    create_data_dir(tmp_path)
    secrets = {name: (tmp_path / name).read_text() for name in ("secret_key", "token_peppers")}
    assert len(secrets["secret_key"]) >= 40
    assert secrets["token_peppers"].startswith("1:")
    create_data_dir(tmp_path)
    for name, text in secrets.items():
        assert (tmp_path / name).read_text() == text, "a second start changes nothing"
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "secret_key", "token_peppers"}


@pytest.mark.parametrize(
    ("settings", "mend"),
    [
        (
            {"LABCARBON_SITE_URL": "https://lab.example.org", "LABCARBON_DEBUG": "1"},
            "Unset LABCARBON_DEBUG",
        ),
        ({"LABCARBON_SITE_URL": "http://lab.example.org"}, "LABCARBON_SITE_URL=https://"),
        ({"LABCARBON_SECRET_KEY": "short"}, "LABCARBON_SECRET_KEY"),
        ({"LABCARBON_TOKEN_PEPPERS": "1:nothex"}, "LABCARBON_TOKEN_PEPPERS"),
        ({"LABCARBON_DEBUG": "maybe"}, "LABCARBON_DEBUG"),
    ],
)
def test_settings_that_would_expose_the_lab(
    tmp_path: Path, settings: dict[str, str], mend: str
) -> None:
    done = _launch(tmp_path / "data", LABCARBON_PORT="1", **settings)
    if (
        "LABCARBON_PORT" in done.stderr
    ):  # an ordinary user cannot have port 1; root gets as far as the checks
        done = _launch(tmp_path / "data", **settings)
    assert done.returncode == 1
    assert mend in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_from_before_version_1(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    create_data_dir(data_dir)
    prepare_data_dir(data_dir)
    with closing(sqlite3.connect(data_dir / "labcarbon.sqlite3")) as database, database:
        database.execute(
            "DELETE FROM django_migrations WHERE name IN ('0001_v1', "
            "'0007_left_out_keys_side_by_side')"
        )
    done = _launch(data_dir)
    assert done.returncode == 1
    assert "runs: 0007_left_out_keys_side_by_side" in done.stderr
    assert f"git checkout {LAST_COMMIT_WITH_STEPS}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\nserver:/export /home nfs4 rw,vers=4.2 0 0\n/dev/sdb1 "
        "/home/local ext4 rw 0 0\n"
    )
    monkeypatch.setattr(checks, "Path", lambda _: mounts)
    assert [
        checks.file_system_type(path) for path in ("/home/ann/var", "/home/local/var", "/homework")
    ] == [
        "nfs4",
        "ext4",
        "ext4",
    ]
    with override_settings(DATA_DIR=Path("/home/ann/var")):
        found = checks.check_database_location(None)
    if os.environ.get("LABCARBON_DATABASE_URL"):
        assert found == []  # PostgreSQL keeps the data elsewhere
        return
    (problem,) = found
    assert "nfs4" in problem.msg
    assert problem.hint is not None
    assert "LABCARBON_DATA" in problem.hint
    assert "LABCARBON_DATABASE_URL=postgres://" in problem.hint


def _make_venv(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "scripts/make_venv.sh"), python, str(folder / "venv"), "requirements.txt"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text(_FAKE_PYTHON)
    old.chmod(0o755)
    done = _make_venv(tmp_path, str(old))
    assert done.returncode == 1
    assert "Python 3.9.18" in done.stderr
    assert "make run PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_missing_python(tmp_path: Path) -> None:
    done = _make_venv(tmp_path, "python9.99")
    assert done.returncode == 1
    assert "make run PYTHON=" in done.stderr


def test_a_python_that_cannot_make_environments(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(
        f'#!/bin/sh\ncase "$1$2" in -mvenv) echo "No module named venv" >&2; exit 1 ;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    bare.chmod(0o755)
    done = _make_venv(tmp_path, str(bare))
    assert done.returncode == 1
    assert "apt install python3-venv" in done.stderr


def setup(data_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `make setup` with the virtual environment at hand."""
    bin_dir = Path(sys.executable).parent
    return subprocess.run(
        [
            "make",
            "--old-file",
            f"{bin_dir.parent}/.installed",
            "setup",
            f"VENV={bin_dir.parent}",
            *words,
        ],
        cwd=ROOT,
        env={**plain_environ(), "LABCARBON_DATA": str(data_dir)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_make_setup_reports_problems_and_works_as_documented(tmp_path: Path) -> None:
    """On a database that is there already: from nothing is what tests of `make run` begin with."""
    create_data_dir(tmp_path)
    prepare_data_dir(tmp_path)
    unnamed = setup(tmp_path)
    assert unnamed.returncode != 0
    assert 'make setup LAB="Cell Lab" ZONE=DE' in unnamed.stderr
    mistyped = setup(tmp_path, "LAB=Cell Lab", "ZONE=Germnay")
    assert mistyped.returncode != 0
    assert "Germany (DE)" in mistyped.stderr
    done = setup(tmp_path, "LAB=Cell Lab", "ZONE=DE", "SITE_KIND=workstation")
    assert done.returncode == 0, done.stderr
    assert "Cell Lab is set up" in done.stdout
    assert "demo" in done.stdout
    again = setup(tmp_path, "LAB=Cell Lab", "ZONE=DE")
    assert again.returncode == 0
    assert "already" in again.stdout
