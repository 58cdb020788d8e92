"""CSV files with the hourly intensity of grid zones. Pure: parses the text of a file."""

import csv
import io
from decimal import Decimal, InvalidOperation

from apps.carbon.providers.readings import (
    MAX_READINGS,
    IntensityReading,
    Kind,
    ProviderError,
    Readings,
    parse_intensity,
    parse_time,
    printable,
    without_contradictions,
)
from apps.core.units import US_PER_HOUR

NAME = "csv_folder"
MAX_HOURS = 24
COLUMNS = ("zone", "start", "end", "g_per_kwh", "kind", "basis")


def parse(body: bytes, zone: str, basis: str) -> Readings:
    """Return the rows of ``zone`` on ``basis``. Rows of other zones or bases are left out. Raises
    ProviderError.
    """
    try:
        text = body.decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ProviderError(f"The file lacks the columns {', '.join(missing)}.")
        readings = Readings()
        for number, row in enumerate(reader, 1):
            if number > MAX_READINGS:
                raise ProviderError(f"The file has more than {MAX_READINGS} rows.")
            if row["zone"] == zone and row["basis"] == basis:
                _add(readings, row, zone, basis)
    except UnicodeDecodeError as error:
        raise ProviderError("The file is not UTF-8 text.") from error
    except csv.Error as error:
        raise ProviderError(f"The file is not CSV: {error}.") from error
    return without_contradictions(readings)


def _add(readings: Readings, row: dict[str, str | None], zone: str, basis: str) -> None:
    start = row["start"]
    start_us, end_us = parse_time(start), parse_time(row["end"])
    if start_us is None or end_us is None:
        readings.refuse(start, "“start” or “end” is not a time with a time zone")
        return
    if not 0 < end_us - start_us <= MAX_HOURS * US_PER_HOUR:
        readings.refuse(start, f"“end” is not within {MAX_HOURS} hours after “start”")
        return
    if row["kind"] not in (Kind.ACTUAL, Kind.ESTIMATED):
        readings.refuse(start, f"“kind” is {printable(row['kind'])}: use actual or estimated")
        return
    value = (row["g_per_kwh"] or "").strip()
    try:
        ug = parse_intensity(_decimal(value)) if value else None
    except InvalidOperation:
        readings.refuse(start, f"{printable(value)!r} is not a number")
        return
    except ValueError as error:
        readings.refuse(start, str(error))
        return
    kind = Kind(row["kind"])
    readings.accepted.append(IntensityReading(zone, start_us, end_us, ug, kind, NAME, basis))


def _decimal(text: str) -> Decimal:
    """Return a number of digits with a decimal point. Raises InvalidOperation."""
    if "_" in text or not text.isascii():
        raise InvalidOperation
    return Decimal(text)
