"""Requests hours of a provider of grid intensity once, or reads a saved response, and stores
nothing.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    DjangoHelpFormatter,
)

from apps.carbon.providers.connection import MAX_BYTES, ProviderConnection
from apps.carbon.providers.readings import (
    ProviderError,
    Readings,
    iso_text,
    parse_json,
    whole_hours,
)
from apps.carbon.providers.registry import LIFECYCLE, PROVIDERS
from apps.carbon.providers.shape import shape_differences
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.units import END_HOUR, UG_PER_G, US_PER_HOUR, hour_of
from apps.fleet.zones import resolve_zone
from apps.pollers.management.commands.asset_sources import read_token, read_token_file

MAX_LISTED = 20
EXAMPLES = """
examples:
  manage.py try_provider energy_charts --zone DE
      one request for the last 24 hours
  manage.py try_provider electricity_maps --zone DE --token-file token --save response.json
      the token is in a file with the mode 600; the response is saved
  manage.py try_provider electricity_maps --zone DE --file response.json
      no request: reads the saved response
  manage.py try_provider csv_folder --zone DE --file grid.csv
      reads a file with the columns of docs/factor-providers.md

The output lists what differs from the documented response, the readings that are refused, and the
whole UTC hours. An hour is left out if its readings have a gap. Nothing is stored in a lab.
"""


class _Formatter(DjangoHelpFormatter):
    """Keeps the lines of the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text == EXAMPLES else super()._fill_text(text, width, indent)


class Command(BaseCommand):
    help = (
        "Try a provider of hourly grid intensity: one request or a saved response, compared with "
        "the documented one field by field, and the hours in it. Stores nothing."
    )
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(
            prog_name, subcommand, formatter_class=_Formatter, epilog=EXAMPLES, **kwargs
        )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", choices=sorted(PROVIDERS), help="the provider")
        parser.add_argument("--zone", default="", help="grid zone, such as DE or “Germany”")
        parser.add_argument(
            "--basis", help="lifecycle or direct; by default the first that the provider has"
        )
        parser.add_argument("--hours", type=int, default=24, help="hours to request, 24 by default")
        parser.add_argument("--file", type=Path, help="a saved response; no request is sent")
        parser.add_argument("--save", type=Path, help="write the response to this new file")
        parser.add_argument(
            "--token-file", type=Path, help="file with the token, mode 600; else standard input"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["name"]
        provider = PROVIDERS[name]
        try:
            zone = resolve_zone(options["zone"]) or (provider.zones or ("",))[0]
        except InvalidInput as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        if not zone:
            raise CommandError("Name the grid zone, such as --zone DE.")
        if provider.zones and zone not in provider.zones:
            raise CommandError(f"{provider.label} has only {', '.join(provider.zones)}.")
        default = LIFECYCLE if LIFECYCLE in provider.bases else provider.bases[0]
        basis = options["basis"] or default
        if basis not in provider.bases:
            raise CommandError(f"{provider.label} has {' and '.join(provider.bases)} factors only.")
        self.stdout.write(f"{provider.label}, zone {zone}, {basis} basis")
        connection = ProviderConnection(name, provider, zone, basis)
        body = (
            self._read(options["file"]) if options["file"] else self._request(connection, options)
        )
        try:
            if provider.web is not None:
                value = parse_json(body)
                self._write_differences(shape_differences(provider.web.shape(value), value))
            readings = connection.parse(body)
        except ProviderError as error:
            raise CommandError(error.message) from error
        self._write_readings(readings)

    def _request(self, connection: ProviderConnection, options: dict[str, Any]) -> bytes:
        provider = connection.provider
        if provider.web is None:
            raise CommandError(f"{provider.label} needs --file.")
        if not 0 < options["hours"] <= provider.web.max_days * 24:
            raise CommandError(f"--hours is from 1 to {provider.web.max_days * 24}.")
        if provider.needs_token:
            path = options["token_file"]
            connection.token = read_token_file(path) if path else read_token()
            if not connection.token:
                raise CommandError(f"{provider.label} needs a token: --token-file FILE.")
        end = hour_of(now_us())
        address = settings.GRID_PROVIDERS.get(connection.name, provider.web.address)
        start_us, end_us = (end - options["hours"]) * US_PER_HOUR, end * US_PER_HOUR
        path = provider.web.range_path(
            provider.code_of(connection.zone), connection.basis, start_us, end_us
        )
        self.stdout.write(f"Request: {address}{path}")
        try:
            body = connection.fetch_range(start_us, end_us)
        except ProviderError as error:
            raise CommandError(error.message) from error
        if options["save"]:
            try:
                with options["save"].open("xb") as file:
                    file.write(body)
            except OSError as error:
                raise CommandError(f"{options['save']}: {error.strerror}") from error
        return body

    @staticmethod
    def _read(path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                body = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from error
        if len(body) > MAX_BYTES:
            raise CommandError(f"{path} has more than {MAX_BYTES >> 20} MiB.")
        return body

    def _write_differences(self, differences: list[str]) -> None:
        if not differences:
            self.stdout.write("Fields: as documented")
            return
        self.stdout.write(f"Fields: {len(differences)} differences from the documentation")
        for line in differences[: 2 * MAX_LISTED]:
            self.stdout.write(f"  {line}")

    def _write_readings(self, readings: Readings) -> None:
        missing = sum(reading.ug_per_kwh is None for reading in readings.accepted)
        self.stdout.write(
            f"Readings: {len(readings.accepted) - missing} with a value, {missing} without, "
            f"{len(readings.refused)} refused"
        )
        for refused in readings.refused[:MAX_LISTED]:
            self.stdout.write(f"  refused: {refused}")
        hours = whole_hours(readings.accepted, end_hour=END_HOUR)
        self.stdout.write(f"Hours: {len(hours.actual)} actual, {len(hours.estimated)} estimated")
        for hour in sorted({*hours.actual, *hours.estimated}):
            kind = "actual" if hour in hours.actual else "estimated"
            ug = hours.actual.get(hour) or hours.estimated[hour]
            self.stdout.write(
                f"  {iso_text(hour * US_PER_HOUR)}  {Decimal(ug) / UG_PER_G:.3f} g/kWh  {kind}"
            )
