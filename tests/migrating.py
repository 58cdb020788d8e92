"""Going back to earlier states of the database's schema, and to today's afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


def migrate(app: str, name: str) -> Any:
    """Migrate to one app's migration, forwards or back; return the models as they were then."""
    to = [(app, name)]
    MigrationExecutor(connection).migrate(to)
    return MigrationExecutor(connection).loader.project_state(to).apps


def migrate_to_latest(app: str | None = None) -> None:
    """Migrate one app, else every app, to its last migration: going back takes those along that build on it."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes(app))


@contextmanager
def latest_afterwards() -> Iterator[None]:
    """Leave today's schema to the tests that follow, whatever happens inside."""
    try:
        yield
    finally:
        migrate_to_latest()
