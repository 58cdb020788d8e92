"""``manage.py seal_windows``: move old windows to the archive now."""

from datetime import UTC, date, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from apps.core.clock import now_us
from apps.core.management.base import MinimalCommand
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Node
from apps.ingest.archive_files import ArchiveProblem
from apps.ingest.services.seal import HOURS_PER_DAY, Progress, cutoff_hour, seal_windows


class Command(MinimalCommand):
    help = (
        "Move windows of settled hours to the archive in the data directory. Figures do not "
        "change. Without options: windows older than LABCARBON_KEEP_WINDOWS_DAYS, as the daily job "
        "does. LabCarbon may run meanwhile. An interrupted command is continued by the next one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--before",
            type=date.fromisoformat,
            metavar="DATE",
            help="seal the hours before this UTC day, as 2025-10-21",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="count the windows, and change nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        before, now = options["before"], now_us()
        before_hour = cutoff_hour(now)
        if before is not None:
            before_hour = int(
                datetime(before.year, before.month, before.day, tzinfo=UTC).timestamp()
            )
            before_hour //= 3_600
            if before_hour * US_PER_HOUR > now:
                raise CommandError("The date is in the future.")
        is_dry_run = options["dry_run"]

        def report(node: Node, day: int, progress: Progress) -> None:
            at = _day(day * HOURS_PER_DAY)
            self.stdout.write(f"{node.hostname} {at}: {progress.windows} windows so far")

        self.stdout.write(f"Windows before {_day(before_hour)}, archive {settings.ARCHIVE_DIR}")
        try:
            progress = seal_windows(before_hour=before_hour, is_dry_run=is_dry_run, report=report)
        except ArchiveProblem as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self.stdout.write(
            f"{'Can be sealed' if is_dry_run else 'Sealed'}: {progress.windows} windows in "
            f"{progress.hours} device-hours"
            + ("" if is_dry_run else f", {progress.bytes} bytes in the archive")
        )
        if progress.waiting_hours:
            self.stdout.write(
                f"Not sealed: {progress.waiting_hours} hours of nodes with an unsettled ledger "
                "or a quarantined window that nobody decided about."
            )


def _day(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3_600, tz=UTC).date().isoformat()
