"""Import declared use from a CSV file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.management.lab_option import selected_lab
from apps.activity.declared_rows import COLUMNS
from apps.activity.services import RowErrors, import_declared, read_rows
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.core.units import ENERGY, plain_amount


class Command(BaseCommand):
    help = (
        "Import declared use (cloud, another cluster, a paper) from FILE.csv. Columns: "
        f"{', '.join(COLUMNS)}. Enter energy as kwh, or as device_hours and watts. "
        "Enter the grid as zone, or as g_per_kwh. An empty pue means 1. "
        "kwh_low and kwh_high, g_per_kwh_low and g_per_kwh_high state a range (P5 and P95). "
        "Default: kwh ±10 %%, device_hours × watts ±40 %%, g_per_kwh ±20 %%. "
        "Equal rows are several jobs. An id identifies a job if rows are added or removed. "
        "If one row has an error, nothing is imported. A second import of the same file changes "
        "nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE.csv")
        parser.add_argument(
            "--lab", help="short name of the lab, required if the server has several"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="show what would be imported, without importing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = read_rows(file)
            total = sum(row.energy_mj for row in rows)
            summary = f"{len(rows)} rows, {plain_amount(total, ENERGY)}"
            counts = import_declared(
                lab=selected_lab(options["lab"]),
                rows=rows,
                origin=path.name,
                now=now_us(),
                dry_run=options["dry_run"],
            )
        except OSError as error:
            raise CommandError(f"Cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise CommandError(
                f"{path} is not UTF-8 text. Save it as CSV in UTF-8 and try again."
            ) from error
        except RowErrors as error:
            lines = [f"{row.message} {row.hint}" for row in error.errors]
            raise CommandError("\n".join([*lines, f"{error.message} {error.hint}"])) from error
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        results = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
        would = "would be " if options["dry_run"] else ""
        self.stdout.write(f"{summary}: {would}{results}")
