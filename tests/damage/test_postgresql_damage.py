"""Damaged files of PostgreSQL are named with the command that restores, and found by the daily
check. A recreated empty database is not migrated in place of the one that existed.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.damage.test_sqlite_damage import RESTORE, Installation
from tests.services.data_directories import MIGRATED, copy_static_files, postgres
from tests.services.postgres import Postgres, programs

pytestmark = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed")


class Served(Installation):
    url = ""

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "LABCARBON_DATABASE_URL": self.url}


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def place(server: Postgres, tmp_path: Path) -> Served:
    installation = Served(tmp_path)
    installation.url = server.url_of(MIGRATED)
    copy_static_files(tmp_path)
    return installation


def _file_of(server: Postgres, table: str) -> Path:
    with psycopg.connect(server.url_of(MIGRATED)) as database:
        database.execute("CHECKPOINT")
        row = database.execute("SELECT pg_relation_filepath(%s)", [table]).fetchone()
    assert row is not None
    return server.directory / "data" / row[0]


def _check(place: Served) -> tuple[int, dict[str, str]]:
    checks = (
        "from apps.core.database.table_checks import *; check_due_tables(now=now_us(), limit_s=600)"
    )
    assert place.run("-c", f"import django; django.setup(); {checks}").returncode == 0
    status, body, _ = place.get("/readyz")["/readyz"]
    return status, json.loads(body)


@pytest.mark.parametrize("damage", ["removed", "overwritten"])
def test_a_damaged_file_of_a_table(server: Postgres, place: Served, damage: str) -> None:
    assert _check(place)[0] == 200
    with psycopg.connect(place.url) as database:
        database.execute(
            "INSERT INTO django_session "
            "SELECT 'aaaaaaaa' || n, 'x', now() FROM generate_series(1, 500) n"
        )
        database.execute("UPDATE core_tablecheck SET checked_us = 0")
    file = _file_of(server, "django_session")
    server.stop()
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes(b"\xff" * file.stat().st_size)
    server.start()
    pages = place.get("/readyz", "/accounts/login/?next=/")
    assert pages["/readyz"][0] == 200, "nothing has read the table yet"
    code = (
        "from django.contrib.sessions.models import Session; from django.test import Client; "
        "c = Client(HTTP_HOST='127.0.0.1'); c.cookies['sessionid'] = 'aaaaaaaa250'; "
        "r = c.get('/'); print(r.status_code, r.content.decode(), c.get('/readyz').status_code)"
    )
    shown = place.run("-c", f"import django; django.setup(); {code}")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("503")
    assert 'data-problem="database_damaged"' in shown.stdout
    assert RESTORE in shown.stdout
    assert shown.stdout.rstrip().endswith("503"), "ready although a request met damage"
    status, body = _check(place)
    assert (status, body["problem"]) == (503, "database_damaged")
    assert RESTORE in body["hint"]


def test_amcheck_reads_inner_pages(server: Postgres, place: Served) -> None:
    with psycopg.connect(place.url, autocommit=True) as database:
        database.execute("CREATE EXTENSION amcheck")
        database.execute(
            "INSERT INTO django_session SELECT n, repeat('x', 500), now() "
            "FROM generate_series(1, 500) n"
        )
    assert _check(place)[0] == 200
    file = _file_of(server, "django_session")
    server.stop()
    with file.open("r+b") as opened:  # the header of a row in the third page
        opened.seek(3 * 8192 - 560)
        opened.write(b"\xff" * 560)
    server.start()
    with psycopg.connect(place.url) as database:
        database.execute("UPDATE core_tablecheck SET checked_us = 0")
    status, body = _check(place)
    assert (status, body["problem"]) == (503, "database_damaged")


def test_an_empty_database_does_not_replace_one_that_existed(
    server: Postgres, place: Served
) -> None:
    assert place.run("manage.py", "migrate", "-v0").returncode == 0
    with psycopg.connect(server.url, autocommit=True) as database:
        database.execute(f"DROP DATABASE {MIGRATED}")
        database.execute(f"CREATE DATABASE {MIGRATED}")
    result = place.run("manage.py", "migrate", "-v0")
    assert result.returncode == 1
    assert RESTORE in result.stderr
    with psycopg.connect(place.url) as database:
        assert database.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)
    status, body, _ = place.get("/readyz")["/readyz"]
    assert (status, json.loads(body)["problem"]) == (503, "database_tables_missing")


def test_a_read_only_database(server: Postgres, place: Served) -> None:
    with psycopg.connect(server.url, autocommit=True) as database:
        database.execute(f"ALTER DATABASE {MIGRATED} SET default_transaction_read_only = on")
    status, body, _ = place.get("/readyz")["/readyz"]
    assert (status, json.loads(body)["problem"]) == (503, "database_read_only")
