"""``manage.py backup`` and ``manage.py restore`` on both databases: private, verified, without
keys, and never over existing data.
"""

import hashlib
import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.environment import SECRET_KEY, TOKEN_PEPPERS, installation_environment
from tests.services.data_directories import MIGRATED, ROOT, postgres, prepare_data_dir
from tests.services.postgres import programs

JOBS = 200
INSERT = (
    "INSERT INTO core_job (kind, key, requested, done, due_us, leased_until_us, leased_by, "
    "attempts, last_error) VALUES ('test', '{}', 1, 0, 0, 0, '', 0, '')"
)


@dataclass
class Installation:
    """One data directory and its database."""

    folder: Path
    database_url: str
    connect: Callable[[], closing[Any]]

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("LABCARBON_")}
        environ |= installation_environment(str(self.folder))
        if self.database_url:
            environ["LABCARBON_DATABASE_URL"] = self.database_url
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=environ, capture_output=True, text=True, timeout=180,
        )  # fmt: skip

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as database:
            return [tuple(row) for row in database.execute(query).fetchall()]

    def jobs(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT id, kind, key FROM core_job ORDER BY id")


def _sqlite(folder: Path) -> Installation:
    path = folder / "labcarbon.sqlite3"
    return Installation(folder, "", lambda: closing(sqlite3.connect(path, timeout=20)))


def _postgresql(folder: Path, url: str) -> Installation:
    return Installation(folder, url, lambda: closing(psycopg.connect(url)))


@pytest.fixture(params=["sqlite", "postgresql"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Installation]]:
    """An installation with data, and an empty one."""
    old, new = tmp_path / "old", tmp_path / "new"
    if request.param == "sqlite":
        prepare_data_dir(old)
        pair = [_sqlite(old), _sqlite(new)]
        _fill(pair[0])
        yield pair
        return
    if programs() is None:
        raise RuntimeError("PostgreSQL is not installed: apt-get install postgresql")
    old.mkdir()
    new.mkdir()
    with postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE empty")
        pair = [_postgresql(old, server.url_of(MIGRATED)), _postgresql(new, server.url_of("empty"))]
        _fill(pair[0])
        yield pair


def _fill(installation: Installation) -> None:
    with installation.connect() as database:
        for number in range(JOBS):
            database.execute(INSERT.format(number))
        database.commit()


def test_a_backup_restores_the_same_rows_in_another_folder(
    pair: list[Installation], tmp_path: Path
) -> None:
    old, new = pair
    target = tmp_path / "copy"
    result = old.manage("backup", str(target))
    assert result.returncode == 0, result.stderr
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == ["copy"]
    restored = new.manage("restore", str(target))
    assert restored.returncode == 0, restored.stderr
    assert new.jobs() == old.jobs()
    assert len(new.jobs()) >= JOBS
    applied = "SELECT app, name FROM django_migrations ORDER BY app, name"
    assert new.rows(applied) == old.rows(applied)
    assert new.manage("migrate", "--check").returncode == 0
    if not new.database_url:
        assert stat.S_IMODE((new.folder / "labcarbon.sqlite3").stat().st_mode) == 0o600


def test_keys_are_in_a_second_file_only(pair: list[Installation], tmp_path: Path) -> None:
    old, _ = pair
    target, keys = tmp_path / "copy", tmp_path / "keys"
    pepper = TOKEN_PEPPERS.split(":")[1].split(",")[0]
    result = old.manage("backup", str(target))
    assert "LABCARBON_SECRET_KEY" in result.stdout
    assert "LABCARBON_TOKEN_PEPPERS" in result.stdout
    assert SECRET_KEY not in result.stdout
    target.unlink()
    assert old.manage("backup", str(target), "--keys", str(keys)).returncode == 0
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert dict(line.split("=", 1) for line in keys.read_text().splitlines()) == {
        "LABCARBON_SECRET_KEY": SECRET_KEY,
        "LABCARBON_TOKEN_PEPPERS": TOKEN_PEPPERS,
    }
    for secret in (SECRET_KEY, pepper):
        assert secret.encode() not in target.read_bytes()
    same = tmp_path / "same"
    assert old.manage("backup", str(same), "--keys", str(same)).returncode != 0
    assert not same.exists()


def test_nothing_is_overwritten(pair: list[Installation], tmp_path: Path) -> None:
    old, _ = pair
    target = tmp_path / "copy"
    target.write_text("mine")
    assert old.manage("backup", str(target)).returncode != 0
    assert target.read_text() == "mine"
    target.unlink()
    assert old.manage("backup", str(target)).returncode == 0
    before = old.jobs()
    assert old.manage("restore", str(target)).returncode != 0
    assert old.jobs() == before


def test_a_damaged_backup_is_refused(pair: list[Installation], tmp_path: Path) -> None:
    old, new = pair
    target = tmp_path / "copy"
    assert old.manage("backup", str(target)).returncode == 0
    content = target.read_bytes()
    target.write_bytes(content[: len(content) // 2])
    result = new.manage("restore", str(target))
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    if new.database_url:
        assert new.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []
    else:
        assert not (new.folder / "labcarbon.sqlite3").exists()


def test_a_backup_under_load_is_one_point_in_time(pair: list[Installation], tmp_path: Path) -> None:
    """Each transaction writes two rows: a backup never contains only one of them."""
    old, new = pair
    stop = threading.Event()

    def write() -> None:
        number = 0
        with old.connect() as database:
            while not stop.is_set():
                for half in "ab":
                    database.execute(INSERT.format(f"{number}{half}"))
                database.commit()
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        result = old.manage("backup", str(tmp_path / "copy"))
    finally:
        stop.set()
        writer.join()
    assert result.returncode == 0, result.stderr
    assert new.manage("restore", str(tmp_path / "copy")).returncode == 0
    keys = {key for _, _, key in new.jobs()}
    pairs = {key[:-1] for key in keys if key[-1] in "ab"}
    assert pairs
    assert all({f"{number}a", f"{number}b"} <= keys for number in pairs)
    assert new.jobs() == old.jobs()[: len(new.jobs())]


def test_a_backup_of_a_newer_version_is_refused(pair: list[Installation], tmp_path: Path) -> None:
    old, new = pair
    with old.connect() as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('core', '9999_later', '2026-01-01 00:00:00')"
        )
        database.commit()
    assert old.manage("backup", str(tmp_path / "copy")).returncode == 0
    result = new.manage("restore", str(tmp_path / "copy"))
    assert result.returncode != 0
    assert "9999_later" in result.stderr
    if new.database_url:
        assert new.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []
    else:
        assert not (new.folder / "labcarbon.sqlite3").exists()


@pytest.mark.parametrize("has_migrations", [True, False])
def test_a_database_of_another_program_is_refused(
    pair: list[Installation], tmp_path: Path, *, has_migrations: bool
) -> None:
    """Its restore reported success, and SQLite without migrations ended in a traceback."""
    _, new = pair
    file = tmp_path / "other"
    statements = ["CREATE TABLE places (name text)", "INSERT INTO places VALUES ('x')"]
    if has_migrations:
        statements += [
            "CREATE TABLE django_migrations (app text, name text)",
            "INSERT INTO django_migrations VALUES ('netbox', '0001_initial')",
        ]
    if new.database_url:
        with psycopg.connect(new.database_url, autocommit=True) as server:
            server.execute("CREATE DATABASE other")
        url = new.database_url.rpartition("/")[0] + "/other"
        with psycopg.connect(url) as other:
            for statement in statements:
                other.execute(statement.encode())
        dump = [f"{programs()}/pg_dump", "--format=custom", f"--file={file}", url]
        subprocess.run(dump, check=True)
    else:
        with closing(sqlite3.connect(file)) as other_file:
            for statement in statements:
                other_file.execute(statement)
            other_file.commit()
    result = new.manage("restore", str(file))
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert f"{file} is not a backup of LabCarbon" in result.stderr
    if new.database_url:
        assert new.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []
    else:
        assert not (new.folder / "labcarbon.sqlite3").exists()


def test_a_damaged_page_is_reported_with_the_name_of_the_backup(tmp_path: Path) -> None:
    prepare_data_dir(tmp_path / "old")
    old, new = _sqlite(tmp_path / "old"), _sqlite(tmp_path / "new")
    target = tmp_path / "copy"
    assert old.manage("backup", str(target)).returncode == 0
    content = bytearray(target.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    target.write_bytes(content)
    result = new.manage("restore", str(target))
    assert f"{target} is damaged" in result.stderr


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_disk_without_space_is_not_a_damaged_backup(tmp_path: Path, command: str) -> None:
    """``restore`` called the backup damaged, and ``backup`` left a journal behind."""
    prepare_data_dir(tmp_path / "old")
    old, new = _sqlite(tmp_path / "old"), _sqlite(tmp_path / "new")
    target = tmp_path / "copy"
    if command == "restore":
        assert old.manage("backup", str(target)).returncode == 0
    installation = old if command == "backup" else new
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LABCARBON_")}
    environ |= installation_environment(str(installation.folder))
    result = subprocess.run(
        [sys.executable, "manage.py", command, str(target)], cwd=ROOT, env=environ,
        capture_output=True, text=True, timeout=180,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )  # fmt: skip
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "is damaged" not in result.stderr
    written = target.parent if command == "backup" else new.folder
    assert f"cannot be written to {written}" in result.stderr
    assert [path.name for path in written.iterdir() if "partial" in path.name] == []


def test_no_backup_is_written_if_the_file_of_the_keys_exists(
    pair: list[Installation], tmp_path: Path
) -> None:
    old, _ = pair
    keys = tmp_path / "keys"
    keys.write_text("mine")
    result = old.manage("backup", str(tmp_path / "copy"), "--keys", str(keys))
    assert result.returncode != 0
    assert "keys exists" in result.stderr
    assert keys.read_text() == "mine"
    assert not (tmp_path / "copy").exists()


def _archive_file(folder: Path, day: str, content: str) -> str:
    """Write a file of the archive. Return its name, which contains a digest of its content."""
    name = f"{day[:7]}/{day}-{hashlib.sha256(content.encode()).hexdigest()[:32]}.windows"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)
    return name


@pytest.fixture
def archived(tmp_path: Path) -> tuple[Installation, Installation, list[str]]:
    """An installation with two files of archived windows, an empty one, and the files' names."""
    prepare_data_dir(tmp_path / "old")
    old, new = _sqlite(tmp_path / "old"), _sqlite(tmp_path / "new")
    names = [
        _archive_file(old.folder / "archive", day, day) for day in ("2025-01-30", "2025-02-01")
    ]
    with old.connect() as database:
        database.execute("PRAGMA foreign_keys=OFF")
        for name in names:
            database.execute(
                "INSERT INTO ingest_sealedblock (device_id, epoch_id, node_id, first_sequence, "
                "last_sequence, start_us, end_us, windows, file, offset, length, sha256) "
                "VALUES (1, 1, 1, 0, 0, 0, 1, 1, ?, 0, 1, x'00')",
                [name],
            )
        database.commit()
    return old, new, names


def test_the_archive_is_copied_once_and_restored(
    archived: tuple[Installation, Installation, list[str]], tmp_path: Path
) -> None:
    old, new, names = archived
    archive, copies = old.folder / "archive", tmp_path / "copies"
    (archive / "2025-02" / ".x.windows.partial-1").write_text("unfinished")
    result = old.manage("backup", str(tmp_path / "1"))
    assert "2 files" in result.stdout, "the folder is named, because its files are not in the copy"
    assert str(archive) in result.stdout
    result = old.manage("backup", str(tmp_path / "2"), "--archive", str(copies))
    assert "2 new of 2 files" in result.stdout
    result = old.manage("backup", str(tmp_path / "3"), "--archive", str(copies))
    assert "0 new of 2 files" in result.stdout
    assert new.manage("restore", str(tmp_path / "3"), "--archive", str(copies)).returncode == 0
    restored = sorted((new.folder / "archive").glob("*/*"))
    assert [str(path.relative_to(new.folder / "archive")) for path in restored] == names
    assert [path.read_text() for path in restored] == ["2025-01-30", "2025-02-01"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in restored} == {0o600}
    (copies / names[0]).write_text("other")
    result = old.manage("backup", str(tmp_path / "4"), "--archive", str(copies))
    assert result.returncode != 0
    assert "differs" in result.stderr


def test_a_damaged_file_of_the_archive_is_reported_and_the_others_are_copied(
    archived: tuple[Installation, Installation, list[str]], tmp_path: Path
) -> None:
    """A damaged file was copied as a good one, and the restore called it verified."""
    old, new, names = archived
    good, copies = tmp_path / "good", tmp_path / "copies"
    assert old.manage("backup", str(tmp_path / "1"), "--archive", str(good)).returncode == 0
    (old.folder / "archive" / names[0]).write_text("2025-01-3X")
    result = old.manage("backup", str(tmp_path / "2"), "--archive", str(copies))
    assert result.returncode != 0
    assert f"{names[0]} is damaged" in result.stderr
    assert str(tmp_path / "2") in result.stdout, "the database was backed up"
    assert not (copies / names[0]).exists()
    assert (copies / names[1]).exists()
    (good / names[0]).write_text("2025-01-3X")
    result = new.manage("restore", str(tmp_path / "1"), "--archive", str(good))
    assert result.returncode != 0
    assert f"{names[0]} is damaged" in result.stderr
    assert "The database is restored" in result.stderr
    assert "verified" not in result.stdout
    assert (new.folder / "archive" / names[1]).exists()


def test_files_that_the_restored_database_names_but_nobody_copied_are_reported(
    archived: tuple[Installation, Installation, list[str]], tmp_path: Path
) -> None:
    old, new, names = archived
    copies, other = tmp_path / "copies", _sqlite(tmp_path / "other")
    assert old.manage("backup", str(tmp_path / "1"), "--archive", str(copies)).returncode == 0
    (copies / names[1]).unlink()
    result = new.manage("restore", str(tmp_path / "1"), "--archive", str(copies))
    assert result.returncode != 0
    assert f"1 of 2 files of archived windows are missing: {names[1]}" in result.stderr
    result = other.manage("restore", str(tmp_path / "1"))
    assert result.returncode == 0, "the folder can be copied afterwards"
    assert "2 of 2 files of archived windows are missing" in result.stdout
    assert str(other.folder / "archive") in result.stdout


def test_a_folder_of_copies_that_is_a_file_is_reported(
    archived: tuple[Installation, Installation, list[str]], tmp_path: Path
) -> None:
    old, _, _ = archived
    (tmp_path / "file").write_text("")
    result = old.manage("backup", str(tmp_path / "1"), "--archive", str(tmp_path / "file"))
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert str(tmp_path / "1") in result.stdout, "the database was backed up"


ATTACHMENTS = ("aa/aa01", "bb/bb02")


@pytest.fixture
def attached(tmp_path: Path) -> tuple[Installation, Installation, list[str]]:
    """An installation with two attachments, an empty one, and the files' names."""
    prepare_data_dir(tmp_path / "old")
    old, new = _sqlite(tmp_path / "old"), _sqlite(tmp_path / "new")
    names = []
    with old.connect() as database:
        database.execute("PRAGMA foreign_keys=OFF")
        for stem in ATTACHMENTS:
            content = f"%PDF-1.7 {stem}".encode()
            digest = hashlib.sha256(content).hexdigest()
            name = f"{stem}-{digest[:32]}.attachment"
            path = old.folder / "attachments" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            names.append(name)
            database.execute(
                "INSERT INTO assets_attachment (asset_id, uuid, file, name, media_type, bytes, "
                "sha256, added_us) VALUES (1, ?, ?, 'a.pdf', 'application/pdf', ?, ?, 0)",
                [digest[:32], name, len(content), digest],
            )
        database.commit()
    return old, new, names


def _stored(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/*"))


def test_attachments_are_copied_restored_and_erased_in_the_copy(
    attached: tuple[Installation, Installation, list[str]], tmp_path: Path
) -> None:
    old, new, names = attached
    copies = tmp_path / "copies"
    result = old.manage("backup", str(tmp_path / "1"))
    assert f"2 files, 32 bytes in {old.folder / 'attachments'}" in result.stdout
    result = old.manage("backup", str(tmp_path / "2"), "--archive", str(copies))
    assert "Attachments: 2 new of 2 files, 0 deleted ones erased" in result.stdout
    assert _stored(copies / "attachments") == names
    result = new.manage("restore", str(tmp_path / "2"), "--archive", str(copies))
    assert result.returncode == 0, result.stderr
    assert "Attachments: 2 files" in result.stdout
    assert _stored(new.folder / "attachments") == names
    modes = {path.stat().st_mode & 0o777 for path in (new.folder / "attachments").glob("*/*")}
    assert modes == {0o600}
    with old.connect() as database:
        database.execute(
            "UPDATE assets_attachment SET deleted_us = 1, erased_us = 1, name = '', sha256 = '' "
            "WHERE file = ?",
            [names[0]],
        )
        database.commit()
    (old.folder / "attachments" / names[0]).unlink()
    result = old.manage("backup", str(tmp_path / "3"), "--archive", str(copies))
    assert "Attachments: 0 new of 1 files, 1 deleted ones erased" in result.stdout
    assert _stored(copies / "attachments") == [names[1]]


def test_attachments_that_are_damaged_or_missing_are_reported(
    attached: tuple[Installation, Installation, list[str]], tmp_path: Path
) -> None:
    old, new, names = attached
    copies = tmp_path / "copies"
    (old.folder / "attachments" / names[0]).write_bytes(b"other")
    result = old.manage("backup", str(tmp_path / "1"), "--archive", str(copies))
    assert result.returncode != 0
    assert f"{names[0]} is damaged" in result.stderr
    assert _stored(copies / "attachments") == [names[1]]
    result = new.manage("restore", str(tmp_path / "1"), "--archive", str(copies))
    assert result.returncode != 0
    assert f"1 of 2 files of attachments are missing: {names[0]}" in result.stderr
