"""Read the lines of a CSV file: encoding, separator, limits. Pure."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

from apps.assets.spreadsheets.cells import unescaped
from apps.assets.spreadsheets.formats import Header, recognise
from apps.core.errors import InvalidInput, TooLarge
from apps.core.text import is_unstorable

MAX_BYTES = 8 << 20
MAX_ROWS = 20_000
MAX_CELL = 4_000


@dataclass(frozen=True)
class Line:
    """One row of a file: number of its first line, its non-empty fields, and its error."""

    number: int
    cells: dict[str, str]
    wrong: str = ""


def decoded(content: bytes) -> str:
    """Return the text of a file. Raises TooLarge, InvalidInput."""
    if len(content) > MAX_BYTES:
        raise TooLarge(f"A file is at most {MAX_BYTES >> 20} MiB.", field="file", hint="Split it.")
    encoding = "utf-16" if content[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "The file is not UTF-8 text.", field="file", hint="Save it as CSV, UTF-8."
        ) from error
    if is_unstorable(text):
        raise InvalidInput(
            "The file contains an invalid character.", field="file", hint="Save it as CSV, UTF-8."
        )
    if not text.strip():
        raise InvalidInput(
            "The file is empty.", field="file", hint="Its first line must name the columns."
        )
    return text


def read_lines(text: str) -> tuple[Header, Iterator[Line]]:
    """Return the header and an iterator of the lines.

    Raises InvalidInput for an error of the whole file.
    """
    text = text.lstrip("\ufeff")
    first = text.split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = recognise(next(reader, []))
    except csv.Error as error:
        raise _unreadable(1, error) from error
    return header, _lines(reader, header)


def _unreadable(number: int, error: csv.Error) -> InvalidInput:
    return InvalidInput(
        f"Line {number} cannot be read: {error}.",
        field="file",
        hint="Check for an open quotation mark, then save the file as CSV.",
    )


def _lines(reader: Iterator[list[str]], header: Header) -> Iterator[Line]:
    count, begin = 0, reader.line_num + 1  # type: ignore[attr-defined]
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise _unreadable(begin, error) from error
        if cells is None:
            break
        number, begin = begin, reader.line_num + 1  # type: ignore[attr-defined]
        if not any(cell.strip() for cell in cells):
            continue
        count += 1
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
