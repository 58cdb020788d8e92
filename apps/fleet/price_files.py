"""Parse a CSV file with hourly electricity prices. Pure."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.core.errors import InvalidInput
from apps.core.spreadsheets.csv_text import decode_csv
from apps.core.units import END_HOUR
from apps.fleet.tariffs import price_of

MAX_BYTES = 1 << 20
MAX_ROWS = 20_000
HOUR = "hour"
SCALES = {"price_per_kwh": 1, "price_per_mwh": 1000}


@dataclass(frozen=True)
class BadPriceRow:
    """A line that cannot be read, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class PriceFile:
    """The prices of a file by UTC hour, in millionths per kWh."""

    hours: dict[int, int]
    bad_rows: tuple[BadPriceRow, ...]


def decode(content: bytes) -> str:
    """Return the text of a file. Raises InvalidInput, TooLarge."""
    return decode_csv(content, MAX_BYTES)


def parse_prices(text: str) -> PriceFile:
    """Return the prices of a file, and each bad row. Raises InvalidInput for an error of the whole
    file.
    """
    hours: dict[int, int] = {}
    lines: dict[int, int] = {}
    bad_rows: list[BadPriceRow] = []
    for line, result in _rows(text):
        if isinstance(result, str):
            bad_rows.append(BadPriceRow(line, result))
        elif result[0] in lines:
            bad_rows.append(
                BadPriceRow(line, f"{HOUR}: the same hour is on line {lines[result[0]]}.")
            )
        else:
            hours[result[0]] = result[1]
            lines[result[0]] = line
    if not hours and not bad_rows:
        raise InvalidInput(
            "The file has no rows below the column names.",
            field="file",
            hint="Add a row for each hour.",
        )
    return PriceFile(hours, tuple(bad_rows))


def _rows(text: str) -> Iterator[tuple[int, tuple[int, int] | str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        column = _check_header(header)
        for number, row in enumerate((row for row in reader if row), 1):
            if number > MAX_ROWS:
                raise InvalidInput(
                    f"The file has more than {MAX_ROWS:,} rows.", field="file", hint="Split it."
                )
            try:
                if len(row) != len(header):
                    raise ValueError("The number of columns is not that of the first line.")
                cells = dict(zip(header, row, strict=True))
                yield reader.line_num, (_hour(cells[HOUR]), _price(cells[column], column))
            except ValueError as error:
                yield reader.line_num, str(error)
    except csv.Error as error:
        yield reader.line_num, f"This is not a row of a CSV file ({error})."


def _check_header(header: Sequence[str]) -> str:
    """Return the name of the column with prices. Raises InvalidInput."""
    columns = [name for name in SCALES if name in header]
    if len(header) == 1 and ";" in header[0]:
        raise InvalidInput(
            "The columns are separated by semicolons.",
            field="file",
            hint="Save the file with commas between the columns and a decimal point.",
        )
    if sorted(header) != sorted({HOUR, *columns}) or len(columns) != 1:
        raise InvalidInput(
            "The columns are not those of hourly prices.",
            field="file",
            hint=f"The first line is {HOUR},{' or '.join(SCALES)}, without other columns.",
        )
    return columns[0]


def _hour(text: str) -> int:
    plain = text.strip()
    try:
        time = datetime.fromisoformat(plain) if plain[10:11] in {"T", " "} else None
        seconds = time.timestamp() if time is not None and time.tzinfo is not None else None
    except (ValueError, OverflowError):
        seconds = None
    if seconds is None:
        raise ValueError(
            f"{HOUR}: {plain[:40]!r} is not a time with its offset from UTC, such as "
            "2026-11-27T14:00+01:00 or 2026-11-27T13:00Z."
        )
    if seconds % 3600:
        raise ValueError(
            f"{HOUR}: {plain[:40]} is not the start of a UTC hour. Enter one mean price an hour."
        )
    hour = int(seconds) // 3600
    if not 0 <= hour < END_HOUR:
        raise ValueError(f"{HOUR}: {plain[:40]} is not in the years 1970 to 2300.")
    return hour


def _price(text: str, column: str) -> int:
    try:
        return price_of(text, SCALES[column])
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from error
