"""Every kind of damage of the SQLite database is named with the command that restores: at start, by
the worker, by /readyz and on pages. No new database is created in place of one that existed.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from apps.core.database.sqlite_file import content_problem, create_file, file_problem
from tests.environment import installation_environment
from tests.services.data_directories import ROOT, prepare_data_dir
from tests.services.process import wait_until

RESTORE = "manage.py restore"
DUE_JOBS = "SELECT 1 FROM core_job WHERE done < requested AND due_us <= unixepoch() * 1000000"
OTHER_USER = 65_501
_GET = """
import json, sys, django
django.setup()
from django.test import Client
client = Client(HTTP_HOST="127.0.0.1")
pages = {}
for path in sys.argv[1:]:
    response = client.get(path)
    pages[path] = [response.status_code, response.content.decode(), response.get("Retry-After")]
print(json.dumps(pages))
"""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="other users and small disks need root (sudo make test)"
)


@dataclass
class Installation:
    folder: Path
    prefix: list[str] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return self.folder / "labcarbon.sqlite3"

    @property
    def environ(self) -> dict[str, str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith("LABCARBON_")}
        return {
            **plain,
            **installation_environment(str(self.folder)),
            "DJANGO_SETTINGS_MODULE": "labcarbon.settings",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, sys.executable, *arguments],
            cwd=ROOT, env=self.environ, capture_output=True, text=True, timeout=180,
        )  # fmt: skip

    def start(self) -> subprocess.CompletedProcess[str]:
        """Run what `make run` does before it starts its processes."""
        return self.run("-m", "labcarbon.launch", "--prepare")

    def get(self, *paths: str) -> dict[str, Any]:
        """Return {path: [status, content, Retry-After]} from a new process."""
        result = self.run("-c", _GET, *paths)
        assert result.returncode == 0, result.stderr
        pages: dict[str, Any] = json.loads(result.stdout)
        return pages

    def content(self) -> bytes | None:
        return self.database.read_bytes() if self.database.exists() else None

    def query(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.database)) as database:
            rows = database.execute(sql).fetchall()
            database.commit()
            return rows


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    """An installation that was started before."""
    installation = Installation(tmp_path / "data")
    prepare_data_dir(installation.folder)
    assert installation.start().returncode == 0
    return installation


def _overwrite_header(database: Path) -> None:
    with database.open("r+b") as file:
        file.write(b"overwritten" * 10)


def _cut_off(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 2)


def _empty(database: Path) -> None:
    os.truncate(database, 0)


def _replace_by_text(database: Path) -> None:
    database.write_text("This is no database.\n" * 500)


def _delete(database: Path) -> None:
    database.unlink()


def _drop_tables(database: Path) -> None:
    database.unlink()
    with closing(sqlite3.connect(database)) as other:
        other.execute("VACUUM")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "database_damaged:header": _overwrite_header,
    "database_damaged:cut off": _cut_off,
    "database_damaged:empty": _empty,
    "database_damaged:text": _replace_by_text,
    "database_missing:deleted": _delete,
    "database_tables_missing:no tables": _drop_tables,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_everywhere(place: Installation, name: str) -> None:
    DAMAGES[name](place.database)
    problem, damaged = name.partition(":")[0], place.content()
    started = place.start()
    assert started.returncode == 1
    assert RESTORE in started.stderr
    assert str(place.folder) in started.stderr
    assert "Traceback" not in started.stderr
    worker = place.run("manage.py", "worker", "--once")
    assert worker.returncode == 1
    assert RESTORE in worker.stderr
    assert "Traceback" not in worker.stderr
    pages = place.get("/readyz", "/accounts/login/", "/api/schema/", "/livez")
    status, body, retry_after = pages["/readyz"]
    assert (status, json.loads(body)["problem"]) == (503, problem)
    assert RESTORE in json.loads(body)["hint"]
    assert int(retry_after) > 0
    status, body, _ = pages["/accounts/login/"]
    if problem != "database_tables_missing":  # that page reads no table
        assert status == 503
        assert f'data-problem="{problem}"' in body
        assert RESTORE in body
    assert pages["/livez"][0] == 200
    if problem == "database_tables_missing":
        assert place.query("SELECT name FROM sqlite_master") == []
    else:
        assert place.content() == damaged, "the damaged file was changed"


def test_looking_at_the_file_cancels_no_lock_of_sqlite(tmp_path: Path) -> None:
    """Else the last connection of another process would delete the log of this one."""
    path = tmp_path / "database.sqlite3"
    create_file(path)
    log_path = path.with_name(f"{path.name}-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE one (number integer)")
        for look in (content_problem, file_problem):
            assert look(path) is None
        other = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]);"
        other += "print(d.execute('SELECT count(*) FROM one').fetchone()); d.close()"
        subprocess.run([sys.executable, "-c", other, str(path)], check=True)
        assert log_path.exists()
        database.execute("INSERT INTO one VALUES (7)")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT number FROM one").fetchall() == [(7,)]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_upgraded_installation_has_no_record(place: Installation) -> None:
    """Its log shows that it ran before."""
    (place.folder / "databases-created").unlink()
    (place.folder / "logs" / "web.log").write_text("")
    place.database.unlink()
    assert "web.log" in place.start().stderr
    assert not place.database.exists()


def test_a_log_without_its_database(place: Installation) -> None:
    (place.folder / "databases-created").unlink()
    place.database.rename(place.folder / "moved")
    (place.folder / "labcarbon.sqlite3-wal").write_bytes(b"rows")
    result = place.start()
    assert result.returncode == 1
    assert "labcarbon.sqlite3-wal" in result.stderr
    assert not place.database.exists()


def test_a_new_folder_gets_a_new_database(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "new")
    assert installation.run("manage.py", "check").returncode == 0
    assert not installation.database.exists()
    assert installation.run("manage.py", "migrate", "-v0").returncode == 0
    assert installation.get("/readyz")["/readyz"][0] == 200


def test_restoring_makes_it_ready_again(place: Installation, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    assert place.run("manage.py", "backup", str(backup)).returncode == 0
    _overwrite_header(place.database)
    assert place.run("manage.py", "restore", str(backup)).returncode == 1
    place.database.rename(place.folder / "damaged")
    assert place.start().returncode == 1
    assert place.run("manage.py", "restore", str(backup)).returncode == 0
    assert place.start().returncode == 0
    assert place.get("/readyz")["/readyz"][0] == 200


# ---- Damage inside of a table ----


def overwrite_page(database: Path, table: str) -> None:
    """Overwrite a leaf page of a table, which no start reads."""
    with closing(sqlite3.connect(database)) as opened:
        pages = opened.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", [table]
        ).fetchall()
        size = opened.execute("PRAGMA page_size").fetchone()[0]
    with database.open("r+b") as file:
        file.seek((pages[len(pages) // 2][0] - 1) * size)
        file.write(b"\xff" * size)


def test_damage_that_a_start_does_not_touch(place: Installation, tmp_path: Path) -> None:
    """The daily check finds it. Its result remains known after a restart, until a restore."""
    backup = tmp_path / "backup"
    assert place.run("manage.py", "backup", str(backup)).returncode == 0
    overwrite_page(place.database, "auth_permission")
    assert place.start().returncode == 0
    assert place.get("/readyz")["/readyz"][0] == 200
    jobs = "from apps.core.jobs import enqueue_periodic_jobs; enqueue_periodic_jobs()"
    assert place.run("-c", f"import django; django.setup(); {jobs}").returncode == 0
    for _ in range(20):
        assert place.run("manage.py", "worker", "--once").returncode == 0
        if place.query("SELECT 1 FROM core_tablecheck WHERE name = 'auth_permission'"):
            break
        place.query("UPDATE core_job SET due_us = 0")
    (problem,) = place.query("SELECT problem FROM core_tablecheck WHERE problem <> ''")
    assert problem[0]
    status, body, _ = place.get("/readyz")["/readyz"]
    assert (status, json.loads(body)["problem"]) == (503, "database_damaged")
    assert RESTORE in json.loads(body)["hint"]
    place.database.unlink()
    assert place.run("manage.py", "restore", str(backup)).returncode == 0
    assert place.get("/readyz")["/readyz"][0] == 200


# ---- While processes run ----


@pytest.fixture
def worker(place: Installation, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A running worker. Yields a function that returns its log."""
    path = tmp_path / "worker.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "worker"],
            cwd=ROOT, env=place.environ, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_until(
            lambda: place.query("SELECT 1 FROM core_tablecheck") != [], what="the first check"
        )
        wait_until(lambda: place.query(DUE_JOBS) == [], what="the end of its first jobs")
        yield path.read_text
        assert process.poll() is None, path.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.mark.parametrize("damage", [_delete, _empty, _overwrite_header], ids=lambda f: f.__name__)
def test_a_running_worker_names_damage_and_continues_after_the_repair(
    place: Installation, worker: Callable[[], str], damage: Callable[[Path], None]
) -> None:
    copy = place.folder / "copy"
    with closing(sqlite3.connect(place.database)) as source, closing(sqlite3.connect(copy)) as to:
        source.backup(to)
        # Otherwise SQLite reads the header from its log, and writes it back to the file.
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(place.database)
    wait_until(lambda: RESTORE in worker(), what="the message of the worker")
    time.sleep(2.5)
    reported = worker().count("commands.worker: The database is")
    assert reported == 1, "repeated each second"
    assert "Traceback" not in worker()
    for suffix in ("-wal", "-shm"):
        place.database.with_name(place.database.name + suffix).unlink(missing_ok=True)
    copy.replace(place.database)
    wait_until(lambda: "can be used again" in worker(), what="the end of the problem")


# ---- Rights and disks ----


@needs_root
@pytest.mark.parametrize(
    "case", ["file read-only", "file of root", "log of root", "folder of root"]
)
def test_wrong_owner_and_mode(place: Installation, tmp_path: Path, case: str) -> None:
    for path in (place.folder, *place.folder.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER)
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path.name.startswith(("test_", "pytest-", "popen-")):
            path.chmod(0o755)
    place.prefix = [
        "setpriv", "--reuid", str(OTHER_USER), "--regid", str(OTHER_USER), "--clear-groups",
    ]  # fmt: skip
    if case == "file read-only":
        place.database.chmod(0o444)
    elif case == "file of root":
        os.chown(place.database, 0, 0)
        place.database.chmod(0o600)
    elif case == "log of root":
        log = place.folder / "labcarbon.sqlite3-wal"
        log.touch(0o600)
        os.chown(log, 0, 0)
    else:
        os.chown(place.folder, 0, 0)
        place.folder.chmod(0o755)
    started = place.start()
    if "No such file" in started.stderr or "Permission denied: '/root" in started.stderr:
        pytest.skip("this Python cannot be run by other users")
    assert started.returncode == 1
    assert "Traceback" not in started.stderr
    assert "owner" in started.stderr or "write" in started.stderr
    status, body, _ = place.get("/readyz")["/readyz"]
    assert status == 503
    assert json.loads(body)["problem"] in {"database_read_only", "database_no_access"}


@needs_root
def test_a_full_disk(place: Installation, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(small)], check=True)
    try:
        shutil.copy(place.database, small)
        installation = Installation(small)
        assert installation.get("/readyz")["/readyz"][0] == 200
        free = shutil.disk_usage(small).free
        (small / "fill").write_bytes(b"\0" * free)
        status, body, _ = installation.get("/readyz")["/readyz"]
        assert (status, json.loads(body)["problem"]) == (503, "disk_full")
        started = installation.start()
        assert started.returncode == 1
        assert "full" in started.stderr or "No space" in started.stderr
        assert "Traceback" not in started.stderr
        (small / "fill").unlink()
        assert installation.start().returncode == 0
    finally:
        subprocess.run(["umount", str(small)], check=True)
