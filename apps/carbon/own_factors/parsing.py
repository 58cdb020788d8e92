"""Parse a CSV file with a lab's own emission factors. Pure."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.carbon.choices import Resolution
from apps.carbon.factor_files import (
    COLUMNS,
    OPTIONAL_COLUMNS,
    BadRow,
    FileFactor,
    HourlyFactor,
    cells_of,
    parse_row,
)
from apps.core.csv_cells import guard
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.csv_text import decode_csv
from apps.fleet.zones import zones

REQUIRED_COLUMNS = ("zone", "basis", "resolution", "g_per_kwh", "source", "licence")
ALL_COLUMNS = (*COLUMNS, *OPTIONAL_COLUMNS)
MAX_BYTES = 4 << 20
MAX_ROWS = 20_000
_TEXTS = ("zone_name", "source", "licence", "edition")


@dataclass(frozen=True)
class OwnTable:
    """The content of a file."""

    factors: tuple[FileFactor, ...]
    hours: tuple[HourlyFactor, ...]
    bad_rows: tuple[BadRow, ...]


def decode(content: bytes) -> str:
    """Return the text of a file. Raises InvalidInput, TooLarge."""
    return decode_csv(content, MAX_BYTES)


def parse_own_file(name: str, text: str, now_hour: int) -> OwnTable:
    """Return the factors of a file, and each bad row with its reason. Raises InvalidInput for an
    error of the whole file. ``now_hour``: later hours have no measured factor.
    """
    factors: list[FileFactor] = []
    hours: list[HourlyFactor] = []
    bad_rows: list[BadRow] = []
    places: dict[tuple[object, ...], int] = {}
    for line, result in _rows(text):
        if isinstance(result, str):
            bad_rows.append(BadRow(name, line, result))
            continue
        reason = _conflict(result, places, now_hour)
        if reason:
            bad_rows.append(BadRow(name, line, reason))
            continue
        places[result.key] = line
        if isinstance(result, HourlyFactor):
            hours.append(result)
        else:
            factors.append(result)
    if not places and not bad_rows:
        raise InvalidInput(
            "The file has no rows below the column names.",
            field="file",
            hint="Add a row for each factor.",
        )
    return OwnTable(tuple(factors), tuple(hours), tuple(bad_rows))


def _conflict(
    factor: FileFactor | HourlyFactor, places: Mapping[tuple[object, ...], int], now_hour: int
) -> str:
    """Return why a factor cannot be imported beside the earlier ones, '' if it can. ``places``:
    lines of earlier factors.
    """
    is_hourly = isinstance(factor, HourlyFactor)
    if factor.key in places:
        columns = "zone, basis and hour" if is_hourly else "zone, basis, resolution and period"
        return f"{columns} are those of line {places[factor.key]}"
    is_measured = factor.resolution == Resolution.HOURLY_ACTUAL
    if isinstance(factor, HourlyFactor) and is_measured and factor.hour >= now_hour:
        return "hour_utc: this hour has not ended, so that it has no measured factor"
    return ""


def _rows(text: str) -> Iterator[tuple[int, FileFactor | HourlyFactor | str]]:
    """Yield the line of each row with its factor, or why it is bad. Raises InvalidInput."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        reader.fieldnames = _check_header(reader.fieldnames or [])
        for number, row in enumerate(reader, 1):
            if number > MAX_ROWS:
                raise InvalidInput(
                    f"The file has more than {MAX_ROWS:,} rows.", field="file", hint="Split it."
                )
            try:
                yield reader.line_num, _factor_of(cells_of(row))
            except ValueError as error:
                yield reader.line_num, str(error)
    except csv.Error as error:
        yield reader.reader.line_num, f"not a row of a CSV file ({error})"


def _check_header(names: Sequence[str]) -> list[str]:
    header = [name.strip() for name in names]
    hint = f"The first line contains column names: {', '.join(REQUIRED_COLUMNS)}."
    if len(header) == 1 and ";" in header[0]:
        raise InvalidInput(
            "The columns are separated by semicolons.",
            field="file",
            hint="Save the file with commas between the columns and a decimal point.",
        )
    lacking = [name for name in REQUIRED_COLUMNS if name not in header]
    if lacking:
        raise InvalidInput(f"The column {lacking[0]} is missing.", field="file", hint=hint)
    for position, name in enumerate(header):
        if name not in ALL_COLUMNS:
            raise InvalidInput(
                f"{name[:40]!r} is not a column of factors.",
                field="file",
                hint=f"Remove it, or use one of: {', '.join(ALL_COLUMNS)}.",
            )
        if name in header[:position]:
            raise InvalidInput(
                f"The column {name} is in the file twice.", field="file", hint="Remove one."
            )
    return header


def _factor_of(cells: dict[str, str]) -> FileFactor | HourlyFactor:
    """Return the factor of a row. Raises ValueError."""
    for column in _TEXTS:
        if guard(cells[column]) != cells[column]:
            raise ValueError(f"{column}: begins like a formula of a spreadsheet. Enter a text")
    if not cells["zone_name"] and cells["zone"] in zones():
        cells["zone_name"] = zones()[cells["zone"]].name
    elif not cells["zone_name"]:
        cells["zone_name"] = cells["zone"]  # the error is that of the zone
    factor = parse_row(cells)
    if factor is None:
        raise ValueError("g_per_kwh: empty or 0, which is no factor. Remove the row")
    return factor
