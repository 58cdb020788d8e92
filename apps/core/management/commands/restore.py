"""``manage.py restore FILE``: a backup into an empty installation."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, connections

from apps.core.archive_copies import ATTACHMENTS, copy_archive, missing_files
from apps.core.backup import BackupError, restore_database
from apps.core.clock import now_us
from apps.core.database.new_database import record_database
from apps.core.database.table_checks import forget_checks
from apps.core.erasure.list_file import (
    FILE,
    apply_missing,
    is_current,
    list_path,
    merge_lists,
    read_list,
)
from apps.core.erasure.names import MissingPepper


class Command(BaseCommand):
    help = (
        "Restore a backup into a new data directory (SQLite) or an empty database (PostgreSQL). "
        "Nothing is overwritten. Run `manage.py migrate` afterwards if this version is newer."
    )
    requires_system_checks: list[str] = []  # the keys may be set up afterwards

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file that `manage.py backup` wrote")
        parser.add_argument(
            "--erasures",
            type=Path,
            metavar="FILE",
            help="also apply this list of erasures (erasures.jsonl of the old data directory)",
        )
        parser.add_argument(
            "--archive",
            type=Path,
            metavar="FOLDER",
            help="also copy the archive that `manage.py backup --archive FOLDER` wrote",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["archive"] is not None and not options["archive"].is_dir():
                raise BackupError(f"{options['archive']} is not a folder.")
            counts = restore_database(options["file"].absolute())
            forget_checks()
            record_database(connections[DEFAULT_DB_ALIAS])
        except BackupError as error:
            raise CommandError(str(error)) from error
        self._apply_erasures(options["archive"], options["erasures"])
        if options["archive"] is not None:
            self._restore_archive(options["archive"].absolute())
        else:
            for problem in filter(None, [_missing_windows(), _missing_attachments()]):
                self.stdout.write(problem)
        self.stdout.write(
            f"Restored and verified: {sum(counts.values())} rows in {len(counts)} tables. "
            "Set LABCARBON_SECRET_KEY and LABCARBON_TOKEN_PEPPERS to the keys of that time."
        )

    def _apply_erasures(self, archive: Path | None, more: Path | None) -> None:
        """Erase the persons again who were erased after the backup was made."""
        paths = [list_path(), *([archive / FILE] if archive else []), *([more] if more else [])]
        try:
            if more is not None and not more.is_file():
                raise BackupError(f"{more} does not exist.")
            known = {(row.lab_id, row.digest) for path in paths for row in read_list(path)}
            if is_current():
                apply_missing(paths, now_us())
            elif known:
                merge_lists(paths)
        except (BackupError, MissingPepper) as error:
            raise CommandError(
                f"The database is restored, but erasures were not applied. {error} Then run "
                "`manage.py migrate`, before the server starts."
            ) from error
        self.stdout.write(
            f"List of erasures: {len(known)} names; persons erased after the backup are erased "
            "again."
            if known
            else "No list of erasures. If persons were erased after the backup, copy "
            f"erasures.jsonl of that installation to {list_path()}, and run `manage.py migrate`."
        )

    def _restore_archive(self, folder: Path) -> None:
        try:
            copied, _ = copy_archive(folder, settings.ARCHIVE_DIR)
            documents, _ = copy_archive(
                folder / ATTACHMENTS.folder, settings.ATTACHMENTS_DIR, ATTACHMENTS
            )
        except BackupError as error:
            raise CommandError(f"The database is restored. {error}") from error
        if problems := [text for text in (_missing_windows(), _missing_attachments()) if text]:
            raise CommandError(f"The database is restored. {' '.join(problems)}")
        self.stdout.write(f"Archive: {copied} files, in {settings.ARCHIVE_DIR}.")
        if documents:
            self.stdout.write(f"Attachments: {documents} files, in {settings.ATTACHMENTS_DIR}.")


def _missing_windows() -> str:
    """Return a sentence about the archived windows that this machine does not have, '' for none."""
    missing, total = missing_files(settings.ARCHIVE_DIR)
    if not missing:
        return ""
    return (
        f"{len(missing)} of {total} files of archived windows are missing: {missing[0]}"
        f"{' …' if missing[1:] else ''}. Pages cannot show these windows until you copy the files "
        f"from a backup of the archive to {settings.ARCHIVE_DIR}."
    )


def _missing_attachments() -> str:
    """Return a sentence about the attachments that this machine does not have, '' for none."""
    missing, total = missing_files(settings.ATTACHMENTS_DIR, ATTACHMENTS)
    if not missing:
        return ""
    return (
        f"{len(missing)} of {total} files of attachments are missing: {missing[0]}"
        f"{' …' if missing[1:] else ''}. They cannot be downloaded until you copy the files from a "
        f"backup to {settings.ATTACHMENTS_DIR}."
    )
