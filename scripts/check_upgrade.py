"""Check the upgrade from a version before ``0001_v1``, on SQLite and on a private PostgreSQL.

Databases are created with the code of the last commit before ``0001_v1`` (``git archive`` into a
temporary folder) and migrated with the code of this folder. A database at the last step must be
accepted, keep all rows and have the schema of a new database. Any other must be refused unchanged,
and be accepted after ``migrate`` of that commit.

    python scripts/check_upgrade.py [--only sqlite|postgresql] [--commit COMMIT]

With ``--commit`` a filled database of that later version is migrated and compared instead.

Takes some minutes and prints a table. Exit code 0: each line is as expected; 1: one is not.
"""

import argparse
import hashlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from abc import ABC, abstractmethod
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from apps.core.migration_history import LAST_COMMIT_WITH_STEPS  # noqa: E402
from tests.environment import installation_environment  # noqa: E402
from tests.services.postgres import Postgres, programs  # noqa: E402

_RECORDS = "django_migrations"
# Django adds a row for each model after ``migrate``, so renamed models get new rows here.
_MODEL_LISTS = ("django_content_type", "auth_permission")
_SEED = "tests.browser.seed"
_PROGRAM = """
import sys
import django
django.setup()
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
executor = MigrationExecutor(connection)
executor.loader = loader = MigrationLoader(connection, replace_migrations=False)
ends = [key for key in loader.graph.leaf_nodes() if not loader.disk_migrations[key].replaces]
"""
# Each step, as databases were created before there were squashed migrations.
STEPS = (
    _PROGRAM
    + """
from django.core.management.sql import emit_post_migrate_signal
executor.migrate(ends)
emit_post_migrate_signal(0, False, "default")  # content types, as manage.py migrate
"""
)
STEPS_TO = _PROGRAM + "executor.migrate([tuple(sys.argv[1:3])])"
# All steps but one and those that need it, and a few rows.
STEPS_WITHOUT = (
    _PROGRAM
    + """
missing = tuple(sys.argv[1:3])
plan = [migration for migration, _ in executor.migration_plan(ends)]
keys = [(migration.app_label, migration.name) for migration in plan]
keys = [key for key in keys if missing not in loader.graph.forwards_plan(key)]
executor.migrate(keys)
models = loader.project_state(keys).apps
lab = models.get_model("accounts", "Lab").objects.create(slug="old", name="Old", created_us=1)
site = models.get_model("fleet", "Site").objects.create(lab_id=lab.pk, name="Berlin", kind="workstation")
models.get_model("fleet", "SiteZone").objects.create(site_id=site.pk, from_hour=0, zone="DE")
"""  # noqa: E501
)

# (app, its last step, the program that leaves that step out, the arguments of the program)
ONE_BEHIND = (
    (
        "runs",
        "0007_left_out_keys_side_by_side",
        STEPS_TO,
        ("runs", "0006_keys_of_runs_without_ids"),
    ),
    ("artifacts", "0006_archived_and_promoted", STEPS_TO, ("artifacts", "0005_holds_and_notices")),
    ("fleet", "0003_control_of_sites", STEPS_WITHOUT, ("fleet", "0003_control_of_sites")),
)


class Failed(Exception):
    """A command did not end as expected; the text is what it printed."""


@dataclass(frozen=True)
class Code:
    """A folder with the code of one version."""

    folder: Path

    def run(self, database: "Database", *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python with this code on a database."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")
        }
        paths = f"{self.folder}{os.pathsep}{self.folder / 'collector'}"
        own = {
            "DJANGO_SETTINGS_MODULE": "labcarbon.settings",
            "PYTHONPATH": paths,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment = {
            **inherited,
            **installation_environment(str(database.data_dir)),
            **own,
            **database.settings,
        }
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600
        )

    def must_run(self, database: "Database", *arguments: str) -> str:
        """Run Python with this code on a database; return what it printed."""
        ended = self.run(database, *arguments)
        if ended.returncode:
            raise Failed(f"{arguments}\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def migrate(self, database: "Database") -> None:
        self.must_run(database, "manage.py", "migrate", "--no-input")


@dataclass(frozen=True)
class Schema:
    """A schema dump as text, and the same with the columns of each table in alphabetical order."""

    exact: str
    by_name: str

    def compare(self, other: "Schema") -> str:
        """Return how far this schema is the other one."""
        if self.exact == other.exact:
            return "identical"
        if self.by_name == other.by_name:
            own, theirs = (set(schema.exact.splitlines()) for schema in (self, other))
            tables = sorted(line.split('"')[1] for line in own - theirs)
            return f"identical but for column positions ({', '.join(tables)})"
        return "DIFFERENT"


@dataclass(frozen=True)
class Rows:
    """Rows of a table. ``lines``: their texts, only of lists of models."""

    count: int
    checksum: str
    lines: frozenset[str]


Contents = dict[str, Rows]


class Database(ABC):
    """A database that is created, copied, read and thrown away."""

    data_dir: Path
    settings: dict[str, str]

    @abstractmethod
    def copy(self, name: str) -> "Database":
        """Return a copy of this database."""

    @abstractmethod
    def schema(self) -> Schema:
        """Return a dump of the schema."""

    @abstractmethod
    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return the result of a query."""

    @abstractmethod
    def tables(self) -> dict[str, list[str]]:
        """Return the names of the columns of each table."""

    def shares(self) -> set[tuple[object, ...]]:
        """Return the (epoch id, sequence, consumer id, mJ) of all shares of windows."""
        if "ingest_windowshare" in self.tables():
            return set(
                self.rows(
                    "SELECT epoch_id, sequence, consumer_id, energy_mj FROM ingest_windowshare"
                )
            )
        return {
            (epoch, sequence, int(consumer), energy_mj)
            for epoch, sequence, shares in self.rows(
                "SELECT epoch_id, sequence, shares FROM ingest_energywindow"
            )
            for consumer, energy_mj in json.loads(str(shares)).items()
        }

    def contents(self, tables: dict[str, list[str]] | None = None) -> Contents:
        """Return the rows of each table, or of the columns of ``tables`` that still exist."""
        contents = {}
        for table, own in self.tables().items():
            columns = [name for name in own if tables is None or name in tables.get(table, own)]
            names = ", ".join(f'"{column}"' for column in sorted(columns))
            lines = sorted(repr(row) for row in self.rows(f'SELECT {names} FROM "{table}"'))
            contents[table] = Rows(
                len(lines),
                hashlib.sha256("\n".join(lines).encode()).hexdigest(),
                frozenset(lines) if table in _MODEL_LISTS else frozenset(),
            )
        return contents


class SqliteDatabase(Database):
    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.settings = folder, {}
        self.data_dir = folder / name
        self.data_dir.mkdir()
        self.path = self.data_dir / "labcarbon.sqlite3"

    def copy(self, name: str) -> Database:
        other = SqliteDatabase(self.folder, name)
        if self.path.exists():
            with (
                closing(sqlite3.connect(self.path)) as source,
                closing(sqlite3.connect(other.path)) as target,
            ):
                source.backup(target)
        return other

    def schema(self) -> Schema:
        statements = [
            str(sql)
            for (sql,) in self.rows(
                "SELECT sql FROM sqlite_master WHERE sql <> '' ORDER BY type, name"
            )
        ]
        exact = [" ".join(statement.split()) for statement in statements]
        return Schema("\n".join(exact), "\n".join(_sort_columns(statement) for statement in exact))

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute(statement).fetchall()

    def tables(self) -> dict[str, list[str]]:
        names = self.rows(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sqlite_sequence'"
        )
        return {
            str(name): [
                str(column)
                for (column,) in self.rows(f"SELECT name FROM pragma_table_info('{name}')")
            ]
            for (name,) in names
        }


def _sort_columns(statement: str) -> str:
    """Return a CREATE TABLE statement with its columns and constraints in alphabetical order."""
    if not statement.startswith("CREATE TABLE"):
        return statement
    head, _, body = statement.partition("(")
    parts, depth, part = [], 0, ""
    for character in body[: body.rindex(")")]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return f"{head}({', '.join(sorted([*parts, part.strip()]))})"


class PostgresDatabase(Database):
    def __init__(
        self, server: Postgres, folder: Path, name: str, template: str = "template0"
    ) -> None:
        self.server, self.folder, self.name = server, folder, f"upgrade_{name}"
        self.data_dir = folder / name
        self.data_dir.mkdir()
        self.settings = {"LABCARBON_DATABASE_URL": server.url_of(self.name)}
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{self.name}" TEMPLATE "{template}"'.encode())

    def copy(self, name: str) -> Database:
        return PostgresDatabase(self.server, self.folder, name, self.name)

    def schema(self) -> Schema:
        directory = programs()
        assert directory is not None
        command = [
            str(directory / "pg_dump"),
            "--schema-only",
            "--no-owner",
            self.server.url_of(self.name),
        ]
        dump = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        exact = "\n".join(
            line for line in dump.splitlines() if "restrict" not in line
        )  # a random key in each dump
        return Schema(exact, exact)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.url_of(self.name)) as connection:
            return connection.execute(statement.encode()).fetchall()

    def tables(self) -> dict[str, list[str]]:
        columns: dict[str, list[str]] = {}
        for table, column in self.rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = "
            "'public'"
        ):
            columns.setdefault(str(table), []).append(str(column))
        return columns


@dataclass(frozen=True)
class Line:
    """One line of the table: a state, what ``migrate`` did, and whether that is as expected."""

    vendor: str
    state: str
    outcome: str
    schema: str
    data: str
    is_expected: bool

    def __str__(self) -> str:
        verdict = "ok" if self.is_expected else "WRONG"
        return (
            f"| {self.vendor} | {self.state} | {self.outcome} | {self.schema} | {self.data} | "
            f"{verdict} |"
        )


class Checks:
    """All checks on one kind of database."""

    def __init__(self, vendor: str, empty: Database, before: Code) -> None:
        self.vendor, self.empty, self.before, self.after = vendor, empty, before, Code(ROOT)
        self.lines: list[Line] = []

    def run(self, commit: str | None) -> list[Line]:
        """Check each state before ``0001_v1``, or that of a later commit."""
        return self._run_from(commit) if commit else self._run_states()

    def _run_states(self) -> list[Line]:
        created = self.empty.copy("new")
        self.after.migrate(created)
        self.new = created.schema()
        self._accept("empty", self.empty.copy("empty_upgraded"), is_empty=True)
        self._accept("created by this version", created)
        by_steps, squashed = self.empty.copy("by_steps"), self.empty.copy("squashed")
        self.before.must_run(by_steps, "-c", STEPS)
        self.before.migrate(squashed)
        for database in (by_steps, squashed):
            self.before.must_run(database, "manage.py", "load_data")
            self.before.must_run(database, "-m", _SEED)
        self._accept("last, by steps, squashed names not recorded", by_steps.copy("by_steps_only"))
        behind = {
            app: (by_steps if program == STEPS_TO else self.empty).copy(f"behind_{app}")
            for app, _, program, _ in ONE_BEHIND
        }
        self.before.migrate(by_steps)  # records the squashed names
        self._accept("last, by steps", by_steps)
        self._accept("last, squashed", squashed)
        for app, missing, program, arguments in ONE_BEHIND:
            self.before.must_run(behind[app], "-c", program, *arguments)
            self._refuse(f"one behind in {app}", behind[app], [f"{app}: {missing}"])
        half = self.empty.copy("half_apps")
        for app in ("accounts", "fleet", "runs"):
            self.before.must_run(half, "manage.py", "migrate", app)
        self._refuse(
            "half applied: accounts, fleet and runs complete", half, ["assets: all migrations"]
        )
        half = self.empty.copy("half_steps")
        self.before.must_run(half, "-c", STEPS_TO, "runs", "0003_fingerprints")
        self._refuse("half applied: runs at its third step", half, ["runs: 0004_unknown_seeds"])
        return self.lines

    def _run_from(self, commit: str) -> list[Line]:
        """Check the upgrade of a filled database from a commit with ``0001_v1``."""
        created, filled = self.empty.copy("new"), self.empty.copy("filled")
        self.after.migrate(created)
        self.new = created.schema()
        self.before.migrate(filled)
        self.before.must_run(filled, "manage.py", "load_data")
        self.before.must_run(filled, "-m", _SEED)
        self._accept(f"at {commit}", filled)
        return self.lines

    def _accept(self, state: str, database: Database, *, is_empty: bool = False) -> None:
        """Migrate a database that must be accepted."""
        before = None if is_empty else State.read(database)
        ended = self.after.run(database, "manage.py", "migrate", "--no-input")
        self._add(
            state,
            database,
            before,
            "accepted" if ended.returncode == 0 else f"REFUSED {ended.stderr[-300:]}",
        )

    def _refuse(self, state: str, database: Database, named: list[str]) -> None:
        """Migrate a database that must be refused, then follow the advice of the refusal."""
        schema, contents = database.schema(), database.contents()
        ended = self.after.run(database, "manage.py", "migrate", "--no-input")
        is_named = all(
            text in ended.stderr for text in [*named, f"git checkout {LAST_COMMIT_WITH_STEPS}"]
        )
        outcome = (
            "refused" if ended.returncode and is_named else f"NOT REFUSED {ended.stderr[-300:]}"
        )
        is_unchanged = (schema, contents) == (database.schema(), database.contents())
        data = "same checksums" if is_unchanged else "CHANGED"
        expected = outcome == "refused" and is_unchanged
        self._print(
            Line(
                self.vendor,
                state,
                outcome,
                "unchanged" if is_unchanged else "CHANGED",
                data,
                expected,
            )
        )
        self.before.migrate(database)
        before = State.read(database)
        ended = self.after.run(database, "manage.py", "migrate", "--no-input")
        outcome = "accepted" if ended.returncode == 0 else f"REFUSED {ended.stderr[-300:]}"
        self._add(f"{state}, then through the commit", database, before, outcome)

    def _add(self, state: str, database: Database, before: "State | None", outcome: str) -> None:
        schema = database.schema().compare(self.new)
        changed: list[str] = []
        data = ""
        if before is not None and outcome == "accepted":
            after = State.read(database, before.tables)
            changed = before.changed_tables(after)
            data = f"CHANGED: {changed}" if changed else before.describe(after)
        pending = self.after.must_run(database, "manage.py", "migrate", "--plan")
        is_complete = "No planned migration operations" in pending
        expected = (
            outcome == "accepted" and schema.startswith("identical") and not changed and is_complete
        )
        self._print(Line(self.vendor, state, outcome, schema, data, expected))

    def _print(self, line: Line) -> None:
        self.lines.append(line)
        print(line, flush=True)


@dataclass(frozen=True)
class State:
    """Tables with their columns, their rows, and the shares of windows, at one moment."""

    tables: dict[str, list[str]]
    contents: Contents
    shares: frozenset[tuple[object, ...]]

    @classmethod
    def read(cls, database: Database, tables: dict[str, list[str]] | None = None) -> "State":
        """Read a database, without the table of migrations. ``tables``: the former columns, to
        which the rows are limited.
        """
        contents = database.contents(tables)
        del contents[_RECORDS]
        return cls(database.tables(), contents, frozenset(database.shares()))

    def changed_tables(self, after: "State") -> list[str]:
        """Return the former tables that lost or changed a row, or, but for lists of models, got
        one. Shares moved into the rows of their windows.
        """
        changed = [] if self.shares == after.shares else ["shares of windows"]
        for table, rows in self.contents.items():
            later = after.contents.get(table)
            if table == "ingest_windowshare" or rows == later:
                continue
            if table not in _MODEL_LISTS or later is None or not rows.lines <= later.lines:
                changed.append(table)
        return changed

    def describe(self, after: "State") -> str:
        rows = sum(table.count for table in self.contents.values())
        used = sum(1 for table in self.contents.values() if table.count)
        added = "".join(
            f"; {after.contents[table].count - self.contents[table].count} rows of new models in "
            f"{table}"
            for table in _MODEL_LISTS
            if after.contents[table] != self.contents[table]
        )
        return f"{rows} rows in {used} of {len(self.contents)} tables, same checksums{added}"


def unpack(commit: str, folder: Path) -> Code:
    """Put the files of a commit into a folder."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return Code(folder)


def main() -> int:
    """Run all checks; return 0 if all lines are as expected."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument(
        "--commit", help="check only the upgrade of a filled database from this later commit"
    )
    options = parser.parse_args()
    lines: list[Line] = []
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="labcarbon-upgrade-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        for name in ("code", "sqlite", "postgresql"):
            (scratch / name).mkdir()
        before = unpack(options.commit or LAST_COMMIT_WITH_STEPS, scratch / "code")
        print(
            (
                "| database | state | migrate | schema, against a new database | data | |\n"
                "|---|---|---|---|---|---|"
            ),
            flush=True,
        )
        if options.only != "postgresql":
            database: Database = SqliteDatabase(scratch / "sqlite", "nothing")
            lines += Checks("SQLite", database, before).run(options.commit)
        if options.only != "sqlite":
            server = stack.enter_context(Postgres())
            database = PostgresDatabase(server, scratch / "postgresql", "nothing")
            lines += Checks("PostgreSQL", database, before).run(options.commit)
    wrong = sum(not line.is_expected for line in lines)
    print(f"\n{len(lines)} checks, {wrong} wrong.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
