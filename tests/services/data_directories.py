"""Prepared data directories and databases: created by the real commands once per test run, then
copied.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.environment import installation_environment
from tests.services.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]
_MIGRATE = ("migrate", "--no-input", "--verbosity", "0")
_LOAD = ("load_data",)
COMMANDS = (_MIGRATE, _LOAD)
MIGRATED = "migrated"  # the database that postgres() creates
_COLLECT = (
    "import django; django.setup(); from labcarbon.static_collection import collect_static; "
    "collect_static()"
)
_DATABASE = "labcarbon.sqlite3"


def prepare_data_dir(data_dir: Path) -> None:
    """Put a migrated SQLite database with all shipped data, and the static files, into
    ``data_dir``.
    """
    copy_static_files(data_dir)
    shutil.copy(_create_shared("prepared", _create_prepared) / _DATABASE, data_dir)


def seed_data_dir(data_dir: Path, program: str) -> str:
    """Like :func:`prepare_data_dir`, with data of a seed module of the tests. Returns the last line
    that the module printed.
    """
    copy_static_files(data_dir)
    created = _create_shared(program, lambda folder: _create_seeded(folder, program))
    shutil.copy(created / _DATABASE, data_dir)
    return (created / "told").read_text(encoding="utf-8")


def copy_static_files(data_dir: Path) -> None:
    """Put collected and compressed static files into ``data_dir``."""
    source = _create_shared("static", _create_static)
    data_dir.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source / "static", data_dir / "static")
    shutil.copy(source / "static.collected", data_dir)


def migrated_database() -> Path:
    """Return an empty migrated SQLite database. Copy it, never use it directly."""
    return _create_shared("migrated", lambda folder: _manage(folder, *_MIGRATE)) / _DATABASE


def postgres(*, durable: bool = False) -> Postgres:
    """Return a private server with an empty migrated database and one without tables."""
    return Postgres(durable, _create_shared("cluster", _create_cluster) / "data")


def _create_cluster(folder: Path) -> None:
    with Postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {MIGRATED}")
        _manage(folder, *_MIGRATE, database_url=server.url_of(MIGRATED))
        server.stop()
        subprocess.run(["cp", "--archive", str(server.directory / "data"), str(folder)], check=True)


def _create_prepared(folder: Path) -> None:
    shutil.copy(migrated_database(), folder)
    _manage(folder, *_LOAD)


def _create_seeded(folder: Path, program: str) -> None:
    shutil.copy(_create_shared("prepared", _create_prepared) / _DATABASE, folder)
    output = _python(folder, "-m", program)
    (folder / "told").write_text(output.splitlines()[-1], encoding="utf-8")


def _create_static(folder: Path) -> None:
    _python(folder, "-c", _COLLECT)


def _create_shared(name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory that is shared by the test run. The first caller creates it; others
    wait.
    """
    shared = Path(os.environ["LABCARBON_TEST_SHARED"])
    created, folder = shared / name, shared / f"{name}.making"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not created.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            folder.rename(created)
    return created


def _manage(data_dir: Path, *arguments: str, database_url: str = "") -> None:
    _python(data_dir, "manage.py", *arguments, database_url=database_url)


def _python(data_dir: Path, *arguments: str, database_url: str = "") -> str:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")
    }
    own = {
        **installation_environment(str(data_dir)),
        **({"LABCARBON_DATABASE_URL": database_url} if database_url else {}),
    }
    environ = {**inherited, **own, "DJANGO_SETTINGS_MODULE": "labcarbon.settings"}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
