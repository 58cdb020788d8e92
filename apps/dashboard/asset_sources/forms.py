"""Forms of asset sources, and of decisions about their rows."""

from typing import Any, ClassVar

from django import forms

from apps.dashboard.asset_sources.pages import permitted_addresses
from apps.dashboard.assets.forms.fields import ItemsField
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField
from apps.pollers.choices import Policy, System
from apps.pollers.differences import differences
from apps.pollers.models import AssetSource, PolledRow
from apps.pollers.services.changes import (
    dismiss_changes,
    forget_rows,
    ignore_rows,
    update_asset,
)
from apps.pollers.services.sources import (
    SourceInput,
    accept_loss,
    add_source,
    change_source,
    poll_again,
    remove_source,
    switch_source,
)


def _token_field(label: str, help_text: str) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=4000,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text=help_text,
    )


class SourceForm(PageForm):
    """Base of the forms that describe a source."""

    roles = MANAGERS
    system = forms.ChoiceField(label="Program", choices=System.choices)
    address = forms.ChoiceField(
        label="Address",
        error_messages={"invalid_choice": "This address is not permitted. Choose one of the list."},
    )
    name = TextField(
        label="Name",
        max_length=100,
        widget=forms.TextInput({"placeholder": "NetBox of the institute"}),
        error_messages={"required": "Enter a name."},
    )
    token = _token_field("Token", "One that may only read. Stored encrypted and never displayed.")
    app_token = _token_field("Application token", "GLPI only, if its API client requires one.")
    policy = forms.ChoiceField(label="Policy", choices=Policy.choices, widget=forms.RadioSelect)
    bought_on = TextField(
        label="Purchase date",
        required=False,
        help_text="For rows without one. NetBox and GLPI have none.",
        widget=forms.TextInput({"type": "date"}),
    )
    currency = TextField(
        label="Currency",
        required=False,
        max_length=3,
        help_text="For prices of Snipe-IT.",
        widget=forms.TextInput({"placeholder": "EUR", "size": "4", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        address = self.fields["address"]
        assert isinstance(address, forms.ChoiceField)
        address.choices = [(text, text) for text in permitted_addresses()]

    def values(self) -> SourceInput:
        data = self.cleaned_data
        return SourceInput(
            system=System(data["system"]),
            name=data["name"],
            address=data["address"],
            token=data["token"] or None,
            app_token=data.get("app_token") or None,
            policy=Policy(data["policy"]),
            currency=data["currency"],
            bought_on=data["bought_on"],
        )


class AddSourceForm(SourceForm):
    """A new source. ``source`` is the source after ``save``."""

    source: AssetSource

    def save(self) -> str:
        visitor = self.visitor
        self.source = add_source(
            lab=visitor.lab, values=self.values(), by=visitor.user, now=visitor.now
        )
        return f"{self.source.name} was added. Its first poll starts now."


class ChangeSourceForm(SourceForm):
    action = "save"
    source: AssetSource

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        for name in ("system", "address"):
            self.fields[name].disabled = True
        address = self.fields["address"]
        assert isinstance(address, forms.ChoiceField)
        address.choices = [(self.source.address, self.source.address)]
        address.help_text = "To use another address, add another source."
        if self.source.system != System.GLPI:
            del self.fields["app_token"]
        for name in {"token", "app_token"} & self.fields.keys():
            self.fields[name].help_text = "Leave empty to keep the current one."

    def save(self) -> str:
        visitor = self.visitor
        changed = change_source(
            source=self.source, values=self.values(), by=visitor.user, now=visitor.now
        )
        return f"{changed.name} was saved. It is polled now."


class SourceActionForm(PageForm):
    """Base of the forms of one source without fields."""

    roles = MANAGERS
    source: AssetSource


class PollForm(SourceActionForm):
    action = "poll"

    def save(self) -> str:
        poll_again(source=self.source)
        return "The source is polled now. Reload this page to see the result."


class AcceptLossForm(SourceActionForm):
    action = "accept-loss"

    def save(self) -> str:
        accept_loss(source=self.source, by=self.visitor.user, now=self.visitor.now)
        return "The missing rows are accepted with the next poll, which starts now."


class SwitchForm(SourceActionForm):
    """Base of the forms that enable or disable polling."""

    enabled: ClassVar[bool]
    message_text: ClassVar[str]

    def save(self) -> str:
        visitor = self.visitor
        switch_source(source=self.source, enabled=self.enabled, by=visitor.user, now=visitor.now)
        return self.message_text.format(name=self.source.name)


class EnableForm(SwitchForm):
    action, enabled, message_text = "on", True, "{name} was enabled."


class DisableForm(SwitchForm):
    action, enabled, message_text = "off", False, "{name} was disabled."


class RemoveForm(SourceActionForm):
    action = "remove"

    def save(self) -> str:
        remove_source(source=self.source, by=self.visitor.user, now=self.visitor.now)
        return f"{self.source.name} was removed. Registered assets stay."


class RowsForm(PageForm):
    """Base of the forms about selected rows."""

    roles = MANAGERS
    source: AssetSource
    item = ItemsField(error_messages={"required": "Select at least one row."})

    def rows(self) -> list[PolledRow]:
        """Return the selected rows of the source. Others are ignored: they have left the list."""
        numbers = [
            int(text) for text in self.cleaned_data["item"] if text.isdecimal() and text.isascii()
        ]
        rows = self.source.rows.filter(number__in=[each for each in numbers if each < 2**63])
        return list(rows.select_related("asset__lab", "asset__model").order_by("number"))


class UpdateRowsForm(RowsForm):
    action = "update"

    def save(self) -> str:
        updated, failed = 0, 0
        for row in self.rows():
            changed = differences(row.accepted, row.cells)
            if row.asset is None or not any(each.is_fact for each in changed):
                continue
            is_updated = update_asset(
                source=self.source, row=row, by=self.visitor.user, now=self.visitor.now
            )
            updated, failed = updated + is_updated, failed + (not is_updated)
        text = f"{updated} asset{'' if updated == 1 else 's'} updated."
        return f"{text} {failed} could not be updated, see below." if failed else text


class DismissRowsForm(RowsForm):
    action = "dismiss"

    def save(self) -> str:
        rows = [row for row in self.rows() if row.asset is not None]
        dismiss_changes(source=self.source, rows=rows)
        return f"Changes of {len(rows)} row{'' if len(rows) == 1 else 's'} dismissed."


class IgnoreRowsForm(RowsForm):
    action = "ignore"

    def save(self) -> str:
        ignore_rows(source=self.source, rows=self.rows(), ignored=True)
        poll_again(source=self.source)
        return "The rows are ignored. The source is polled now to renew the proposal."


class IncludeRowsForm(RowsForm):
    action = "include"

    def save(self) -> str:
        ignore_rows(source=self.source, rows=self.rows(), ignored=False)
        poll_again(source=self.source)
        return "The rows are included again. The source is polled now to renew the proposal."


class ForgetRowsForm(RowsForm):
    action = "forget"

    def save(self) -> str:
        forget_rows(source=self.source, rows=self.rows())
        return "The rows were removed from the list. Their assets stay as they are."


SOURCE_FORMS: tuple[type[PageForm], ...] = (
    ChangeSourceForm, PollForm, AcceptLossForm, EnableForm, DisableForm, RemoveForm,
    UpdateRowsForm, DismissRowsForm, IgnoreRowsForm, IncludeRowsForm, ForgetRowsForm,
)  # fmt: skip
