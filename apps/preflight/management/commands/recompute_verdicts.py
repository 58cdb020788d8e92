"""Shows how the present rule changes duplicate findings, and applies it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.accounts.models import Lab
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.recompute import preview, request_recompute

_STEP = 1000


class Command(BaseCommand):
    help = (
        "Show how many open duplicate findings the present rule changes, and in which direction. "
        "With --apply, workers recompute the keys of all runs and the open findings. Decided "
        "findings do not change."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--apply", action="store_true", help="recompute in the background")

    def handle(self, *args: Any, **options: Any) -> None:
        for lab in Lab.objects.order_by("slug"):
            self._examine(lab)
            if options["apply"]:
                request_recompute(lab=lab)
        if options["apply"]:
            self.stdout.write("The workers recompute keys and open findings now.")
        else:
            self.stdout.write("Nothing was changed. Apply it with --apply.")

    def _examine(self, lab: Lab) -> None:
        total = DuplicateFinding.objects.filter(lab=lab, state="open").count()
        done = 0

        def count() -> None:
            nonlocal done
            done += 1
            if done % _STEP == 0:
                self.stderr.write(f"{lab.slug}: {done} of {total} findings examined")

        changes, decided = preview(lab=lab, on_finding=count)
        self.stdout.write(f"{lab.slug}: {total} open findings, {decided} decided ones stay")
        for (before, after), number in sorted(changes.items()):
            text = "stay" if before == after else f"→ {after}"
            self.stdout.write(f"  {number} {before} {text}")
