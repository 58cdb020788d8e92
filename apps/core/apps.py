"""Teaches SQLite the exact integer arithmetic that PostgreSQL has in `div()`."""

from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from apps.core.units import emission_ug, facility_mj, prorated


def _strict(function: Any) -> Any:
    """Return ``function`` answering NULL when any argument is NULL, as SQL functions do."""
    return lambda *values: None if None in values else function(*values)


def teach_sqlite(sender: Any, connection: Any, **kwargs: Any) -> None:
    """Register the integer functions on a new SQLite connection."""
    if connection.vendor != "sqlite":
        return
    raw = connection.connection
    raw.create_function("emission_ug", 3, _strict(emission_ug), deterministic=True)
    raw.create_function("facility_mj", 2, _strict(facility_mj), deterministic=True)
    raw.create_function("prorated", 5, _strict(prorated), deterministic=True)


class CoreConfig(AppConfig):
    name = "apps.core"

    def ready(self) -> None:
        connection_created.connect(teach_sqlite, dispatch_uid="labcarbon.teach_sqlite")
