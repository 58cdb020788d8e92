"""Read a sheet of an Excel workbook (XLSX) as lines of CSV. Pure.

Values are those that the spreadsheet program stored: no formula is computed, no link to another
workbook is followed. XML entities are refused (defusedxml).
"""

import csv
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from openpyxl.reader.excel import load_workbook

from apps.core.errors import InvalidInput, TooLarge

MAX_UNPACKED_BYTES = 32 << 20
MAX_PARTS = 2_000
MAX_SHEET_ROWS = 30_000  # blank ones included
MAX_COLUMNS = 200
_MOST_DIGITS = 15  # a spreadsheet program stores no more digits of a number
_HINT = "Save it as XLSX or CSV in your spreadsheet program."
_ERROR = re.compile(r"#(REF|N/A|NAME\?|VALUE|DIV/0|NUM|NULL)!?")


@dataclass(frozen=True)
class Sheet:
    """A sheet as CSV text with commas: line n is row n. ``others``: sheets that are not read."""

    name: str
    text: str
    others: tuple[str, ...]


def is_zip(content: bytes) -> bool:
    return content[:4] == b"PK\x03\x04"


def _refused(message: str, hint: str = _HINT) -> InvalidInput:
    return InvalidInput(message, field="file", hint=hint)


def read_sheet(content: bytes, name: str = "", max_rows: int = MAX_SHEET_ROWS) -> Sheet:
    """Return the sheet ``name``, or the first visible one with cells. Raises InvalidInput,
    TooLarge.
    """
    _check_parts(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            formulas = _workbook(content, data_only=False)
            values = _workbook(content, data_only=True)
            visible = [
                sheet.title for sheet in formulas.worksheets if sheet.sheet_state == "visible"
            ]
            return _sheet(formulas, values, visible, name, max_rows)
    except DefusedXmlException as error:
        raise _refused("The workbook contains XML entities.") from error
    except (
        zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, IndexError,
        ParseError, EOFError, OSError, NotImplementedError, OverflowError, RecursionError,
        zlib.error,
    ) as error:  # fmt: skip
        if isinstance(error, InvalidInput | TooLarge):
            raise
        raise _refused("The workbook cannot be read: it is damaged.") from error


def _workbook(content: bytes, *, data_only: bool) -> Any:
    return load_workbook(io.BytesIO(content), read_only=True, data_only=data_only, keep_links=False)


def _check_parts(content: bytes) -> None:
    """Check the size of the unpacked workbook before it is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError) as error:
        raise _refused("The file is a damaged archive.") from error
    names = {part.filename for part in parts}
    if "xl/workbook.xml" not in names:
        raise _refused("The file is not an Excel workbook (XLSX).")
    if len(parts) > MAX_PARTS or sum(part.file_size for part in parts) > MAX_UNPACKED_BYTES:
        raise TooLarge(
            f"The unpacked workbook is larger than {MAX_UNPACKED_BYTES >> 20} MiB.",
            field="file",
            hint="Split it, or save the sheet as CSV.",
        )


def _sheet(formulas: Any, values: Any, visible: list[str], name: str, max_rows: int) -> Sheet:
    if not visible:
        raise _refused("The workbook has no visible sheet.")
    if name and name not in visible:
        hint = f"Its sheets: {', '.join(visible[:20])}."
        raise InvalidInput(f"There is no sheet {name[:40]!r}.", field="sheet", hint=hint)
    for title in [name] if name else visible:
        text = _text(formulas[title], values[title], max_rows)
        if text.strip("\r\n,") or title == name:
            others = tuple(other for other in visible if other != title)
            return Sheet(title, text, others)
    return Sheet(visible[0], "", tuple(visible[1:]))


def _text(formulas: Any, values: Any, max_rows: int) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    blank = 0
    for number, (formula_row, row) in enumerate(
        zip(_rows(formulas), _rows(values), strict=False), start=1
    ):
        if number > max_rows:
            raise TooLarge(
                f"The sheet has more than {max_rows} rows.", field="file", hint="Split it."
            )
        if row.count(None) == len(row) and formula_row.count(None) == len(formula_row):
            blank += 1
            continue
        cells = [
            _cell(value, formula, number, position)
            for position, (formula, value) in enumerate(
                zip(formula_row, row, strict=False), start=1
            )
        ]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            blank += 1
            continue
        if len(cells) > MAX_COLUMNS:
            raise TooLarge(
                f"Row {number} has more than {MAX_COLUMNS} columns.",
                field="file",
                hint="Delete columns that are not needed.",
            )
        out.write("\n" * blank)
        blank = 0
        writer.writerow(cells)
    return out.getvalue()


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows. The dimensions that a file states are not trusted."""
    sheet.reset_dimensions()
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows(max_col=MAX_COLUMNS + 1, values_only=True)
    return rows


def _cell(value: Any, formula: Any, row: int, column: int) -> str:
    """Return the text of a cell. Raises InvalidInput for one whose value is not in the file."""
    place = f"Row {row}, column {column}"
    is_formula = not isinstance(formula, str | int | float | bool | datetime | date | time | None)
    is_formula = is_formula or (isinstance(formula, str) and formula.startswith("="))
    if value is None:
        if is_formula:
            raise _refused(
                f"{place} contains a formula without a stored value.",
                "Open and save the file in your spreadsheet program, or replace formulas by "
                "their values.",
            )
        return ""
    if isinstance(value, str):
        if _ERROR.fullmatch(value.strip()):
            raise _refused(f"{place} contains the error {value.strip()}.", "Correct the cell.")
        return re.sub(r"\s*[\r\n]+\s*", " ", value).strip()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    return _number(value, place)


def _number(value: Any, place: str) -> str:
    """Return a number with a dot. Three decimals get a zero, so that no 1.125 reads as 1125."""
    if not isinstance(value, int | float | Decimal) or abs(value) >= 10**_MOST_DIGITS:
        raise _refused(
            f"{place} contains a number of more than {_MOST_DIGITS} digits, of which a "
            "spreadsheet program stores no more.",
            "Format the column as text and enter the number again.",
        )
    text = f"{Decimal(repr(value)):f}"
    whole, dot, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    if not fraction:
        return whole
    return f"{whole}{dot}{fraction}{'0' if len(fraction) == 3 else ''}"
