"""``manage.py backup FILE``: a verified copy of the database, made while LabCarbon runs."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from apps.core.archive_copies import (
    ATTACHMENTS,
    archive_size,
    copy_archive,
    erase_deleted_copies,
)
from apps.core.backup import BackupError, back_up_database, sha256_of, write_private_file
from apps.core.erasure.list_file import FILE, list_path, write_list
from apps.core.management.base import MinimalCommand


class Command(MinimalCommand):
    help = (
        "Write a copy of the database to a new file that only its owner can read. LabCarbon may "
        "run meanwhile. The copy is read back before the command succeeds. Keys are never in it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the new file")
        parser.add_argument(
            "--keys", type=Path, metavar="FILE", help="also write the keys, to another new file"
        )
        parser.add_argument(
            "--archive",
            type=Path,
            metavar="FOLDER",
            help=(
                "also copy archived windows and attachments that this folder does not contain yet"
            ),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        target, keys_path = options["file"].absolute(), options["keys"]
        archive_copy: Path | None = options["archive"]
        try:
            if keys_path is not None and keys_path.absolute() == target:
                raise BackupError("The keys must be in another file than the database.")
            if keys_path is not None and os.path.lexists(keys_path):
                raise BackupError(f"{keys_path} exists. Choose another name, or move it away.")
            counts = back_up_database(target)
            self.stdout.write(
                f"{target}: {sum(counts.values())} rows in {len(counts)} tables, "
                f"{target.stat().st_size} bytes, read back. SHA-256 {sha256_of(target)}"
            )
            if keys_path is not None:
                write_private_file(keys_path, _keys().encode("ascii"))
                self.stdout.write(f"Keys: {keys_path}. Store this file apart from the database.")
            else:
                self.stdout.write(
                    "The keys are not in this file. A restore needs LABCARBON_SECRET_KEY and "
                    "LABCARBON_TOKEN_PEPPERS: store them apart from it (--keys FILE writes them)."
                )
            # After the database: files of the archive are added, and never removed.
            if archive_copy is not None:
                copied, total = copy_archive(settings.ARCHIVE_DIR, archive_copy.absolute())
                self.stdout.write(f"Archive: {copied} new of {total} files, in {archive_copy}.")
                self._copy_attachments(archive_copy.absolute() / ATTACHMENTS.folder)
                write_list(archive_copy.absolute() / FILE)
            write_list(list_path())
        except BackupError as error:
            raise CommandError(str(error)) from error
        files, size = archive_size(settings.ARCHIVE_DIR)
        if archive_copy is None and files:
            self.stdout.write(
                f"Archived windows are not in this file: {files} files, {size} bytes in "
                f"{settings.ARCHIVE_DIR}. Add --archive FOLDER, or copy this folder."
            )
        files, size = archive_size(settings.ATTACHMENTS_DIR, ATTACHMENTS)
        if archive_copy is None and files:
            self.stdout.write(
                f"Attachments are not in this file: {files} files, {size} bytes in "
                f"{settings.ATTACHMENTS_DIR}. Add --archive FOLDER, or copy this folder."
            )

    def _copy_attachments(self, target: Path) -> None:
        copied, total = copy_archive(settings.ATTACHMENTS_DIR, target, ATTACHMENTS)
        erased = erase_deleted_copies(target)
        if total or erased:
            self.stdout.write(
                f"Attachments: {copied} new of {total} files, {erased} deleted ones erased, in "
                f"{target}."
            )


def _keys() -> str:
    peppers = ",".join(
        f"{number}:{value.hex()}" for number, value in sorted(settings.TOKEN_PEPPERS.items())
    )
    return (
        f"LABCARBON_SECRET_KEY={settings.ENVIRONMENT.secret_key}\n"
        f"LABCARBON_TOKEN_PEPPERS={peppers}\n"
    )
