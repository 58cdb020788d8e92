"""Proves the audit log: names the first row that does not fit."""

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.audit import verify
from apps.accounts.models import Lab


class Command(BaseCommand):
    help = "Check that no row of the audit log was edited, removed, put elsewhere or cut off."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--lab", default="", help="short name of one lab; left out: all labs")
        parser.add_argument("--expect", default="", help="NUMBER:DIGEST noted earlier and elsewhere (with --lab)")

    def handle(self, *args: Any, **options: Any) -> None:
        labs = Lab.objects.order_by("slug")
        if options["lab"]:
            labs = labs.filter(slug=options["lab"])
            if not labs:
                known = ", ".join(Lab.objects.order_by("slug").values_list("slug", flat=True))
                raise CommandError(f"There is no lab {options['lab']!r}. Known: {known or 'none yet'}.")
        expected = self._expected(options["expect"], options["lab"])
        wrong = 0
        for lab in labs:
            finding = verify(lab, expected)
            if finding is not None:
                wrong += 1
                self.stdout.write(f"{lab.slug}: row {finding.sequence} {finding.what}.")
            else:
                lab.refresh_from_db()
                self.stdout.write(f"{lab.slug}: {lab.audit_sequence} rows, all fit. {lab.audit_sequence}:{lab.audit_digest}")
        if wrong:
            raise CommandError("The audit log does not fit; the rows named above are the first that do not.")

    def _expected(self, text: str, lab: str) -> tuple[int, str] | None:
        if not text:
            return None
        if not lab:
            raise CommandError("--expect needs --lab: each lab has a chain of its own.")
        match = re.fullmatch(r"([1-9]\d{0,17}):([0-9a-f]{64})", text.strip())
        if match is None:
            raise CommandError("--expect is NUMBER:DIGEST, as `verify_audit` prints it.")
        return int(match[1]), match[2]
