"""Forms of the import of a file and of discovered hardware."""

from dataclasses import dataclass, replace
from typing import Any

from django import forms

from apps.assets.choices import ImportState
from apps.assets.discovery import MACHINES, Proposal, registered_keys
from apps.assets.models import Asset, RegisterImport
from apps.assets.services.confirm_discovered import (
    Selection,
    confirm_discovered,
    dismiss,
    propose_again,
)
from apps.assets.services.csv_import import assign_columns, confirm, upload
from apps.assets.services.file_columns import Answers, Questions, questions_about
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.csv_reader import MAX_ROWS
from apps.assets.spreadsheets.headings import FIELDS
from apps.assets.spreadsheets.rows import Options
from apps.catalog.choices import HardwareKind
from apps.core.clock import utc
from apps.core.errors import LabCarbonError, TooLarge
from apps.core.spreadsheets.days import day_of
from apps.core.spreadsheets.notation import DATE_ORDERS, DECIMAL_SIGNS
from apps.core.spreadsheets.sources import MAX_BYTES
from apps.core.units import HOURS_PER_YEAR
from apps.dashboard.assets.forms.fields import SELECT_ONE, ItemsField, LabRecordChoiceField
from apps.dashboard.assets.new_asset_page import LabOptions
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.import_encodings import ENCODING_NAMES

NEW_ASSET = "new"


class ImportForm(PageForm):
    """Upload a file of assets, or rows as text. ``created`` is the new import."""

    roles = MANAGERS
    created: RegisterImport
    file = forms.FileField(
        label="File",
        required=False,
        allow_empty_file=True,
        help_text=f"XLSX or CSV, at most {MAX_ROWS} rows and {MAX_BYTES >> 20} MiB.",
        widget=forms.FileInput({"accept": ".xlsx,.csv,.txt,.tsv,text/csv,text/plain"}),
    )
    lines = forms.CharField(
        label="Or paste rows",
        required=False,
        strip=False,
        widget=forms.Textarea(
            {
                "rows": 6,
                "spellcheck": "false",
                "placeholder": "name,kind,model,serial,tag,bought_on,in_use_since\n"
                "gpu-01/0,gpu,A100-SXM4-80GB,1322021012345,INV-7,2024-03-01,2024-03-15",
            }
        ),
    )
    bought_on = TextField(
        label="Purchase date",
        required=False,
        help_text="For rows without a date.",
        widget=forms.TextInput({"type": "date"}),
    )
    currency = TextField(
        label="Currency",
        required=False,
        help_text="For prices without a currency.",
        widget=forms.TextInput(
            {"maxlength": "3", "size": "4", "autocomplete": "off", "placeholder": "EUR"}
        ),
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
        help_text="Of a workbook. Empty: the first one.",
        widget=forms.TextInput({"maxlength": "31", "autocomplete": "off"}),
    )

    def save(self) -> str:
        data, file = self.cleaned_data, self.cleaned_data["file"]
        if file and (file.size or 0) > MAX_BYTES:
            raise TooLarge(
                f"The file is larger than {MAX_BYTES >> 20} MiB.", field="file", hint="Split it."
            )
        name, content = "pasted.csv", data["lines"].encode("utf-8", "surrogatepass")
        if file:
            name, content = file.name or "", file.read()
        self.created = upload(
            lab=self.visitor.lab,
            file_name=name,
            content=content,
            options=Options(
                currency=data["currency"],
                bought_on=data["bought_on"],
                encoding=(data["encoding"] if file else "utf-8"),
                sheet=data["sheet"],
            ),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return ""


class MappingForm(PageForm):
    """Assign the columns of a file, and state how its dates and numbers are read.

    ``row`` is the import, ``questions`` is what is known about the file, ``proposal`` the field to
    propose for each column.
    """

    roles = MANAGERS
    row: RegisterImport
    questions: Questions
    proposal: dict[str, str]

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        for position, column in enumerate(self.questions.header.columns):
            label = f"Field of {column.heading or f'column {position + 1}'}"
            self.fields[f"column{position}"] = forms.ChoiceField(
                label=label,
                required=False,
                choices=[("", "Ignore"), *FIELDS.items()],
                initial=self.proposal[column.key],
                widget=forms.Select({"aria-label": label}),
                error_messages={"invalid_choice": "Not a field. Choose one of the list."},
            )
        self._add_notation()

    def _add_notation(self) -> None:
        """Add fields for dates and numbers that can be read two ways, and for prices without a
        currency, in the columns as posted.
        """
        questions = self.questions
        if self.is_bound:
            posted = {
                column.key: field
                for position, column in enumerate(questions.header.columns)
                if (field := self.data.get(f"column{position}", "")) in FIELDS
            }
            options = replace(questions.options, columns=posted)
            questions = questions_about(self.row.content, options)
        date_example, number_example = (
            questions.notation.date_example,
            questions.notation.number_example,
        )
        if date_example:
            choices = [(order, _date_choice(date_example, order)) for order in DATE_ORDERS]
            self._add_choice("date_order", date_example, choices)
        if number_example:
            choices = [(sign, _number_choice(number_example, sign)) for sign in DECIMAL_SIGNS]
            self._add_choice("decimal", number_example, choices)
        if questions.price_example:
            self.fields["currency"] = TextField(
                label=f"Currency of “{questions.price_example}” and other prices without one",
                help_text="Three letters, such as EUR.",
                initial=self.questions.options.currency,
                widget=forms.TextInput({"maxlength": "3", "size": "4", "autocomplete": "off"}),
                error_messages={"required": "Enter three letters such as EUR."},
            )

    def _add_choice(self, name: str, example: str, choices: list[tuple[str, str]]) -> None:
        self.fields[name] = forms.ChoiceField(
            label=f"“{example}” in this file is",
            choices=choices,
            initial=getattr(self.questions.options, name),
            widget=forms.RadioSelect,
            error_messages={"required": "Choose one.", "invalid_choice": "Choose one."},
        )

    @property
    def column_fields(self) -> list[forms.BoundField]:
        return [self[f"column{i}"] for i in range(len(self.questions.header.columns))]

    def save(self) -> str:
        data = self.cleaned_data
        columns = {
            column.key: data[f"column{position}"]
            for position, column in enumerate(self.questions.header.columns)
        }
        assign_columns(
            row=self.row,
            answers=Answers(
                columns, *(data.get(name, "") for name in ("date_order", "decimal", "currency"))
            ),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return ""


def _date_choice(example: str, order: str) -> str:
    """Return the day that an example is in an order, in words."""
    day = day_of(example, "date_order", order)
    return f"{day.day} {day:%B %Y}"


def _number_choice(example: str, sign: str) -> str:
    """Return the number that an example is with a decimal sign."""
    micros = cells.price_of(example, "decimal", strict=False, decimal=sign)
    return f"{micros / 1_000_000:,.3f}".rstrip("0").rstrip(".").replace(",", "\u202f")


class ConfirmImportForm(PageForm):
    """Register the assets of an import. ``row`` is the import."""

    roles = MANAGERS
    action = "register"
    row: RegisterImport

    def save(self) -> str:
        confirm(row=self.row, by=self.visitor.user, now=self.visitor.now)
        if self.row.state != ImportState.DONE:
            return ""
        counts = self.row.summary["counts"]
        number, changed = counts.get("new", 0), counts.get("changed", 0)
        registered = f"{number} asset{'' if number == 1 else 's'} registered."
        return f"{registered} {changed} changed." if changed else registered


class DiscoveredForm(PageForm):
    """A form with selected proposals."""

    roles = MANAGERS
    item = ItemsField(error_messages={"required": SELECT_ONE})


@dataclass(frozen=True)
class ProposalFields:
    """The fields of one proposal on the page."""

    item_type: forms.BoundField
    bought_on: forms.BoundField
    life: forms.BoundField
    kind: forms.BoundField | None


class RegisterDiscoveredForm(DiscoveredForm):
    """Register the selected proposals. Each proposal has fields of its own, named by its key."""

    action = "confirm"
    options: LabOptions
    all_proposals: list[Proposal]
    owner = LabRecordChoiceField("projects", label="Owner", empty_label="The lab")

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        owner = self.fields["owner"]
        assert isinstance(owner, LabRecordChoiceField)
        owner.set_options(self.options)
        self.proposals = {each.key: each for each in self.all_proposals if not each.dismissed}
        for proposal in self.proposals.values():
            self._add_fields(proposal)

    def _add_fields(self, proposal: Proposal) -> None:
        key, name = proposal.key, proposal.name
        matches = [
            *([proposal.same] if proposal.same else []),
            *(each for each in proposal.like if each != proposal.same),
        ]
        must_choose = not proposal.same and bool(proposal.like)
        choices = [("", "Choose …")] if must_choose else []
        choices += [
            (NEW_ASSET, "New asset"),
            *((str(each.pk), _match_label(each, proposal)) for each in matches),
        ]
        selected = str(proposal.same.pk) if proposal.same else "" if must_choose else NEW_ASSET
        self.fields[f"as:{key}"] = forms.ChoiceField(
            label=f"Asset for {name}",
            choices=choices,
            initial=selected,
            required=False,
            widget=forms.Select({"aria-label": f"Asset for {name}"}),
            error_messages={"invalid_choice": "No such asset. Choose one of the list."},
        )
        self.fields[f"bought_on:{key}"] = TextField(
            label=f"Purchase date of {name}",
            required=False,
            initial=utc(proposal.since_us).astimezone(self.visitor.zone).date().isoformat(),
            widget=forms.TextInput({"type": "date", "aria-label": f"Purchase date of {name}"}),
        )
        self.fields[f"life:{key}"] = TextField(
            label=f"Planned life of {name} (years)",
            required=False,
            initial=f"{proposal.life_hours / HOURS_PER_YEAR:g}",
            widget=forms.TextInput(
                {
                    "inputmode": "decimal",
                    "size": "3",
                    "aria-label": f"Planned life of {name} in years",
                }
            ),
        )
        if proposal.device is None:
            self.fields[f"kind:{key}"] = forms.ChoiceField(
                label=f"Kind of {name}",
                choices=[(kind, HardwareKind(kind).label) for kind in MACHINES],
                initial=proposal.kind,
                required=False,
                widget=forms.Select({"aria-label": f"Kind of {name}"}),
                error_messages={"invalid_choice": "Not a kind of machine. Choose one of the list."},
            )

    def fields_of(self, proposal: Proposal) -> ProposalFields:
        """Return the fields of a proposal for the page."""
        key = proposal.key
        return ProposalFields(
            self[f"as:{key}"],
            self[f"bought_on:{key}"],
            self[f"life:{key}"],
            self[f"kind:{key}"] if proposal.device is None else None,
        )

    def clean(self) -> dict[str, Any]:
        super().clean()
        selected = set(self.cleaned_data.get("item") or ())
        for key in self.proposals:
            if key not in selected:
                for name in ("as", "bought_on", "life", "kind"):
                    self.errors.pop(f"{name}:{key}", None)
        keys = [
            key
            for key in dict.fromkeys(self.cleaned_data.get("item") or ())
            if key in self.proposals
        ]
        proposed = {each.key for each in self.all_proposals}
        self.registered_keys = registered_keys(self.visitor.lab, selected - proposed)
        if selected - proposed - self.registered_keys:
            self.add_error(
                "item", "A selected item is not in the list. Reload the page and select again."
            )
        self.selections = [
            selection for key in keys if (selection := self._selection(key)) is not None
        ]
        return self.cleaned_data

    def _selection(self, key: str) -> Selection | None:
        """Return the selection of a proposal; None after adding errors to its fields."""
        data, proposal = self.cleaned_data, self.proposals[key]
        asset = None
        if f"as:{key}" not in self.errors:
            target = data[f"as:{key}"]
            if not target and f"as:{key}" not in self.data and not (proposal.like or proposal.same):
                target = NEW_ASSET
            if not target:
                self.add_error(
                    f"as:{key}",
                    (
                        "Choose a new asset or one of the register. An asset that is registered "
                        "twice is counted twice."
                    ),
                )
            matches = [*([proposal.same] if proposal.same else []), *proposal.like]
            asset = next((each for each in matches if str(each.pk) == target), None)
        bought_us = self._parse(
            f"bought_on:{key}", lambda text, name: cells.moment_us(text, name, self.visitor.zone)
        )
        life_hours = self._parse(
            f"life:{key}", lambda text, name: cells.life_hours(text.replace(",", "."), name)
        )
        if (
            bought_us is None
            or life_hours is None
            or f"as:{key}" in self.errors
            or f"kind:{key}" in self.errors
        ):
            return None
        return Selection(
            key, bought_us, life_hours, data.get("owner"), data.get(f"kind:{key}", ""), asset
        )

    def _parse(self, name: str, parse: Any) -> int | None:
        if name in self.errors:
            return None
        try:
            return int(parse(self.cleaned_data[name], name))
        except LabCarbonError as error:
            self.add_error(name, f"{error.message} {error.hint}".strip())
            return None

    def save(self) -> str:
        done = confirm_discovered(
            lab=self.visitor.lab,
            selections=self.selections,
            by=self.visitor.user,
            now=self.visitor.now,
        )
        parts = [f"{done.made} registered"]
        if done.linked:
            parts.append(
                f"{done.linked} linked to {'its meter' if done.linked == 1 else 'their meters'}"
            )
        skipped = len(self.registered_keys) + done.gone
        if skipped:
            parts.append(f"{skipped} already registered")
        return f"{', '.join(parts)}. Embodied carbon is charged within a minute."


def _match_label(asset: Asset, proposal: Proposal) -> str:
    if asset == proposal.same:
        return f"{asset.name[:40]} (registered)"
    return f"{asset.name[:40]}, {asset.tag}" if asset.tag else asset.name[:40]


class DismissForm(DiscoveredForm):
    """Dismiss the selected proposals."""

    action = "dismiss"

    def save(self) -> str:
        number = dismiss(
            lab=self.visitor.lab,
            keys=self.cleaned_data["item"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"{number} dismissed. You can restore them below."


class RestoreForm(DiscoveredForm):
    """Propose dismissed hardware again."""

    action = "restore"

    def save(self) -> str:
        return f"{propose_again(lab=self.visitor.lab, keys=self.cleaned_data['item'])} restored."


DISCOVERED_FORMS = (RegisterDiscoveredForm, DismissForm, RestoreForm)
