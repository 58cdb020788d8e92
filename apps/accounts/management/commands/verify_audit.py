"""Verifies the audit log and prints the first invalid entry."""

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.audit import verify
from apps.accounts.models import Lab


class Command(BaseCommand):
    help = "Verify that no entry of the audit log was edited, moved or removed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--lab", default="", help="short name of one lab (default: all labs)")
        parser.add_argument(
            "--expect", default="", help="NUMBER:DIGEST saved outside the server (with --lab)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        labs = Lab.objects.order_by("slug")
        if options["lab"]:
            labs = labs.filter(slug=options["lab"])
            if not labs:
                slugs = ", ".join(Lab.objects.order_by("slug").values_list("slug", flat=True))
                raise CommandError(f"No lab {options['lab']!r}. Labs: {slugs or 'none'}.")
        expected = self._expected(options["expect"], options["lab"])
        invalid = 0
        for lab in labs:
            finding = verify(lab, expected)
            if finding is not None:
                invalid += 1
                self.stdout.write(f"{lab.slug}: entry {finding.sequence} {finding.reason}.")
            else:
                lab.refresh_from_db()
                self.stdout.write(
                    f"{lab.slug}: {lab.audit_sequence} entries, all valid. "
                    f"{lab.audit_sequence}:{lab.audit_digest}"
                )
        if invalid:
            raise CommandError(
                "The audit log is not valid. The entries above are the first invalid ones."
            )

    def _expected(self, text: str, lab: str) -> tuple[int, str] | None:
        if not text:
            return None
        if not lab:
            raise CommandError("--expect requires --lab: each lab has its own chain.")
        match = re.fullmatch(r"([1-9]\d{0,17}):([0-9a-f]{64})", text.strip())
        if match is None:
            raise CommandError("--expect must be NUMBER:DIGEST, as printed by `verify_audit`.")
        return int(match[1]), match[2]
