"""Recognise the format of a billing export, and read its lines. Pure."""

import csv
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

from apps.billing.choices import Provider
from apps.billing.formats import aws, azure, gcp
from apps.billing.formats.line import Line
from apps.core.errors import InvalidInput, TooLarge

MAX_LINE_CHARS = 1 << 20
_HINT = (
    "Export the Cost and Usage Report of AWS or the cost and usage details of Azure as CSV, or the "
    "BigQuery table of Google Cloud as newline-delimited JSON."
)


@dataclass
class Reader:
    """Lines of one text file. ``number``: of the line that is read. ``digest``: of the lines that
    were read, without blank ones and ends of lines: the same use has the same digest.
    """

    provider: Provider
    lines: Iterator[Line] = field(default_factory=lambda: iter(()))
    number: int = 1
    digest: Any = field(default_factory=hashlib.sha256)


def open_reader(text: TextIO) -> Reader:
    """Return a reader of a text file by its first line. Raises InvalidInput."""
    first = text.readline(MAX_LINE_CHARS + 1)
    while first and not first.strip():
        first = text.readline(MAX_LINE_CHARS + 1)
    if not first:
        raise InvalidInput("The file is empty.", field="file", hint=_HINT)
    if len(first) > MAX_LINE_CHARS:
        raise InvalidInput("The first line is too long.", field="file", hint=_HINT)
    if first.lstrip("\ufeff").lstrip().startswith("{"):
        reader = Reader(Provider.GCP)
        reader.lines = gcp.lines(_objects(reader, first.lstrip("\ufeff"), text))
        return reader
    headings = next(csv.reader([first.lstrip("\ufeff")]), [])
    names = {aws.column_name(each.strip()) for each in headings}
    if "line_item_usage_account_id" in names or "line_item_line_item_type" in names:
        _require(Provider.AWS, names, set(aws.REQUIRED))
        _require_once(headings, aws.column_name)
        reader = Reader(Provider.AWS)
        reader.lines = aws.lines(headings, _rows(reader, text, len(headings)))
        return reader
    names = {azure.column_name(each) for each in headings}
    if "metercategory" in names:
        _require(Provider.AZURE, names, set(azure.REQUIRED))
        for each, alternatives in azure.ONE_OF.items():
            if not names & set(alternatives):
                raise InvalidInput(
                    f"The export has no column for the {each}.",
                    field="file",
                    hint=f"Include one of {', '.join(alternatives)}.",
                )
        _require_once(headings, azure.column_name)
        reader = Reader(Provider.AZURE)
        reader.lines = azure.lines(headings, _rows(reader, text, len(headings)))
        return reader
    raise InvalidInput("This is no billing export that LabCarbon reads.", field="file", hint=_HINT)


def _require(provider: Provider, names: set[str], needed: set[str]) -> None:
    missing = sorted(needed - names)
    if missing:
        raise InvalidInput(
            f"The export of {provider.label} lacks {', '.join(missing)}.",
            field="file",
            hint="Include these columns in the export.",
        )


def _require_once(headings: list[str], column_name: Callable[[str], str]) -> None:
    seen: set[str] = set()
    for heading in headings:
        name = column_name(heading.strip())
        if name and name in seen and not heading.lower().startswith("resourcetags/"):
            raise InvalidInput(
                f"The export contains the column {heading[:60]!r} twice.",
                field="file",
                hint="Remove one of them.",
            )
        seen.add(name)


def _rows(reader: Reader, text: TextIO, cells: int) -> Iterator[list[str]]:
    rows = csv.reader(_complete(_bounded(reader, text)), strict=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise InvalidInput(f"The line cannot be read: {error}.", field="file") from error
        if row is None:
            return
        if not row or not any(cell.strip() for cell in row):
            continue
        if len(row) != cells:
            raise InvalidInput(
                f"The line has {len(row)} cells under {cells} headings.",
                field="file",
                hint="Download the export again, and do not edit it.",
            )
        yield row


def _objects(reader: Reader, first: str, text: TextIO) -> Iterator[str]:
    yield from _checked(reader, first)
    for line in _bounded(reader, text):
        if line.strip():
            yield line


def _bounded(reader: Reader, text: TextIO) -> Iterator[str]:
    """Yield the lines of a text after its first one."""
    while line := text.readline(MAX_LINE_CHARS + 1):
        reader.number += 1
        yield from _checked(reader, line)


def _complete(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines of CSV. A last one without its end was cut, perhaps within a number; of JSON the
    end of the object shows that.
    """
    for line in lines:
        if not line.endswith(("\n", "\r")):
            raise InvalidInput(
                "The last line is not complete: it has no end of line.",
                field="file",
                hint="Download the export again.",
            )
        yield line


def _checked(reader: Reader, line: str) -> Iterator[str]:
    if len(line) > MAX_LINE_CHARS:
        raise TooLarge("The line has more than 1 MiB.", field="file")
    reader.digest.update(line.strip().encode("utf-8", "surrogatepass"))
    yield line
