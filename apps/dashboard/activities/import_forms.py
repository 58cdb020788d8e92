"""Forms of the import of activities: file, columns, confirmation."""

from typing import Any

from django import forms

from apps.activity.choices import ActivityKind
from apps.activity.models import ActivityFile
from apps.activity.services.activity_files import MAX_ROWS, assign_columns, confirm, upload
from apps.activity.services.file_layout import (
    Answers,
    FileColumn,
    earlier_options,
    notation_of_file,
)
from apps.activity.spreadsheets.fields import COMMON, FIELDS, INPUTS
from apps.activity.spreadsheets.rows import number_text
from apps.core.errors import TooLarge
from apps.core.spreadsheets.days import day_of
from apps.core.spreadsheets.notation import DATE_ORDERS, DECIMAL_SIGNS
from apps.core.spreadsheets.sources import MAX_BYTES
from apps.dashboard.formatting import grouped
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.import_encodings import ENCODING_NAMES

_CHOICES = [
    ("", "Ignore"),
    ("All kinds", list(COMMON.items())),
    ("Inputs of a kind", [(name, FIELDS[name]) for name in INPUTS]),
]


class ImportForm(PageForm):
    """Upload a file of activities. ``created`` is the file."""

    created: ActivityFile
    file = forms.FileField(
        label="File",
        allow_empty_file=True,
        help_text=f"XLSX or CSV, at most {grouped(MAX_ROWS)} rows and {MAX_BYTES >> 20} MiB.",
        widget=forms.FileInput({"accept": ".xlsx,.csv,.txt,.tsv,text/csv,text/plain"}),
        error_messages={"required": "Choose a file."},
    )
    encoding = forms.ChoiceField(
        label="Encoding",
        required=False,
        choices=[("", "Detect"), *ENCODING_NAMES],
        help_text="Of a CSV file.",
    )
    sheet = TextField(
        label="Sheet",
        required=False,
        max_length=31,
        help_text="Of a workbook. Empty: the first one.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )

    def save(self) -> str:
        data, file = self.cleaned_data, self.cleaned_data["file"]
        if (file.size or 0) > MAX_BYTES:
            raise TooLarge(
                f"The file is larger than {MAX_BYTES >> 20} MiB.", field="file", hint="Split it."
            )
        self.created = upload(
            lab=self.visitor.lab,
            file_name=file.name or "",
            content=file.read(),
            encoding=data["encoding"],
            sheet=data["sheet"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return ""


class MappingForm(PageForm):
    """Assign the columns of ``file``, and state how its days and numbers are read."""

    file: ActivityFile
    columns: list[FileColumn]
    kind = forms.ChoiceField(
        label="Kind of all rows",
        required=False,
        choices=[("", "As the column states"), *ActivityKind.choices],
    )

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        self._options = earlier_options(self.file) | self.file.options
        self.fields["kind"].initial = self._options.get("kind", "")
        for position, column in enumerate(self.columns):
            label = f"Field of {column.heading or f'column {position + 1}'}"
            self.fields[f"column{position}"] = forms.ChoiceField(
                label=label,
                required=False,
                choices=_CHOICES,
                initial=column.field,
                widget=forms.Select({"aria-label": label}),
                error_messages={"invalid_choice": "Not a field. Choose one of the list."},
            )
        self._add_notation()

    def _add_notation(self) -> None:
        """Add fields for days and numbers that can be read two ways, in the columns as posted."""
        columns = {column.key: column.field for column in self.columns}
        if self.is_bound:
            columns = {
                column.key: str(self.data.get(f"column{position}", ""))
                for position, column in enumerate(self.columns)
            }
        notation = notation_of_file(self.file, columns)
        if notation.date_example:
            choices = [(order, _day_choice(notation.date_example, order)) for order in DATE_ORDERS]
            self._add_choice("date_order", notation.date_example, choices)
        if notation.number_example:
            choices = [
                (sign, number_text(notation.number_example, "kwh", sign)) for sign in DECIMAL_SIGNS
            ]
            self._add_choice("decimal", notation.number_example, choices)

    def _add_choice(self, name: str, example: str, choices: list[tuple[str, str]]) -> None:
        self.fields[name] = forms.ChoiceField(
            label=f"“{example}” in this file is",
            choices=choices,
            initial=self._options.get(name, ""),
            widget=forms.RadioSelect,
            error_messages={"required": "Choose one.", "invalid_choice": "Choose one."},
        )

    @property
    def column_fields(self) -> list[forms.BoundField]:
        return [self[f"column{position}"] for position in range(len(self.columns))]

    @property
    def notation_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("date_order", "decimal") if name in self.fields]

    def save(self) -> str:
        data = self.cleaned_data
        columns = {
            column.key: data[f"column{position}"] for position, column in enumerate(self.columns)
        }
        answers = Answers(
            columns, data["kind"], data.get("date_order", ""), data.get("decimal", "")
        )
        assign_columns(file=self.file, answers=answers, now=self.visitor.now)
        return ""


def _day_choice(example: str, order: str) -> str:
    """Return the day that an example is in an order, in words."""
    day = day_of(example, "date_order", order)
    return f"{day.day} {day:%B %Y}"


class ConfirmForm(PageForm):
    """Record the good rows of ``file``."""

    file: ActivityFile

    def save(self) -> str:
        confirm(file=self.file, by=self.visitor.user, now=self.visitor.now)
        return ""
