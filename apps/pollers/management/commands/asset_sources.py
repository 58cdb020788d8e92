"""Adds, lists, tests, polls and removes asset sources."""

import getpass
import os
import stat
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from apps.accounts.management.lab_option import selected_lab
from apps.accounts.models import Lab
from apps.core.clock import now_us, utc
from apps.core.errors import LabCarbonError
from apps.pollers.choices import Policy, System
from apps.pollers.clients import PollError
from apps.pollers.jobs import poll_job
from apps.pollers.models import AssetSource
from apps.pollers.selectors import source_of, sources_of
from apps.pollers.services.sources import (
    SourceInput,
    add_source,
    fetch_rows,
    remove_source,
    resume_polling,
)

MAX_TOKEN = 4000


def read_token_file(path: Path) -> str:
    """Return the token in a file that only its owner can read. Raises CommandError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                raise CommandError(f"Other users can read {path}. Run: chmod 600 {path}")
            return file.read(MAX_TOKEN + 2).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CommandError(f"{path} cannot be read: {reason}") from error


def read_token() -> str:
    """Return the token from the standard input; from a terminal without showing it."""
    if sys.stdin.isatty():
        return getpass.getpass("Token: ").strip()
    return sys.stdin.readline(MAX_TOKEN + 2).strip()


class Command(BaseCommand):
    help = (
        "Add, list, test, poll and remove asset sources: NetBox, Snipe-IT and GLPI servers "
        "(docs/asset-sources.md). Only addresses in LABCARBON_ASSET_SOURCES are permitted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--lab", help="short name of the lab; required if there are several labs"
        )
        actions = parser.add_subparsers(dest="action", required=True)
        add = actions.add_parser(
            "add",
            help="add a source; its token is read from the standard input or a file",
            allow_abbrev=False,  # --token is not --token-file
        )
        add.add_argument("--system", required=True, choices=System.values)
        add.add_argument("--name", required=True)
        add.add_argument("--address", required=True, help="such as https://netbox.example.org")
        add.add_argument("--policy", default=Policy.PROPOSE, choices=Policy.values)
        add.add_argument(
            "--bought-on", default="", help="purchase date of rows without one, such as 2026-11-01"
        )
        add.add_argument("--currency", default="", help="currency of the prices of Snipe-IT")
        add.add_argument("--token-file", type=Path, help="file with the token, with the mode 600")
        add.add_argument(
            "--app-token-file", type=Path, help="file with GLPI's application token, mode 600"
        )
        actions.add_parser("list", help="list the sources with the result of their last poll")
        for name, text in (
            ("test", "read the list of a source, and store nothing"),
            ("poll", "poll a source now; exit code 1 after a failure"),
            ("remove", "remove a source with its tokens and rows; registered assets stay"),
        ):
            actions.add_parser(name, help=text).add_argument(
                "source", metavar="SOURCE", help="number or name of the source"
            )

    def handle(self, *args: Any, **options: Any) -> None:
        lab = selected_lab(options["lab"])
        try:
            if options["action"] == "add":
                self._add(lab, options)
            elif options["action"] == "list":
                self._list(lab)
            else:
                source = self._source(lab, options["source"])
                {"test": self._test, "poll": self._poll, "remove": self._remove}[options["action"]](
                    source
                )
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error

    def _add(self, lab: Lab, options: dict[str, Any]) -> None:
        files = {name: options[f"{name}_file"] for name in ("token", "app_token")}
        token = read_token_file(files["token"]) if files["token"] else read_token()
        values = SourceInput(
            system=System(options["system"]),
            name=options["name"],
            address=options["address"],
            token=token or None,
            app_token=read_token_file(files["app_token"]) if files["app_token"] else None,
            policy=Policy(options["policy"]),
            currency=options["currency"],
            bought_on=options["bought_on"],
        )
        source = add_source(lab=lab, values=values, by=None, now=now_us())
        self.stdout.write(f"{source.pk} {source.name} was added. The worker polls it.")

    def _list(self, lab: Lab) -> None:
        sources = sources_of(lab)
        if not sources:
            self.stdout.write(f"{lab.name} has no asset sources.")
        for source in sources:
            self.stdout.write(
                f"{source.pk} {source.name}: {source.get_system_display()} {source.address}, "
                f"{source.policy}, {self._state(source)}"
            )

    @staticmethod
    def _state(source: AssetSource) -> str:
        if not source.enabled:
            return "disabled"
        if source.problem:
            return f"problem: {source.problem}"
        if source.succeeded_us is None:
            return "not polled yet"
        return f"polled {utc(source.succeeded_us):%Y-%m-%d %H:%M} UTC"

    def _test(self, source: AssetSource) -> None:
        try:
            rows = fetch_rows(source)
        except PollError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{source.name} returns {len(rows)} rows. Nothing was stored.")

    def _poll(self, source: AssetSource) -> None:
        if not source.enabled:
            raise CommandError(
                f"{source.name} is disabled. Enable it at "
                f"{reverse('asset-source', args=[source.pk])}."
            )
        resume_polling(source=source)
        poll_job(str(source.pk))
        source.refresh_from_db()
        if source.problem:
            raise CommandError(source.problem)
        present = source.rows.filter(vanished_us=None).count()
        counts = source.pending_import.summary["counts"] if source.pending_import else {}
        self.stdout.write(f"{source.name}: {present} rows, {counts.get('new', 0)} proposed")

    def _remove(self, source: AssetSource) -> None:
        remove_source(source=source, by=None, now=now_us())
        self.stdout.write(f"{source.name} was removed. Registered assets stay.")

    def _source(self, lab: Lab, text: str) -> AssetSource:
        if text.isascii() and text.isdigit() and len(text) < 19:
            source = source_of(lab, int(text))
            if source is not None:
                return source
        sources = list(sources_of(lab).filter(name=text)[:2])
        if len(sources) == 1:
            return sources[0]
        known = ", ".join(f"{each.pk} {each.name}" for each in sources_of(lab))
        if not known:
            raise CommandError(f"{lab.name} has no asset sources.")
        reason = "Several sources have" if sources else "No source has"
        raise CommandError(f"{reason} the name {text!r}. Use a number: {known}.")
