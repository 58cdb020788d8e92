"""Read the lines of a spreadsheet: encoding, separator, first line, limits. Pure."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import chain, islice

from apps.assets.spreadsheets.cells import unescaped
from apps.assets.spreadsheets.formats import Header, heading_score, recognise
from apps.assets.spreadsheets.xlsx_reader import is_zip, read_sheet
from apps.core.errors import InvalidInput, TooLarge
from apps.core.text import is_unstorable

MAX_BYTES = 8 << 20
MAX_ROWS = 20_000
MAX_CELL = 4_000
SEPARATORS = ",;\t"
_FIRST_LINES = 20  # headings are looked for in these
# Encodings without a mark of their own. The first wins between equals.
LEGACY = ("cp1252", "mac-roman", "cp850", "cp1250")
ENCODINGS = ("utf-8", "utf-16", *LEGACY)
_USUAL = frozenset(
    "äöüÄÖÜßéèêëàâçîïôùûÉÈÀÇñáíóúÑÁÍÓÚ¿¡€°²³µ×–—„“”‘’«»ºªœæøåØÅőűŐŰłŁšžčřęąćńś\u00a0"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_OTHER_FORMATS = {
    b"\xd0\xcf\x11\xe0": "an old or encrypted Excel workbook",
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}
_SAVE = "Save it as XLSX, or as CSV."


@dataclass(frozen=True)
class Source:
    """The text of a file as CSV. ``encoding`` '': a workbook, of which ``sheet`` is read."""

    text: str
    encoding: str = ""
    sheet: str = ""
    other_sheets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """One row of a file: number of its first line, its non-empty fields, and its error."""

    number: int
    cells: dict[str, str]
    wrong: str = ""


def read_source(content: bytes, encoding: str = "", sheet: str = "") -> Source:
    """Return the text of a file: an XLSX workbook, or CSV in ``encoding`` ('': recognised).

    Raises TooLarge, InvalidInput.
    """
    if len(content) > MAX_BYTES:
        raise TooLarge(f"A file is at most {MAX_BYTES >> 20} MiB.", field="file", hint="Split it.")
    if is_zip(content):
        read = read_sheet(content, sheet)
        source = Source(read.text, "", read.name, read.others)
    else:
        source = _decoded(content, encoding)
    is_binary = source.encoding in LEGACY and _CONTROL.search(source.text)
    if is_binary or is_unstorable(source.text):
        raise InvalidInput("The file contains an invalid character.", field="file", hint=_SAVE)
    if not source.text.strip():
        raise InvalidInput(
            "The file is empty.", field="file", hint="Its first line must name the columns."
        )
    return source


def _decoded(content: bytes, encoding: str) -> Source:
    for begin, what in _OTHER_FORMATS.items():
        if content.startswith(begin):
            raise InvalidInput(f"The file is {what}.", field="file", hint=_SAVE)
    if encoding and encoding not in ENCODINGS:
        hint = f"Use one of {', '.join(ENCODINGS)}."
        raise InvalidInput(f"Unknown encoding {encoding[:20]!r}.", field="encoding", hint=hint)
    for name in [encoding] if encoding else _marked(content):
        try:
            return Source(content.decode("utf-8-sig" if name == "utf-8" else name), name)
        except UnicodeDecodeError as error:
            if encoding or name == "utf-16":
                raise InvalidInput(
                    f"The file is not {name} text.",
                    field="encoding" if encoding else "file",
                    hint="Choose another encoding, or save it as CSV, UTF-8.",
                ) from error
    best: Source | None = None
    for name in LEGACY:
        try:
            source = Source(content.decode(name), name)
        except UnicodeDecodeError:
            continue
        if best is None or _usual_letters(source.text) > _usual_letters(best.text):
            best = source
    if best is None:
        raise InvalidInput(
            "The file is in no known encoding.", field="file", hint="Save it as CSV, UTF-8."
        )
    return best


def _marked(content: bytes) -> list[str]:
    """Return the encodings that a file shows by its first bytes, or UTF-8 to try."""
    has_mark = content[:2] in {b"\xff\xfe", b"\xfe\xff"}
    return ["utf-16"] if has_mark else ["utf-8"]


def _usual_letters(text: str) -> int:
    """Return the number of usual letters beyond ASCII, less that of unusual ones."""
    beyond = [letter for letter in text if letter > "\x7f"]
    usual = sum(letter in _USUAL for letter in beyond)
    return 2 * usual - len(beyond)


def separator_of(text: str) -> str:
    """Return the separator with which most headings are known; else the most frequent one of the
    first line.
    """
    first = text.lstrip("\ufeff").split("\n", 1)[0]
    begin = "\n".join(text.lstrip("\ufeff").split("\n")[:_FIRST_LINES])

    def score(separator: str) -> tuple[int, int]:
        try:
            rows = list(csv.reader(StringIO(begin, newline=""), delimiter=separator))
        except csv.Error:
            rows = []
        return max((heading_score(row) for row in rows), default=0), first.count(separator)

    return max(SEPARATORS, key=score)


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


_Rows = Iterator[tuple[int, list[str]]]


def _read(
    text: str, assigned: Mapping[str, str] | None, separator: str
) -> tuple[Header, _Rows, int]:
    """Return the header, the rows below it, and the number of rows above it."""
    text = text.lstrip("\ufeff")
    rows = _rows(text, separator or separator_of(text))
    first = list(islice(rows, _FIRST_LINES))
    scores = [heading_score(cells) for _, cells in first]
    best = max(scores, default=0)
    position = scores.index(best) if best >= 2 else 0
    header = recognise(first[position][1] if first else [], assigned)
    return header, chain(first[position + 1 :], rows), position


def _rows(text: str, separator: str) -> _Rows:
    """Yield the number of the first line of each row with cells, and its cells."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise _unreadable(begin, error) from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield begin, cells


def _unreadable(number: int, error: csv.Error) -> InvalidInput:
    return InvalidInput(
        f"Line {number} cannot be read: {error}.",
        field="file",
        hint="Check for an open quotation mark, then save the file as CSV.",
    )


def _lines(rows: _Rows, header: Header) -> Iterator[Line]:
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
