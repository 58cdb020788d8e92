"""``manage.py sizes``: bytes, rows and growth per table, and when the disk is full."""

import json
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from apps.core.clock import now_us, utc
from apps.core.database.table_sizes import DatabaseSize, as_dict, database_size
from apps.core.management.base import MinimalCommand

_MAX_DAYS = 100 * 365
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class Command(MinimalCommand):
    help = (
        "Print the bytes, rows and yearly growth of each table with its indexes, and when the disk "
        "is full. Counts every row."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print exact integers as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        now = now_us()
        size = database_size(now)
        if options["json"]:
            self.stdout.write(json.dumps(as_dict(size), indent=2))
            return
        width = max(len(table.name) for table in size.tables)
        self.stdout.write(
            f"{'table':{width}} {'rows':>12} {'total':>9} {'indexes':>9} {'per year':>9}"
        )
        for table in size.tables:
            self.stdout.write(
                f"{table.name:{width}} {table.rows:>12} {_text(table.total_bytes):>9} "
                f"{_text(table.index_bytes):>9} {_text(table.yearly_bytes):>9}"
            )
        for line in _summary(size, now):
            self.stdout.write(line)


def _summary(size: DatabaseSize, now: int) -> list[str]:
    lines = [
        (
            f"Database: {_text(size.total_bytes)}. Growth per year: {_text(size.yearly_bytes)}, "
            f"from the rows of the last {size.observed_days:.1f} days."
        ),
        (
            "? is unknown: no column of the table says when a row was written. The growth of these "
            "tables is not included."
        ),
    ]
    if not size.is_measured:
        lines.append(
            "Sizes are estimated from the lengths of values: this SQLite has no dbstat. Sizes of "
            "indexes are unknown; the estimates of the tables include them."
        )
    if size.free_bytes is None:
        lines.append(
            "Free space: unknown. The database is on another machine, or its folder cannot be "
            "read. Run df there."
        )
    elif size.full_in_days is None or size.full_in_days > _MAX_DAYS:
        lines.append(f"Free: {_text(size.free_bytes)}, enough for more than 100 years.")
    else:
        day = (utc(now) + timedelta(days=size.full_in_days)).date().isoformat()
        lines.append(
            f"Free: {_text(size.free_bytes)}. At this growth the disk is full in "
            f"{size.full_in_days} days ({day}). Other files on the disk are not included."
        )
    return lines


def _text(value: int | None) -> str:
    if value is None:
        return "?"
    number = float(value)
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            break
        number /= 1000
    return f"{number:.3g} {unit}" if number < 1000 else f"{number:.0f} {unit}"
