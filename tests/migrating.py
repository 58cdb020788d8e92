"""An installation of its own for tests of migrations: it begins with nothing and goes only as far as a test asks."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

Migrate = Callable[[str, str], Any]


def _migrate(app: str, name: str) -> Any:
    """Migrate to one app's migration and what it needs, forwards or back; return the models as they were then."""
    to = [(app, name)]
    _executor().migrate(to)
    return _executor().loader.project_state(to).apps


def _executor() -> MigrationExecutor:
    """Return what goes step by step, not from the squashed migrations of new installations."""
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    return executor


@contextmanager
def an_installation() -> Iterator[Migrate]:
    """Have an empty database in the place of the test's own, and lend what migrates it."""
    ours = connections["default"]
    name = f"labcarbon_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        other = ours.copy()
        if ours.vendor == "sqlite":
            other.settings_dict["NAME"] = f"file:{name}?mode=memory&cache=shared"
        else:
            other.settings_dict["NAME"] = name
            stack.enter_context(_database(ours, name))
        stack.callback(connections.__setitem__, "default", ours)
        stack.enter_context(closing(other))
        connections["default"] = other
        yield _migrate


@contextmanager
def _database(server: Any, name: str) -> Iterator[None]:
    """Make a database beside the test's own, for as long as it is asked for."""
    with server._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    try:
        yield
    finally:
        with server._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name}")
