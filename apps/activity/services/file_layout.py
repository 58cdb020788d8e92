"""How a file of activities is read: the fields of its columns, and the notation of its cells."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from apps.activity.kinds import kind_of
from apps.activity.models import ActivityFile
from apps.activity.spreadsheets.fields import DAYS, FIELDS, NUMBERS, guesses
from apps.activity.spreadsheets.rows import Layout, read_header
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.columns import Column
from apps.core.spreadsheets.notation import DATE_ORDERS, DECIMAL_SIGNS, Notation, notation_of

_EXAMPLE_CHARS = 60
_EXAMPLES = 3
_MAX_ROWS = 60_000


@dataclass(frozen=True)
class Answers:
    """What a person states about a file. ``columns``: the field of each column by its key."""

    columns: Mapping[str, str]
    kind: str = ""
    date_order: str = ""
    decimal: str = ""


@dataclass(frozen=True)
class FileColumn:
    """A column of a file with its first cells and the proposed field."""

    key: str
    heading: str
    examples: tuple[str, ...]
    field: str


def headings_digest(columns: Sequence[Column]) -> str:
    """Return the digest of a file's headings, in any order."""
    keys = "\n".join(sorted(column.key for column in columns))
    return hashlib.sha256(keys.encode()).hexdigest()


def columns_of_file(file: ActivityFile) -> list[FileColumn]:
    """Return the columns of a file with the fields to propose: the present ones, those of the
    last file with these headings, or a guess.
    """
    columns, rows = read_header(file.content, file.options["separator"])
    cells: list[list[str]] = [[] for _ in columns]
    for _, row in islice(rows, 50):
        for listed, cell in zip(cells, row, strict=False):
            text = cell.strip()[:_EXAMPLE_CHARS]
            if text and text not in listed and len(listed) < _EXAMPLES:
                listed.append(text)
    fields = file.options.get("columns") or _earlier_fields(file) or guesses(columns)
    return [
        FileColumn(column.key, column.heading, tuple(listed), fields.get(column.key, ""))
        for column, listed in zip(columns, cells, strict=True)
    ]


def earlier_options(file: ActivityFile) -> dict[str, Any]:
    """Return how the lab read its last file with the same headings, {} if there is none."""
    files = ActivityFile.objects.filter(lab=file.lab, headings=file.headings)
    earlier = files.exclude(pk=file.pk).filter(confirmed_us__isnull=False)
    options = earlier.order_by("-confirmed_us").values_list("options", flat=True).first()
    return options or {}


def notation_of_file(file: ActivityFile, columns: Mapping[str, str]) -> Notation:
    """Return how the cells of assigned columns write days and numbers."""
    header, rows = read_header(file.content, file.options["separator"])
    fields = [columns.get(column.key, "") for column in header]
    days: list[str] = []
    numbers: list[str] = []
    for _, row in islice(rows, _MAX_ROWS):
        for field, cell in zip(fields, row, strict=False):
            if field in DAYS:
                days.append(cell.strip())
            elif field in NUMBERS:
                numbers.append(cell.strip())
    return notation_of(days, numbers)


def checked_layout(file: ActivityFile, answers: Answers) -> Layout:
    """Return how a file is read. Raises InvalidInput with the field."""
    header, _ = read_header(file.content, file.options["separator"])
    keys = {column.key for column in header}
    columns = {key: field for key, field in answers.columns.items() if field and key in keys}
    unknown = next((field for field in columns.values() if field not in FIELDS), "")
    if unknown:
        raise InvalidInput(
            f"{unknown[:40]!r} is not a field.", field="columns", hint="Choose one of the list."
        )
    used = list(columns.values())
    double = next((field for field in used if used.count(field) > 1), "")
    if double:
        raise InvalidInput(
            f"Two columns are assigned to {FIELDS[double].lower()!r}.",
            field="columns",
            hint="Ignore one of them.",
        )
    if answers.kind:
        kind_of(answers.kind)
    if bool(answers.kind) == ("kind" in used):
        raise InvalidInput(
            "Either a column or one kind for all rows must be set.",
            field="kind",
            hint="Assign a column to the kind, or choose the kind of all rows.",
        )
    if "month" not in used and "from" not in used:
        raise InvalidInput(
            "No column names the period.",
            field="columns",
            hint="Assign a column to the month, or columns to the first and the last day.",
        )
    notation = notation_of_file(file, columns)
    date_order = notation.date_order or answers.date_order
    decimal = notation.decimal or answers.decimal
    for field, example, answer, allowed in (
        ("date_order", notation.date_example, date_order, DATE_ORDERS),
        ("decimal", notation.number_example, decimal, DECIMAL_SIGNS),
    ):
        if answer and answer not in allowed:
            raise InvalidInput("This is not a choice.", field=field, hint="Choose one of both.")
        if example and not answer:
            raise InvalidInput(
                f"{example!r} can be read two ways.", field=field, hint="Choose one of both."
            )
    return Layout(
        columns,
        answers.kind,
        file.options["separator"],
        date_order,
        decimal,
        file.options["time_zone"],
    )


def stored_layout(layout: Layout) -> dict[str, Any]:
    """Return a layout as stored with a file."""
    return {
        "columns": dict(layout.columns),
        "kind": layout.kind,
        "date_order": layout.date_order,
        "decimal": layout.decimal,
    }


def layout_of(file: ActivityFile) -> Layout:
    """Return the stored layout of a file."""
    options = file.options
    return Layout(
        options["columns"],
        options["kind"],
        options["separator"],
        options["date_order"],
        options["decimal"],
        options["time_zone"],
    )


def _earlier_fields(file: ActivityFile) -> dict[str, str]:
    columns = earlier_options(file).get("columns", {})
    return dict(columns)
