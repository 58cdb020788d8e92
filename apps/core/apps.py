"""Prepares new database connections: exact integer arithmetic for SQLite, and a time limit for
statements of PostgreSQL.
"""

from typing import Any

from django.apps import AppConfig
from django.db import connection
from django.db.backends.signals import connection_created

from apps.core.units import emission_ug, facility_mj, prorated


def _null_propagating(function: Any) -> Any:
    """Return ``function`` with NULL as result if any argument is NULL, as for SQL functions."""
    return lambda *values: None if None in values else function(*values)


class _SquareSum:
    """The sum of squares as text, because it may exceed 64 bits. NULL for no rows."""

    def __init__(self) -> None:
        self.total: int | None = None

    def step(self, value: int | None) -> None:
        if value is not None:
            self.total = (self.total or 0) + value * value

    def finalize(self) -> str | None:
        return None if self.total is None else str(self.total)


def register_sqlite_functions(sender: Any, connection: Any, **kwargs: Any) -> None:
    """Register the integer functions on a new SQLite connection."""
    if connection.vendor != "sqlite":
        return
    raw = connection.connection
    raw.create_function("emission_ug", 3, _null_propagating(emission_ug), deterministic=True)
    raw.create_function("facility_mj", 2, _null_propagating(facility_mj), deterministic=True)
    raw.create_function("prorated", 5, _null_propagating(prorated), deterministic=True)
    raw.create_aggregate("square_sum", 1, _SquareSum)


def limit_statements(timeout_s: int) -> None:
    """Let PostgreSQL cancel statements of this process that run longer. Call it before the first
    connection.
    """
    if connection.vendor == "postgresql":
        options = connection.settings_dict["OPTIONS"]
        options["options"] = f"{options['options']} -c statement_timeout={timeout_s}s"


class CoreConfig(AppConfig):
    name = "apps.core"

    def ready(self) -> None:
        from apps.core.database import jobs  # noqa: F401

        connection_created.connect(register_sqlite_functions, dispatch_uid="labcarbon.teach_sqlite")
