"""Forms of billing exports: files, accounts and tags, confirmation."""

from collections.abc import Iterable
from typing import Any

from django import forms

from apps.billing.models import BilledMonth, BillingFile
from apps.billing.selectors import earlier_options, known_accounts, known_tags
from apps.billing.services.month_versions import MAX_REASON, confirm, remove_month
from apps.billing.services.uploads import (
    DEFAULT_UTILIZATION,
    Assignment,
    UploadedFile,
    assign,
    upload,
)
from apps.core.errors import TooLarge
from apps.dashboard.forms import PageForm, TextField

MAX_UPLOAD_BYTES = 30 << 20


class FilesInput(forms.FileInput):
    """A file control for several files."""

    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One or several files."""

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        listed = data if isinstance(data, list | tuple) else [data]
        return [super(FilesField, self).clean(each, initial) for each in listed or [None]]


class BillingForm(PageForm):
    """Upload the files of one billing export. ``created`` is the export."""

    created: BillingFile
    files_of_export = FilesField(
        label="Files",
        allow_empty_file=True,
        help_text=(
            "All files of one export, at most 30 MiB together: CSV, newline-delimited JSON, gzip, "
            "or ZIP. For larger ones use manage.py import_billing."
        ),
        widget=FilesInput({"accept": ".csv,.gz,.zip,.json,.jsonl,.ndjson"}),
        error_messages={"required": "Choose a file."},
    )

    def save(self) -> str:
        files = self.cleaned_data["files_of_export"]
        if sum(each.size or 0 for each in files) > MAX_UPLOAD_BYTES:
            raise TooLarge(
                f"The files are larger than {MAX_UPLOAD_BYTES >> 20} MiB.",
                field="files_of_export",
                hint="Compress them with gzip, or use manage.py import_billing.",
            )
        self.created = upload(
            lab=self.visitor.lab,
            files=[UploadedFile(each.name or "", each.chunks()) for each in files],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return ""


class AccountsForm(PageForm):
    """Say which accounts of ``file`` belong to the lab, and which project a tag names."""

    file: BillingFile
    tag_key: str
    utilization = TextField(
        label="Mean utilization of instances (%)",
        max_length=10,
        help_text=(
            "A bill does not contain it. 50 % is the mean that Cloud Carbon Footprint assumes "
            "without measurements."
        ),
        widget=forms.TextInput({"inputmode": "decimal", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        projects = list(self.visitor.lab.projects.order_by("name").values_list("slug", "name"))
        choices = [("", "No project"), *projects]
        known = known_accounts(self.file)
        options = earlier_options(self.file) | self.file.options
        self.fields["utilization"].initial = options.get("utilization", DEFAULT_UTILIZATION)
        self.accounts: list[str] = list(self.file.found.get("accounts", {}))
        for i, account in enumerate(self.accounts):
            stored = known.get(account)
            self.fields[f"account{i}"] = forms.BooleanField(
                label=account or "No account", required=False,
                initial=stored.is_included if stored else bool(account),
            )  # fmt: skip
            slug = stored.project.slug if stored and stored.project else ""
            self._add_project(f"account{i}_project", account or "no account", choices, slug)
        self.values: list[str] = list(self.file.found.get("tags", {}).get(self.tag_key, {}))
        mapped = known_tags(self.file, self.tag_key)
        names = {text.casefold(): slug for slug, name in projects for text in (slug, name)}
        for i, value in enumerate(self.values):
            slug = mapped.get(value, names.get(value.casefold(), ""))
            self._add_project(f"tag{i}", value, choices, slug)

    def _add_project(
        self, name: str, what: str, choices: list[tuple[str, str]], initial: str
    ) -> None:
        self.fields[name] = forms.ChoiceField(
            label=f"Project of {what}",
            required=False,
            choices=choices,
            initial=initial,
            widget=forms.Select({"aria-label": f"Project of {what}"}),
            error_messages={"invalid_choice": "No such project. Choose one of the list."},
        )

    @property
    def account_rows(self) -> Iterable[tuple[str, int, forms.BoundField, forms.BoundField]]:
        """Return account, lines, and the two fields of each account."""
        lines = self.file.found["accounts"]
        return [
            (account, lines[account], self[f"account{i}"], self[f"account{i}_project"])
            for i, account in enumerate(self.accounts)
        ]

    @property
    def tag_rows(self) -> Iterable[tuple[str, int, forms.BoundField]]:
        """Return value, lines and field of each value of the tag."""
        lines = self.file.found.get("tags", {}).get(self.tag_key, {})
        return [(value, lines[value], self[f"tag{i}"]) for i, value in enumerate(self.values)]

    def save(self) -> str:
        data = self.cleaned_data
        assign(
            file=self.file,
            assignment=Assignment(
                accounts={
                    account: (data[f"account{i}"], data[f"account{i}_project"])
                    for i, account in enumerate(self.accounts)
                },
                tag=self.tag_key,
                tags={value: data[f"tag{i}"] for i, value in enumerate(self.values)},
                utilization=data["utilization"].strip(),
            ),
            now=self.visitor.now,
        )
        return ""


class RemoveForm(PageForm):
    """Remove ``month`` with its activities."""

    month: BilledMonth
    reason = TextField(
        label="Reason",
        max_length=MAX_REASON,
        help_text="It is stored with the withdrawn activities.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )

    def save(self) -> str:
        remove_month(
            month=self.month,
            reason=self.cleaned_data["reason"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "The bill was removed. Its activities are withdrawn."


class ConfirmForm(PageForm):
    """Record the months of ``file``."""

    file: BillingFile

    def save(self) -> str:
        confirm(file=self.file, by=self.visitor.user, now=self.visitor.now)
        return ""
