"""Exports of a statement as JSON and CSV, and their parsing. Pure.

Both contain the same rows, one per line, each with its number and digest, and two hashes: that of
the figures and that of all rows.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field

from apps.core.csv_cells import guard, unguard
from apps.reports.rows import (
    COLUMNS,
    FORMAT,
    LINE,
    Row,
    canonical_text,
    digest_of_text,
    figures_digest,
    row_digest,
)

JSON, CSV = "json", "csv"
FIGURES_HASH, FILE_HASH = "figures_sha256", "file_sha256"
HASHES = (FIGURES_HASH, FILE_HASH)
_CSV_COLUMNS = ("row", *COLUMNS, "digest")
_JSON_HEAD = f'{{"format": {json.dumps(FORMAT)}, "rows": ['
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


class ExportError(ValueError):
    """A line of a file that is not part of an export."""

    def __init__(self, line_number: int, message: str) -> None:
        super().__init__(message)
        self.line_number = line_number


@dataclass(frozen=True)
class ExportRow:
    """A row as read from a line of a file."""

    line_number: int
    number: int
    row: Row
    digest: str


@dataclass
class Export:
    """The content of a file. ``errors``: lines that cannot be read."""

    file_format: str
    rows: list[ExportRow] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    errors: list[ExportError] = field(default_factory=list)


def is_integer(text: str) -> bool:
    """Return whether a text is an integer in its only form."""
    return _INTEGER.fullmatch(text) is not None


def export_hashes(rows: Sequence[Row]) -> dict[str, str]:
    """Return the two hashes of an export."""
    return {
        FIGURES_HASH: figures_digest(rows),
        FILE_HASH: digest_of_text(canonical_text(rows)),
    }


def render_json(rows: Sequence[Row]) -> str:
    """Return the export of rows as JSON."""
    lines = []
    for number, row in enumerate(rows, start=1):
        columns: dict[str, object] = {"row": number, **asdict(row)}
        if row.kind == LINE:
            columns["value"] = row.number
        columns["digest"] = row_digest(number, row)
        lines.append(json.dumps(columns, ensure_ascii=False))
    hashes = ", ".join(f'"{name}": "{value}"' for name, value in export_hashes(rows).items())
    return f"{_JSON_HEAD}\n" + ",\n".join(lines) + f"\n], {hashes}}}\n"


def render_csv(rows: Sequence[Row]) -> str:
    """Return the export of rows as CSV. The last two rows are the hashes."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_CSV_COLUMNS)
    for number, row in enumerate(rows, start=1):
        *columns, value = astuple(row)
        cells = [*map(guard, columns), value if row.kind == LINE else guard(value)]
        writer.writerow([number, *cells, row_digest(number, row)])
    blanks = [""] * (len(COLUMNS) - 4)
    for name, value in export_hashes(rows).items():
        writer.writerow(["", "hash", "file", name, *blanks, value, ""])
    return out.getvalue()


RENDERERS: dict[str, Callable[[Sequence[Row]], str]] = {JSON: render_json, CSV: render_csv}


def parse_export(text: str) -> Export:
    """Return the content of a file. Raises ExportError if it is no export at all."""
    if text.startswith(_JSON_HEAD):
        return _parse_lines(JSON, text.split("\n"), _json_row, _json_hashes)
    if text.startswith(",".join(_CSV_COLUMNS)):
        return _parse_lines(CSV, text.split("\r\n"), _csv_row, _csv_hashes)
    raise ExportError(1, "This is not the export of a statement.")


def _parse_lines(
    file_format: str,
    lines: list[str],
    parse_row: Callable[[str], tuple[int, Row, str]],
    parse_hashes: Callable[[list[str]], tuple[int, dict[str, str]]],
) -> Export:
    export = Export(file_format)
    try:
        last, export.hashes = parse_hashes(lines)
    except (ValueError, TypeError, csv.Error):
        last = len(lines)
        export.errors.append(ExportError(last, "The hashes at the end cannot be read."))
    for index, text in enumerate(lines[1:last], start=2):
        try:
            export.rows.append(ExportRow(index, *parse_row(text)))
        except (ValueError, TypeError, KeyError, csv.Error):
            export.errors.append(ExportError(index, f"Row {index - 1} cannot be read."))
    return export


def _json_row(text: str) -> tuple[int, Row, str]:
    columns = json.loads(text.removesuffix(","))
    number, digest = columns.pop("row"), columns.pop("digest")
    values = [columns.pop(name) for name in COLUMNS]
    if values[0] == LINE and type(values[-1]) is int:
        values[-1] = str(values[-1])
    if columns or type(number) is not int or not _is_text([*values, digest]):
        raise ValueError
    return number, Row(*values), digest


def _is_text(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _json_hashes(lines: list[str]) -> tuple[int, dict[str, str]]:
    *_, last, _ = lines
    hashes = json.loads("{" + last.removeprefix("], "))
    if tuple(hashes) != HASHES or not _is_text([*hashes.values()]):
        raise ValueError
    return len(lines) - 2, hashes


def _cells(text: str) -> list[str]:
    (cells,) = csv.reader([text], strict=True)
    return cells


def _csv_row(text: str) -> tuple[int, Row, str]:
    number, *cells, digest = _cells(text)
    if not is_integer(number):
        raise ValueError
    *columns, value = cells
    texts = [*map(unguard, columns), value if cells[0] == LINE else unguard(value)]
    return int(number), Row(*texts), digest


def _csv_hashes(lines: list[str]) -> tuple[int, dict[str, str]]:
    figures, file, _ = lines[-3:]
    cells = [_cells(figures), _cells(file)]
    hashes = {columns[3]: columns[-2] for columns in cells if len(columns) == len(_CSV_COLUMNS)}
    if tuple(hashes) != HASHES:
        raise ValueError
    return len(lines) - 3, hashes
