"""Closes a period, or restates it, and exports its statement."""

from datetime import date
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.management.lab_option import selected_lab
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.reports.checklist import checklist
from apps.reports.export_files import render_csv, render_json
from apps.reports.figures import current_rows
from apps.reports.selectors import export_rows
from apps.reports.services import close_period, period_hours, restate_period

_RENDERERS = {".json": render_json, ".csv": render_csv}


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"{text!r} is not a day. Write it like 2026-10-31.") from error


class Command(BaseCommand):
    help = (
        "Close a period: freeze its figures with the editions of their factors. Without --confirm "
        "the checklist is printed, and nothing is stored. A closed period stays as it is; "
        "--restate stores its current figures as the next revision."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("first_day", help="first day, in the time zone of the lab")
        parser.add_argument("last_day", help="last day, included")
        parser.add_argument("--lab", help="short name of the lab; required if there are several")
        parser.add_argument("--confirm", action="store_true", help="close the period")
        parser.add_argument("--restate", metavar="REASON", default="", help="restate the period")
        parser.add_argument(
            "--file", type=Path, metavar="FILE", help="export the statement: FILE.json or FILE.csv"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path | None = options["file"]
        if path is not None and path.suffix not in _RENDERERS:
            raise CommandError(f"{path} is neither FILE.json nor FILE.csv.")
        days = _day(options["first_day"]), _day(options["last_day"])
        try:
            self._close(days, options, path)
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error

    def _close(self, days: tuple[date, date], options: dict[str, Any], path: Path | None) -> None:
        lab, now = selected_lab(options["lab"]), now_us()
        if not options["confirm"] and not options["restate"]:
            from_hour, to_hour = period_hours(lab, *days)
            rows = current_rows(lab, from_hour, to_hour, now)
            for check in checklist(lab, from_hour, to_hour, rows, now):
                state = "done" if check.is_done else "blocks" if check.blocks else "open"
                text = ": ".join(filter(None, (check.label, check.open_part)))
                self.stdout.write(f"{state:<7}{text}")
            self.stdout.write("Nothing was stored. Close the period with --confirm.")
            return
        closed = close_period(lab=lab, first_day=days[0], last_day=days[1], by=None, now=now)
        if options["restate"] and not closed.is_new:
            closed = restate_period(
                statement=closed.statement, reason=options["restate"], by=None, now=now
            )
        statement = closed.statement
        state = "stored" if closed.is_new else "no change since"
        self.stdout.write(
            f"{days[0]} to {days[1]}: {state} revision {statement.revision}. "
            f"Hash of the figures: {statement.sha256}"
        )
        if path is not None:
            text = _RENDERERS[path.suffix](export_rows(statement))
            try:
                path.write_bytes(text.encode())
            except OSError as error:
                raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
            self.stdout.write(f"{path} was written. Verify it: manage.py verify {path}")
