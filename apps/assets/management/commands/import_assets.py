"""Brings assets in from a CSV file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.management.lab_option import selected_lab
from apps.assets.choices import ImportState
from apps.assets.models import RegisterImport
from apps.assets.services import csv_import
from apps.assets.spreadsheets.headings import FIELDS
from apps.assets.spreadsheets.rows import Options
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.core.spreadsheets.columns import plain
from apps.core.spreadsheets.notation import DATE_ORDERS, DECIMAL_SIGNS
from apps.core.spreadsheets.sources import MAX_BYTES


def _parse_columns(texts: list[str]) -> dict[str, str] | None:
    """Return the field of each column by its key, None if none is stated."""
    pairs = [text.rpartition("=") for text in texts]
    return {plain(heading): field for heading, _, field in pairs} or None


def _questions(questions: dict[str, Any]) -> str:
    """Return what has to be stated before a file is read."""
    parts = []
    if questions["needs_columns"]:
        columns = [
            f"  {each['heading']}: {each['field'] or 'ignored'}" for each in questions["columns"]
        ]
        parts.append(
            "Confirm the fields of the columns with --column HEADING=FIELD. Guess:\n"
            + "\n".join(columns)
            + f"\nFields: {', '.join(FIELDS)}."
        )
    if questions["date_example"]:
        parts.append(f"{questions['date_example']} can be read two ways: add --date-order.")
    if questions["number_example"]:
        parts.append(f"{questions['number_example']} can be read two ways: add --decimal.")
    if questions["price_example"] and not questions["currency"]:
        parts.append(f"The currency of {questions['price_example']} is missing: add --currency.")
    return "\n".join(parts)


class Command(BaseCommand):
    help = (
        "Import assets from a spreadsheet (CSV or XLSX): LabCarbon columns (docs/assets.md), an "
        "export of NetBox, Snipe-IT, GLPI or OCS Inventory, or own columns. Either all new lines "
        "are registered or none. Lines whose tag or serial number is registered already are "
        "skipped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--lab", help="short name of the lab; required if there are several labs"
        )
        parser.add_argument(
            "--currency", default="", help="currency of prices without one in the file, such as EUR"
        )
        parser.add_argument(
            "--bought-on", default="", help="purchase date of rows without one, such as 2026-11-01"
        )
        parser.add_argument(
            "--column",
            action="append",
            default=[],
            metavar="HEADING=FIELD",
            help="field of a column of an own format; repeat it for each column that is read",
        )
        parser.add_argument(
            "--date-order",
            default="",
            choices=["", *DATE_ORDERS],
            help="order of dates that can be read two ways: dmy or mdy",
        )
        parser.add_argument(
            "--decimal",
            default="",
            choices=["", *DECIMAL_SIGNS],
            help="decimal sign of numbers that can be read two ways",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print a preview and register nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        lab = selected_lab(options["lab"])
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            options_ = Options(
                currency=options["currency"],
                bought_on=options["bought_on"],
                columns=_parse_columns(options["column"]),
                date_order=options["date_order"],
                decimal=options["decimal"],
            )
            row = csv_import.upload(
                lab=lab,
                file_name=path.name,
                content=content,
                options=options_,
                by=None,
                now=now_us(),
            )
            if row.state == ImportState.READING:  # a long file: here nobody waits for a worker
                csv_import.read(row=row, now=now_us())
            self._print_result(row)
            if options["dry_run"]:
                row.delete()
                return
            number = csv_import.write(row=row, by=None, now=now_us())
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from error
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self.stdout.write(f"{number} registered. Their embodied carbon is charged by the worker.")

    def _print_result(self, row: RegisterImport) -> None:
        summary = row.summary
        if row.state == ImportState.MAPPING:
            row.delete()
            raise CommandError(_questions(summary["questions"]))
        if row.state == ImportState.REFUSED:
            raise CommandError(f"{summary['error']} {summary['hint']}")
        if summary["wrong"]:
            lines = [
                f"line {each['line']}: {each['message']} {each['hint']}"
                for each in summary["wrong"]
            ]
            number = summary["counts"]["wrong"]
            row.delete()
            raise CommandError(
                "\n".join([*lines, f"{number} lines cannot be registered; nothing was."])
            )
        self.stdout.write(
            f"Read as {summary['origin']}. " + self._counted(summary["counts"], "lines")
        )
        if summary["ignored"]:
            self.stdout.write(f"Columns that are not read: {', '.join(summary['ignored'])}.")
        if summary["by"]:
            self.stdout.write(self._counted(summary["by"], "embodied carbon by"))
        if summary["total_ug"]:
            percent = summary["default_ug"] * 100 // summary["total_ug"]
            self.stdout.write(f"{percent} % of the total rests on averages of categories.")
        if summary["unmarked"]:
            self.stdout.write(
                f"{summary['unmarked']} have neither tag nor serial: a second import would "
                "register them again."
            )

    @staticmethod
    def _counted(counts: dict[str, int], what: str) -> str:
        return f"{what}: " + ", ".join(
            f"{number} {name.replace('_', ' ')}" for name, number in sorted(counts.items())
        )
