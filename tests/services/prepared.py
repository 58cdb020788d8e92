"""A data directory as it is before the first start: made by the real commands once in a run, then copied."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.environment import own_environment
from tests.services.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]
_MIGRATE = ("migrate", "--no-input", "--verbosity", "0")
_LOAD = ("load_data",)
COMMANDS = (_MIGRATE, _LOAD)
MIGRATED = "migrated"  # the database of postgres()
_COLLECT = "import django; django.setup(); from labcarbon.staticfiles import collect; collect()"
_DATABASE = "labcarbon.sqlite3"


def prepared(data_dir: Path) -> None:
    """Put a migrated SQLite database with all that is shipped, and the static files, into ``data_dir``."""
    static_files(data_dir)
    shutil.copy(_once("prepared", _fill) / _DATABASE, data_dir)


def seeded(data_dir: Path, program: str) -> str:
    """Put what :func:`prepared` does into ``data_dir``, filled by a module of the tests; return the last line it printed."""
    static_files(data_dir)
    made = _once(program, lambda making: _seed(making, program))
    shutil.copy(made / _DATABASE, data_dir)
    return (made / "told").read_text(encoding="utf-8")


def static_files(data_dir: Path) -> None:
    """Put the static files, collected and compressed, into ``data_dir``."""
    source = _once("static", _collect)
    data_dir.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source / "static", data_dir / "static")
    shutil.copy(source / "static.collected", data_dir)


def migrated() -> Path:
    """Return a SQLite database that was migrated and has nothing in it yet. It is copied, never used."""
    return _once("migrated", lambda making: _manage(making, *_MIGRATE)) / _DATABASE


def postgres(*, durable: bool = False) -> Postgres:
    """Return a private server with a migrated database that has nothing in it yet, and an empty one."""
    return Postgres(durable, _once("cluster", _cluster) / "data")


def _cluster(making: Path) -> None:
    with Postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {MIGRATED}")
        _manage(making, *_MIGRATE, database_url=server.url_of(MIGRATED))
        server.stop()
        subprocess.run(["cp", "--archive", str(server.directory / "data"), str(making)], check=True)


def _fill(making: Path) -> None:
    shutil.copy(migrated(), making)
    _manage(making, *_LOAD)


def _seed(making: Path, program: str) -> None:
    shutil.copy(_once("prepared", _fill) / _DATABASE, making)
    told = _python(making, "-m", program)
    (making / "told").write_text(told.splitlines()[-1], encoding="utf-8")


def _collect(making: Path) -> None:
    _python(making, "-c", _COLLECT)


def _once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory of this run; whoever comes first makes it, the others wait."""
    shared = Path(os.environ["LABCARBON_TEST_SHARED"])
    made, making = shared / name, shared / f"{name}.making"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            make(making)
            making.rename(made)
    return made


def _manage(data_dir: Path, *arguments: str, database_url: str = "") -> None:
    _python(data_dir, "manage.py", *arguments, database_url=database_url)


def _python(data_dir: Path, *arguments: str, database_url: str = "") -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")}
    own = {**own_environment(str(data_dir)), **({"LABCARBON_DATABASE_URL": database_url} if database_url else {})}
    environ = {**kept, **own, "DJANGO_SETTINGS_MODULE": "labcarbon.settings"}
    told = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=180
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return told.stdout
