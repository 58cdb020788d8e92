"""Loads the shipped tables: hardware models with their embodied figures, and emission factors."""

from typing import Any

from apps.carbon.services import load_factors
from apps.catalog.services import load_catalogue
from apps.core.clock import now_us
from apps.core.management.base import MinimalCommand
from apps.fleet.selectors import unlisted_zones


class Command(MinimalCommand):
    help = (
        "Load the shipped hardware models, embodied figures and factors; a changed figure "
        "supersedes the old. Idempotent."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        now = now_us()
        self.stdout.write(
            f"{load_catalogue(now=now)} hardware models, {load_factors(now=now)} new factor "
            "editions"
        )
        for found in unlisted_zones():
            effect = (
                f"its energy counts for grid zone {found.grid_zone} now"
                if found.grid_zone
                else "its energy has no emissions until a grid zone is chosen"
            )
            self.stdout.write(
                f"Lab {found.site.lab.slug}, site {found.site.name}: {found.zone} is no grid zone; "
                f"{effect}"
            )
