"""Examine the quarantined windows of all labs again, by the present rules."""

from typing import Any

from django.core.management.base import BaseCommand

from apps.accounts.models import Lab
from apps.ingest.services.reexamine import reexamine


class Command(BaseCommand):
    help = (
        "Examine undecided quarantined windows again, for example after an upgrade changed a rule. "
        "Windows that are plausible now are counted. The others stay quarantined."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        for lab in Lab.objects.order_by("name", "pk"):
            examined, placed = reexamine(lab=lab)
            self.stdout.write(f"{lab.name}: {examined} examined, {placed} counted now")
