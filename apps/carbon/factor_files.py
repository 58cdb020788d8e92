"""Files of emission factors: parse them, and compare them with the loaded factors. Pure."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from apps.accounts.choices import Basis
from apps.carbon.choices import Resolution
from apps.core.errors import InvalidInput
from apps.core.units import UG_PER_G
from apps.fleet.zones import zones

COLUMNS = (
    "zone", "zone_name", "basis", "resolution", "year", "g_per_kwh", "low_g_per_kwh",
    "high_g_per_kwh", "source", "licence",
)  # fmt: skip
OPTIONAL_COLUMNS = ("month", "hour_utc", "edition")
SUBREGION, COUNTRY = Resolution.ANNUAL_SUBREGION, Resolution.ANNUAL_COUNTRY
RESOLUTIONS = (Resolution.MONTHLY, SUBREGION, COUNTRY)  # the most precise first
HOURLY = (Resolution.HOURLY_ACTUAL, Resolution.HOURLY_ESTIMATED)
MAX_G_PER_KWH = 1500  # the range of grids begins above 0
_MAX_LENGTHS = {"zone": 80, "zone_name": 120, "source": 400, "licence": 120}
_YEARS = range(1990, 2101)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,15})?\Z", re.ASCII)
_HOUR = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):00(?::00)?(?:Z|\+00:00)\Z", re.ASCII)

Key = tuple[str, str, str, int, int]  # zone, basis, resolution, year and month identify a factor


@dataclass(frozen=True)
class FileFactor:
    """A row of a file: the average of a zone and a year, or a month (0: the year)."""

    zone: str
    zone_name: str
    basis: str
    resolution: str
    year: int
    ug_per_kwh: int
    low_ug_per_kwh: int | None
    high_ug_per_kwh: int | None
    source: str
    licence: str
    month: int = 0

    @property
    def key(self) -> Key:
        return self.zone, self.basis, self.resolution, self.year, self.month

    @property
    def period(self) -> str:
        """Return the year, or the month as 2026-01."""
        return f"{self.year}-{self.month:02}" if self.month else f"{self.year}"


@dataclass(frozen=True)
class HourlyFactor:
    """A row of a file: the average of a zone and a UTC hour."""

    zone: str
    basis: str
    resolution: str
    hour: int
    ug_per_kwh: int
    source: str
    licence: str

    @property
    def key(self) -> tuple[str, str, int]:
        """Return zone, basis and hour: an hour has one factor of any resolution."""
        return self.zone, self.basis, self.hour


@dataclass(frozen=True)
class LoadedFactor:
    """A current edition of the database."""

    factor: FileFactor
    factor_id: int
    edition: int


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be loaded."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


class BadRows(InvalidInput):
    """All rows of files that cannot be loaded. Nothing is loaded."""

    code = "bad_rows"

    def __init__(self, rows: Sequence[BadRow]) -> None:
        super().__init__(
            f"{len(rows)} row{'s' if len(rows) > 1 else ''} cannot be loaded. Nothing was loaded.",
            hint="Correct the files and load them again.",
        )
        self.rows = tuple(rows)


@dataclass(frozen=True)
class FactorTable:
    """The content of one or several files. ``without_figure``: rows with an empty figure or 0,
    which are no factors.
    """

    factors: tuple[FileFactor, ...]
    bad_rows: tuple[BadRow, ...]
    without_figure: int


@dataclass(frozen=True)
class Difference:
    """Effect of loading files. ``missing``: loaded factors of the same basis and licence that are
    not in the files. They stay.
    """

    new: tuple[FileFactor, ...]
    changed: tuple[tuple[LoadedFactor, FileFactor], ...]
    unchanged: int
    missing: tuple[LoadedFactor, ...]


def parse_files(files: Iterable[tuple[str, Iterable[str]]]) -> FactorTable:
    """Parse (name, lines) of files, which are loaded together. Each bad row has one reason."""
    factors: dict[Key, FileFactor] = {}
    places: dict[Key, str] = {}
    bad_rows: list[BadRow] = []
    without_figure = 0
    for name, lines in files:
        for line, result in _rows_of(lines):
            if isinstance(result, str):
                bad_rows.append(BadRow(name, line, result))
            elif result is None:
                without_figure += 1
            elif isinstance(result, HourlyFactor):
                reason = f"resolution: only a lab's own file has {result.resolution} factors"
                bad_rows.append(BadRow(name, line, reason))
            elif result.key in factors:
                reason = f"zone, basis, resolution and year are those of {places[result.key]}"
                bad_rows.append(BadRow(name, line, reason))
            else:
                factors[result.key] = result
                places[result.key] = f"{name}, line {line}"
    return FactorTable(tuple(factors.values()), tuple(bad_rows), without_figure)


def _rows_of(lines: Iterable[str]) -> Iterator[tuple[int, FileFactor | HourlyFactor | str | None]]:
    """Yield the line of each row with its factor, None without a figure, or why it is bad."""
    reader = csv.DictReader(lines, strict=True)
    try:
        header = [column.strip() for column in reader.fieldnames or []]
        lacking = [column for column in COLUMNS if column not in header]
        if lacking:
            yield 1, f"the column {lacking[0]} is missing"
            return
        reader.fieldnames = header
        for row in reader:
            try:
                yield reader.line_num, parse_row(cells_of(row))
            except ValueError as error:
                yield reader.line_num, str(error)
    except csv.Error as error:
        yield reader.reader.line_num, f"not a row of a CSV file ({error})"


def find_difference(
    factors: Sequence[FileFactor], loaded: Mapping[Key, LoadedFactor]
) -> Difference:
    """Compare the factors of files with the current editions."""
    new: list[FileFactor] = []
    changed: list[tuple[LoadedFactor, FileFactor]] = []
    for factor in factors:
        old = loaded.get(factor.key)
        if old is None:
            new.append(factor)
        elif old.factor != factor:
            changed.append((old, factor))
    keys = {factor.key for factor in factors}
    families = {(factor.basis, factor.licence) for factor in factors}
    return Difference(
        new=tuple(new),
        changed=tuple(changed),
        unchanged=len(factors) - len(new) - len(changed),
        missing=tuple(
            old
            for key, old in loaded.items()
            if key not in keys and (old.factor.basis, old.factor.licence) in families
        ),
    )


def cells_of(row: Mapping[str | None, str | list[str] | None]) -> dict[str, str]:
    """Return the cell of each column of a row, '' for a column that the file lacks. Raises
    ValueError for a row with another number of cells than the header.
    """
    if None in row or None in row.values():
        raise ValueError("the number of columns is not that of the first line")
    return {column: str(row.get(column, "")).strip() for column in (*COLUMNS, *OPTIONAL_COLUMNS)}


def parse_row(cells: Mapping[str, str]) -> FileFactor | HourlyFactor | None:
    """Return the factor of a row, None for a row without a figure. Raises ValueError.

    The edition of a publication becomes a part of the source.
    """
    text = dict(cells)
    if text["edition"]:
        text["source"] = f"{text['source']}, edition {text['edition']}".removeprefix(", ")
    for column, length in _MAX_LENGTHS.items():
        _check_text(column, text[column], length)
    if text["zone"] not in zones():
        raise ValueError(f"zone: {text['zone']!r} is not a grid zone")
    if text["basis"] not in Basis.values:
        raise ValueError(f"basis: {text['basis'][:40]!r} is not one of {', '.join(Basis.values)}")
    if text["resolution"] in HOURLY:
        return _parse_hourly(text)
    if text["resolution"] not in RESOLUTIONS:
        raise ValueError(
            f"resolution: {text['resolution'][:40]!r} is not one of "
            f"{', '.join((*HOURLY, *RESOLUTIONS))}"
        )
    if text["hour_utc"]:
        raise ValueError(f"hour_utc: a factor with the resolution {text['resolution']} has none")
    year, month = _parse_year(text["year"]), _parse_month(text["month"], text["resolution"])
    ug_per_kwh = _parse_factor(text["g_per_kwh"])
    low = _parse_figure("low_g_per_kwh", text["low_g_per_kwh"])
    high = _parse_figure("high_g_per_kwh", text["high_g_per_kwh"])
    if ug_per_kwh is None:
        return None
    if low is not None and low > ug_per_kwh:
        raise ValueError("low_g_per_kwh: above g_per_kwh")
    if high is not None and high < ug_per_kwh:
        raise ValueError("high_g_per_kwh: below g_per_kwh")
    return FileFactor(
        zone=text["zone"],
        zone_name=text["zone_name"],
        basis=text["basis"],
        resolution=text["resolution"],
        year=year,
        ug_per_kwh=ug_per_kwh,
        low_ug_per_kwh=low,
        high_ug_per_kwh=high,
        source=text["source"],
        licence=text["licence"],
        month=month,
    )


def _parse_hourly(text: Mapping[str, str]) -> HourlyFactor | None:
    match = _HOUR.match(text["hour_utc"])
    try:
        time = _time(*(int(part) for part in match.groups())) if match else None
    except ValueError:
        time = None
    if time is None or time.year not in _YEARS:
        raise ValueError(
            f"hour_utc: {text['hour_utc'][:40]!r} is not a whole UTC hour such as 2026-01-31T13:00Z"
        )
    if text["year"] not in ("", f"{time.year}") or text["month"] not in ("", f"{time.month}"):
        raise ValueError("hour_utc: not in this year and month. Leave both empty")
    if text["low_g_per_kwh"] or text["high_g_per_kwh"]:
        raise ValueError("low_g_per_kwh: an hourly factor has no range. Leave low and high empty")
    ug_per_kwh = _parse_factor(text["g_per_kwh"])
    if ug_per_kwh is None:
        return None
    return HourlyFactor(
        zone=text["zone"],
        basis=text["basis"],
        resolution=text["resolution"],
        hour=int(time.timestamp()) // 3600,
        ug_per_kwh=ug_per_kwh,
        source=text["source"],
        licence=text["licence"],
    )


def _time(year: int, month: int, day: int, hour: int) -> datetime:
    return datetime(year, month, day, hour, tzinfo=UTC)


def _parse_year(text: str) -> int:
    if not re.fullmatch(r"\d{4}", text, re.ASCII) or int(text) not in _YEARS:
        raise ValueError(f"year: {text[:40]!r} is not a year from {_YEARS[0]} to {_YEARS[-1]}")
    return int(text)


def _parse_month(text: str, resolution: str) -> int:
    """Return the month of a monthly factor, 0 for an annual one."""
    if resolution != Resolution.MONTHLY:
        if text:
            raise ValueError("month: an annual factor has none")
        return 0
    if not re.fullmatch(r"\d{1,2}", text, re.ASCII) or not 1 <= int(text) <= 12:
        raise ValueError(f"month: {text[:40]!r} is not a month from 1 to 12")
    return int(text)


def _check_text(column: str, text: str, max_length: int) -> None:
    if not text:
        raise ValueError(f"{column}: empty")
    if len(text) > max_length:
        raise ValueError(f"{column}: longer than {max_length} characters")
    if not text.isprintable():
        raise ValueError(f"{column}: contains a character that cannot be printed")


def _parse_figure(column: str, text: str) -> int | None:
    """Return µg of a number in g, None if it is empty."""
    if not text:
        return None
    if not _NUMBER.match(text):
        raise ValueError(f"{column}: {text[:40]!r} is not a positive number")
    return int(Decimal(text) * UG_PER_G)


def _parse_factor(text: str) -> int | None:
    """Return µg of a factor in g, None if it is empty or 0, which is no factor."""
    ug_per_kwh = _parse_figure("g_per_kwh", text)
    if ug_per_kwh is not None and ug_per_kwh > MAX_G_PER_KWH * UG_PER_G:
        raise ValueError(
            f"g_per_kwh: {text} is not a possible grid factor (above 0, up to {MAX_G_PER_KWH})"
        )
    return ug_per_kwh or None
