"""Questions about the columns of a file, and the answers that a lab's imports remember."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any

from django.db import transaction

from apps.accounts.models import Lab, User
from apps.assets.choices import ImportState
from apps.assets.models import ColumnMapping, RegisterImport
from apps.assets.spreadsheets.cells import currency_in
from apps.assets.spreadsheets.csv_reader import MAX_ROWS, column_cells, read_lines
from apps.assets.spreadsheets.formats import Header
from apps.assets.spreadsheets.headings import FIELDS
from apps.assets.spreadsheets.rows import Options
from apps.core.errors import Conflict, InvalidInput
from apps.core.spreadsheets.columns import Column
from apps.core.spreadsheets.notation import DATE_ORDERS, DECIMAL_SIGNS, Notation, notation_of
from apps.fleet.choices import CURRENCIES

EXAMPLES = 3  # cells shown of each column
_EXAMPLE_LETTERS = 60
_DATES = frozenset(
    {"bought_on", "in_use_since", "ended_on", "retired_on", "disposed_on", "warranty_until"}
) | {"lease_start", "lease_end"}
_NUMBERS = frozenset({"price", "capacity", "capacity_tb", "capacity_gb", "mass_kg", "mass_g"})
_NAMING = ("name", "model", "tag", "serial")


@dataclass(frozen=True)
class Answers:
    """What a person states about a file. ``columns`` None: not stated."""

    columns: dict[str, str] | None = None
    date_order: str = ""
    decimal: str = ""
    currency: str = ""


@dataclass(frozen=True)
class Questions:
    """How a file can be read, and what a person has to confirm first. ``price_example``: a price
    for which the file names no currency, '' if there is none.
    """

    header: Header
    examples: tuple[tuple[str, ...], ...]
    notation: Notation
    options: Options
    price_example: str

    @property
    def is_open(self) -> bool:
        """Return whether something has to be confirmed."""
        asks_date = self.notation.date_example and not self.options.date_order
        asks_number = self.notation.number_example and not self.options.decimal
        asks_currency = self.price_example and not self.options.currency
        return bool(not self.header.assigned or asks_date or asks_number or asks_currency)

    def payload(self, proposal: Mapping[str, str]) -> dict[str, Any]:
        """Return the questions as stored in the summary of an import, with the proposed field of
        each column.
        """
        return {
            "origin": self.header.origin,
            "columns": [
                {
                    "key": column.key,
                    "heading": column.heading,
                    "field": proposal[column.key],
                    "examples": [
                        text[:_EXAMPLE_LETTERS] for text in list(dict.fromkeys(cells))[:EXAMPLES]
                    ],
                }
                for column, cells in zip(self.header.columns, self.examples, strict=True)
            ],
            "needs_columns": not self.header.assigned,
            "date_example": self.notation.date_example,
            "number_example": self.notation.number_example,
            "date_order": self.options.date_order,
            "decimal": self.options.decimal,
            "price_example": self.price_example,
            "currency": self.options.currency,
        }


def source_of(columns: Sequence[Column]) -> str:
    """Return the digest of a file's headings, in any order."""
    keys = "\n".join(sorted(column.key for column in columns))
    return hashlib.sha256(keys.encode()).hexdigest()


def questions_about(text: str, options: Options) -> Questions:
    """Return how a file can be read with ``options``. Its notation is found in its cells."""
    header, examples = column_cells(text, options.columns, options.separator)

    def cells_of(fields: frozenset[str]) -> chain[str]:
        return chain.from_iterable(
            cells for field, cells in zip(header.fields, examples, strict=True) if field in fields
        )

    notation = Notation()
    if header.foreign:
        notation = notation_of(cells_of(_DATES), cells_of(_NUMBERS))
    found = replace(
        options,
        date_order=notation.date_order or options.date_order,
        decimal=notation.decimal or options.decimal,
    )
    return Questions(header, tuple(examples), notation, found, _bare_price(text, header, options))


def _bare_price(text: str, header: Header, options: Options) -> str:
    """Return the first price for which the file names no currency. A price of 0 needs none.

    In LabCarbon columns it is an error of its line.
    """
    if not header.foreign or "price" not in header.fields or header.currency:
        return ""
    for line in islice(read_lines(text, options.columns, options.separator)[1], MAX_ROWS):
        price = line.cells.get("price", "")
        names_one = line.cells.get("currency") or currency_in(price)
        if re.search("[1-9]", price) and not names_one:
            return price[:30]
    return ""


def remembered(lab: Lab, header: Header) -> Answers:
    """Return what the lab confirmed about files with these headings."""
    row = ColumnMapping.objects.filter(lab=lab, source=source_of(header.columns)).first()
    if row is None:
        return Answers()
    return Answers(row.columns, row.date_order, row.decimal, row.currency)


def proposed(lab: Lab, questions: Questions) -> dict[str, str]:
    """Return the field to propose for each column: the present one, else as the lab assigned the
    heading in other files, else the guess. A field is proposed once.
    """
    if questions.header.assigned:
        pairs = zip(questions.header.columns, questions.header.fields, strict=True)
        return {column.key: field for column, field in pairs}
    earlier: dict[str, str] = {}
    mappings = ColumnMapping.objects.filter(lab=lab, columns__isnull=False)
    for mapping in mappings.order_by("confirmed_us", "pk")[:100]:
        earlier.update(mapping.columns or {})
    fields: dict[str, str] = {}
    for column, guess in zip(questions.header.columns, questions.header.fields, strict=True):
        field = earlier.get(column.key, guess)
        fields[column.key] = "" if field in fields.values() else field
    return fields


def checked_answers(answers: Answers, columns: Sequence[Column]) -> Answers:
    """Return valid answers about a file with ``columns``. Raises InvalidInput with the field."""
    if answers.date_order and answers.date_order not in DATE_ORDERS:
        raise InvalidInput(
            f"{answers.date_order[:10]!r} is not an order of dates.",
            field="date_order",
            hint=f"Use one of {', '.join(DATE_ORDERS)}.",
        )
    if answers.decimal and answers.decimal not in DECIMAL_SIGNS:
        raise InvalidInput(
            f"{answers.decimal[:10]!r} is not a decimal sign.",
            field="decimal",
            hint="Use a comma or a dot.",
        )
    currency = answers.currency.strip().upper()
    if currency and currency not in CURRENCIES:
        raise InvalidInput(
            f"{currency[:10]!r} is not a currency.",
            field="currency",
            hint="Enter three letters such as EUR.",
        )
    answers = replace(answers, currency=currency)
    if answers.columns is None:
        return answers
    return replace(answers, columns=_checked_columns(answers.columns, columns))


def _checked_columns(assigned: Mapping[str, str], columns: Sequence[Column]) -> dict[str, str]:
    keys = {column.key for column in columns}
    for key, field in assigned.items():
        if key not in keys:
            raise InvalidInput(
                f"The file has no column {key[:40]!r}.",
                field="columns",
                hint=f"Its columns: {', '.join(sorted(keys)[:50])}.",
            )
        if field and field not in FIELDS:
            raise InvalidInput(
                f"{field[:40]!r} is not a field.",
                field="columns",
                hint=f"Use one of {', '.join(FIELDS)}, or nothing.",
            )
    used = [field for field in assigned.values() if field]
    double = next((field for field in used if used.count(field) > 1), "")
    if double:
        raise InvalidInput(
            f"Two columns are assigned to {FIELDS[double].lower()!r}.",
            field="columns",
            hint="Assign one of them to nothing.",
        )
    if not set(used) & set(_NAMING):
        raise InvalidInput(
            "No column names the assets.",
            field="columns",
            hint="Assign a column to the name, the model, or the inventory number.",
        )
    return {key: field for key, field in assigned.items() if field}


@transaction.atomic
def answer(*, row: RegisterImport, answers: Answers, by: User | None, now: int) -> None:
    """Save what a person states about a file, for this import and later files with its headings.

    The file has to be read again (see ``csv_import.read_again``). Raises InvalidInput, Conflict.
    """
    if row.state not in {ImportState.MAPPING, ImportState.READ, ImportState.REFUSED}:
        raise Conflict(
            f"This import is in state {row.get_state_display().lower()}.", hint="Reload the page."
        )
    options = Options(**row.options)
    before = questions_about(row.content, options)
    answers = checked_answers(answers, before.header.columns)
    columns = options.columns if answers.columns is None else answers.columns
    after = questions_about(
        row.content,
        replace(
            options,
            columns=columns,
            date_order=answers.date_order,
            decimal=answers.decimal,
            currency=answers.currency or options.currency,
        ),
    )
    if not after.header.assigned:
        raise InvalidInput(
            "The columns are not assigned.",
            field="columns",
            hint="State the field of each column that is to be read.",
        )
    if after.is_open:
        raise _open_question(after)
    row.options = asdict(after.options)
    row.save(update_fields=["options"])
    ColumnMapping.objects.update_or_create(
        lab=row.lab,
        source=source_of(after.header.columns),
        defaults={
            "columns": columns,
            "date_order": answers.date_order,
            "decimal": answers.decimal,
            "currency": after.options.currency if after.price_example else "",
            "confirmed_us": now,
            "confirmed_by": by,
        },
    )


def _open_question(questions: Questions) -> InvalidInput:
    """Return the error about the first question that is not answered."""
    notation, options = questions.notation, questions.options
    for field, example in (
        ("date_order", notation.date_example),
        ("decimal", notation.number_example),
    ):
        if example and not getattr(options, field):
            return InvalidInput(
                f"{example!r} can be read two ways.", field=field, hint="Choose one of both."
            )
    return InvalidInput(
        f"The currency of {questions.price_example!r} is missing.",
        field="currency",
        hint="Enter three letters such as EUR.",
    )
