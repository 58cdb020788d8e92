"""Loads the shipped tables: specifications and emission factors."""

from typing import Any

from django.core.management.base import BaseCommand

from apps.carbon.services import load_factors
from apps.catalog.services import load_catalogue
from apps.core.clock import now_us


class Command(BaseCommand):
    help = "Load the shipped specifications and emission factors; a changed factor becomes a new edition. Idempotent."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{load_catalogue()} specifications, {load_factors(now=now_us())} new factor editions")
