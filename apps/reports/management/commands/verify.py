"""Verifies an exported statement, without a server and its database."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.reports.verification import verify

_MAX_LISTED = 20


class Command(BaseCommand):
    help = (
        "Verify an exported statement (JSON or CSV): hashes, digests and sums. Needs no database."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the exported file")
        parser.add_argument(
            "--expect", default="", help="the hash of the figures, as printed on the statement"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
        result = verify(data, options["expect"].strip().lower())
        for problem in result.problems[:_MAX_LISTED]:
            self.stdout.write(problem.message)
        if result.problems:
            more = len(result.problems) - _MAX_LISTED
            raise CommandError(
                f"{path} is not valid." + (f" {more} more problems." if more > 0 else "")
            )
        self.stdout.write(
            f"{path}: {result.rows} rows, all valid. Hash of the figures: {result.figures_sha256}"
        )
