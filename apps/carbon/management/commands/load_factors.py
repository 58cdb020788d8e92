"""Loads files of annual emission factors, or prints what loading them would change."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.carbon.factor_files import BadRows, Difference, FileFactor, LoadedFactor
from apps.carbon.factors import difference_to_loaded
from apps.carbon.services import read_factors, shipped_files, write_difference
from apps.core.clock import now_us
from apps.core.management.base import MinimalCommand
from apps.core.units import UG_PER_G


class Command(MinimalCommand):
    help = (
        "Load annual emission factors from CSV files (default: the shipped ones) and print the "
        "difference. A changed factor becomes a new edition. A factor that is not in the files "
        "stays. If one row has an error, nothing is loaded. Idempotent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
        parser.add_argument(
            "--dry-run", action="store_true", help="print the difference, without loading"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            table = read_factors(options["files"] or shipped_files())
        except BadRows as error:
            rows = [str(row) for row in error.rows]
            raise CommandError("\n".join([*rows, f"{error.message} {error.hint}"])) from error
        difference = difference_to_loaded(table)
        for line in _lines(difference):
            self.stdout.write(line)
        would = "would be " if options["dry_run"] else ""
        self.stdout.write(
            f"{len(difference.new)} {would}new, {len(difference.changed)} {would}changed, "
            f"{difference.unchanged} unchanged, {len(difference.missing)} not in the files and "
            f"kept, {table.without_figure} rows without a figure"
        )
        if not options["dry_run"]:
            write_difference(difference, now=now_us())


def _lines(difference: Difference) -> list[str]:
    """Return a line for each factor that is new, changed or kept."""
    return [
        *(f"new: {_name(each)}: {_grams(each.ug_per_kwh)} g/kWh" for each in difference.new),
        *(f"changed: {_change(old, new)}" for old, new in difference.changed),
        *(
            f"kept: {_name(old.factor)}, edition {old.edition}: "
            f"{_grams(old.factor.ug_per_kwh)} g/kWh"
            for old in difference.missing
        ),
    ]


def _change(old: LoadedFactor, new: FileFactor) -> str:
    """Return old and new value, the other changed fields, and the edition."""
    before = old.factor
    if before.ug_per_kwh != new.ug_per_kwh:
        value = f"{_grams(before.ug_per_kwh)} → {_grams(new.ug_per_kwh)} g/kWh"
    else:
        value = f"{_grams(new.ug_per_kwh)} g/kWh"
    others = {
        "low": (before.low_ug_per_kwh, new.low_ug_per_kwh),
        "high": (before.high_ug_per_kwh, new.high_ug_per_kwh),
        "name": (before.zone_name, new.zone_name),
        "source": (before.source, new.source),
        "licence": (before.licence, new.licence),
    }
    parts = [
        value,
        *(f"new {name}" for name, (was, becomes) in others.items() if was != becomes),
        f"edition {old.edition} → {old.edition + 1}",
    ]
    return f"{_name(new)}: {', '.join(parts)}"


def _name(factor: FileFactor) -> str:
    return f"{factor.zone} {factor.period} {factor.basis}, {factor.resolution}"


def _grams(ug_per_kwh: int) -> str:
    return f"{ug_per_kwh / UG_PER_G:.6f}".rstrip("0").rstrip(".")
