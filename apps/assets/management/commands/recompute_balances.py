"""Recomputes the stored balances of assets and reports those that differed."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import Lab
from apps.assets.services.recompute import differing


class Command(BaseCommand):
    help = (
        "Recompute the stored balance of each asset from its entries and charges, in all labs. "
        "Report the assets whose balance differed. A difference is a defect of LabCarbon."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="write nothing; fail if any differs"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        check: bool = options["check"]
        wrong = 0
        for lab in Lab.objects.order_by("pk"):
            different = differing(lab=lab, repair=not check)
            wrong += len(different)
            if different:
                listed = ", ".join(str(pk) for pk in different[:20]) + (
                    " …" if len(different) > 20 else ""
                )
                self.stdout.write(f"{lab.slug}: {len(different)} differed: assets {listed}")
        if check and wrong:
            raise CommandError(
                f"The books of {wrong} assets are not what their entries come to. Run it without "
                "--check."
            )
        self.stdout.write(
            "All balances match their entries and charges."
            if not wrong
            else f"{wrong} are corrected."
        )
