"""The text of a spreadsheet file: an XLSX workbook, or CSV with its encoding. Its rows. Pure."""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice

from apps.core.errors import InvalidInput, TooLarge
from apps.core.spreadsheets.xlsx_reader import MAX_SHEET_ROWS, is_zip, read_sheet
from apps.core.text import is_unstorable

MAX_BYTES = 8 << 20
MAX_CELL = 4_000
SEPARATORS = ",;\t"
FIRST_LINES = 20  # headings are looked for in these
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


def read_source(
    content: bytes, encoding: str = "", sheet: str = "", max_rows: int = MAX_SHEET_ROWS
) -> Source:
    """Return the text of a file: an XLSX workbook, or CSV in ``encoding`` ('': recognised).

    Raises TooLarge, InvalidInput.
    """
    if len(content) > MAX_BYTES:
        raise TooLarge(f"A file is at most {MAX_BYTES >> 20} MiB.", field="file", hint="Split it.")
    if is_zip(content):
        read = read_sheet(content, sheet, max_rows)
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


def separator_of(text: str, heading_score: Callable[[Sequence[str]], int]) -> str:
    """Return the separator with which most headings are known; else the most frequent one of the
    first line.
    """
    first = text.lstrip("\ufeff").split("\n", 1)[0]
    begin = "\n".join(text.lstrip("\ufeff").split("\n")[:FIRST_LINES])

    def score(separator: str) -> tuple[int, int]:
        try:
            rows = list(csv.reader(StringIO(begin, newline=""), delimiter=separator))
        except csv.Error:
            rows = []
        return max((heading_score(row) for row in rows), default=0), first.count(separator)

    return max(SEPARATORS, key=score)


def base_name(text: str) -> str:
    """Return the last part of a file name, as stored and displayed."""
    return (
        re.split(r"[/\\]", re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "", text))[-1][:200]
        or "file.csv"
    )


Rows = Iterator[tuple[int, list[str]]]


def read_rows(text: str, separator: str) -> Rows:
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


def first_rows(
    rows: Rows, heading_score: Callable[[Sequence[str]], int]
) -> tuple[list[tuple[int, list[str]]], int]:
    """Return the first rows of a file, and which of them contains the headings."""
    first = list(islice(rows, FIRST_LINES))
    scores = [heading_score(cells) for _, cells in first]
    best = max(scores, default=0)
    return first, scores.index(best) if best >= 2 else 0
