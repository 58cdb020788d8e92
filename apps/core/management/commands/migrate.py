"""Django's ``migrate``; it refuses a database from before ``0001_v1`` that is not at its last
migration, and one that is damaged, missing or empty although it existed.
"""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations import Migration

from apps.core.backup import BackupError
from apps.core.clock import now_us
from apps.core.database.new_database import prepare_database, record_database
from apps.core.erasure.list_file import apply_missing, list_path
from apps.core.erasure.names import MissingPepper
from apps.core.migration_history import (
    FIRST,
    explain_refusal,
    read_histories,
    record_first,
    record_replaced,
)


class Command(migrate.Command):
    database: str

    def handle(self, *args: Any, **options: Any) -> None:
        """Check what is recorded before Django reads or changes anything."""
        self.database = options["database"]
        connection = connections[self.database]
        changes = not (options["plan"] or options["check_unapplied"])
        if changes:
            prepare_database(connection)
        histories = read_histories(connection)
        if refusal := explain_refusal(histories):
            raise CommandError(refusal)
        record_replaced(connection, histories)
        super().handle(*args, **options)
        if changes:
            record_database(connection)
            self._apply_erasures(options)

    def _apply_erasures(self, options: dict[str, Any]) -> None:
        """Erase again what a database of before contains, once all tables are current."""
        if options["app_label"] or self.database != DEFAULT_DB_ALIAS:
            return
        try:
            erased = apply_missing([list_path()], now_us())
        except (BackupError, MissingPepper) as error:
            raise CommandError(str(error)) from error
        if erased:
            self.stdout.write(f"Erased again: {erased} names of the list of erasures.")

    def migration_progress_callback(
        self, action: str, migration: Migration | None = None, fake: bool = False
    ) -> None:
        """Record each ``0001_v1`` as soon as it is applied, so that an interrupted first
        migration can continue.
        """
        super().migration_progress_callback(action, migration, fake)
        if action == "apply_success" and migration is not None and migration.name == FIRST:
            record_first(connections[self.database], migration.app_label)
