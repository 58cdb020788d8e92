"""Files of annual emission factors: parse them, and compare them with the loaded factors. Pure."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
SUBREGION, COUNTRY = Resolution.ANNUAL_SUBREGION, Resolution.ANNUAL_COUNTRY
RESOLUTIONS = (SUBREGION, COUNTRY)  # the most precise first
MAX_G_PER_KWH = 1500  # the range of grids begins above 0
_MAX_LENGTHS = {"zone": 80, "zone_name": 120, "source": 400, "licence": 120}
_YEARS = range(1990, 2101)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,15})?\Z", re.ASCII)

Key = tuple[str, str, str, int]  # zone, basis, resolution and year, which identify a factor


@dataclass(frozen=True)
class AnnualFactor:
    """A row of a file: the average of a zone and a year."""

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

    @property
    def key(self) -> Key:
        return self.zone, self.basis, self.resolution, self.year


@dataclass(frozen=True)
class LoadedFactor:
    """A current edition of the database."""

    factor: AnnualFactor
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

    factors: tuple[AnnualFactor, ...]
    bad_rows: tuple[BadRow, ...]
    without_figure: int


@dataclass(frozen=True)
class Difference:
    """Effect of loading files. ``missing``: loaded factors of the same basis and licence that are
    not in the files. They stay.
    """

    new: tuple[AnnualFactor, ...]
    changed: tuple[tuple[LoadedFactor, AnnualFactor], ...]
    unchanged: int
    missing: tuple[LoadedFactor, ...]


def parse_files(files: Iterable[tuple[str, Iterable[str]]]) -> FactorTable:
    """Parse (name, lines) of files, which are loaded together. Each bad row has one reason."""
    factors: dict[Key, AnnualFactor] = {}
    places: dict[Key, str] = {}
    bad_rows: list[BadRow] = []
    without_figure = 0
    for name, lines in files:
        for line, result in _rows_of(lines):
            if isinstance(result, str):
                bad_rows.append(BadRow(name, line, result))
            elif result is None:
                without_figure += 1
            elif result.key in factors:
                reason = f"zone, basis, resolution and year are those of {places[result.key]}"
                bad_rows.append(BadRow(name, line, reason))
            else:
                factors[result.key] = result
                places[result.key] = f"{name}, line {line}"
    return FactorTable(tuple(factors.values()), tuple(bad_rows), without_figure)


def _rows_of(lines: Iterable[str]) -> Iterator[tuple[int, AnnualFactor | str | None]]:
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
                yield reader.line_num, _parse_row(row)
            except ValueError as error:
                yield reader.line_num, str(error)
    except csv.Error as error:
        yield reader.reader.line_num, f"not a row of a CSV file ({error})"


def find_difference(
    factors: Sequence[AnnualFactor], loaded: Mapping[Key, LoadedFactor]
) -> Difference:
    """Compare the factors of files with the current editions."""
    new: list[AnnualFactor] = []
    changed: list[tuple[LoadedFactor, AnnualFactor]] = []
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


def _parse_row(row: Mapping[str | None, str | list[str] | None]) -> AnnualFactor | None:
    """Return the factor of a row, None for a row without a figure. Raises ValueError."""
    if None in row or None in row.values():
        raise ValueError("the number of columns is not that of the first line")
    text = {column: str(row[column]).strip() for column in COLUMNS}
    for column, length in _MAX_LENGTHS.items():
        _check_text(column, text[column], length)
    if text["zone"] not in zones():
        raise ValueError(f"zone: {text['zone']!r} is not a grid zone")
    if text["basis"] not in Basis.values:
        raise ValueError(f"basis: {text['basis'][:40]!r} is not one of {', '.join(Basis.values)}")
    if text["resolution"] not in RESOLUTIONS:
        raise ValueError(
            f"resolution: {text['resolution'][:40]!r} is not one of {', '.join(RESOLUTIONS)}"
        )
    if not re.fullmatch(r"\d{4}", text["year"], re.ASCII) or int(text["year"]) not in _YEARS:
        raise ValueError(
            f"year: {text['year'][:40]!r} is not a year from {_YEARS[0]} to {_YEARS[-1]}"
        )
    ug_per_kwh = _parse_figure("g_per_kwh", text["g_per_kwh"])
    low = _parse_figure("low_g_per_kwh", text["low_g_per_kwh"])
    high = _parse_figure("high_g_per_kwh", text["high_g_per_kwh"])
    if not ug_per_kwh:
        return None
    if ug_per_kwh > MAX_G_PER_KWH * UG_PER_G:
        raise ValueError(
            f"g_per_kwh: {text['g_per_kwh']} is not a possible grid factor (above 0, up to "
            f"{MAX_G_PER_KWH})"
        )
    if low is not None and low > ug_per_kwh:
        raise ValueError("low_g_per_kwh: above g_per_kwh")
    if high is not None and high < ug_per_kwh:
        raise ValueError("high_g_per_kwh: below g_per_kwh")
    return AnnualFactor(
        zone=text["zone"],
        zone_name=text["zone_name"],
        basis=text["basis"],
        resolution=text["resolution"],
        year=int(text["year"]),
        ug_per_kwh=ug_per_kwh,
        low_ug_per_kwh=low,
        high_ug_per_kwh=high,
        source=text["source"],
        licence=text["licence"],
    )


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
