"""Read the lines of a spreadsheet of assets: separator, first line, limits. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice

from apps.assets.spreadsheets.cells import unescaped
from apps.assets.spreadsheets.formats import Header, heading_score, recognise
from apps.core.errors import InvalidInput, TooLarge
from apps.core.spreadsheets import sources
from apps.core.spreadsheets.sources import MAX_CELL, Rows, first_rows, read_rows

MAX_ROWS = 20_000


@dataclass(frozen=True)
class Line:
    """One row of a file: number of its first line, its non-empty fields, and its error."""

    number: int
    cells: dict[str, str]
    wrong: str = ""


def separator_of(text: str) -> str:
    """Return the separator with which most headings are known."""
    return sources.separator_of(text, heading_score)


def read_lines(
    text: str, assigned: Mapping[str, str] | None = None, separator: str = ""
) -> tuple[Header, Iterator[Line]]:
    """Return the header and an iterator of the lines.

    ``assigned``: the field of each column as a person assigned them. Raises InvalidInput for an
    error of the whole file.
    """
    header, rows, _ = _read(text, assigned, separator)
    return header, _lines(rows, header)


def skipped_lines(text: str, separator: str = "") -> int:
    """Return how many lines with cells precede the headings."""
    return _read(text, None, separator)[2]


def column_cells(
    text: str, assigned: Mapping[str, str] | None = None, separator: str = ""
) -> tuple[Header, list[tuple[str, ...]]]:
    """Return the header and the cells of each column that are not empty, as they are."""
    header, rows, _ = _read(text, assigned, separator)
    width = len(header.columns)
    listed = [
        [cell.strip() for cell in [*cells, *[""] * width][:width]]
        for _, cells in islice(rows, MAX_ROWS)
    ]
    return header, [tuple(row[i] for row in listed if row[i]) for i in range(width)]


def _read(
    text: str, assigned: Mapping[str, str] | None, separator: str
) -> tuple[Header, Rows, int]:
    """Return the header, the rows below it, and the number of rows above it."""
    text = text.lstrip("\ufeff")
    rows = read_rows(text, separator or separator_of(text))
    first, position = first_rows(rows, heading_score)
    header = recognise(first[position][1] if first else [], assigned)
    return header, chain(first[position + 1 :], rows), position


def _lines(rows: Rows, header: Header) -> Iterator[Line]:
    count = 0
    for count, (number, cells) in enumerate(rows, start=1):
        if count > MAX_ROWS:
            raise TooLarge(
                f"The file has more than {MAX_ROWS} rows.", field="file", hint="Split it."
            )
        yield _line(number, cells, header)
    if not count:
        raise InvalidInput("The file has no rows.", field="file", hint="Add a line for each asset.")


def _line(number: int, cells: list[str], header: Header) -> Line:
    cell_by_name: dict[str, str] = {}
    for field, cell in zip(header.fields, cells, strict=False):
        if len(cell) > MAX_CELL:
            return Line(number, {}, f"A cell is longer than {MAX_CELL} letters.")
        text = cell.strip() if header.foreign else unescaped(cell)
        if field and text:
            cell_by_name.setdefault(field, text)
    if any(cell.strip() for cell in cells[len(header.fields) :]):
        return Line(number, cell_by_name, "There are more cells than the first line names.")
    return Line(number, cell_by_name)
