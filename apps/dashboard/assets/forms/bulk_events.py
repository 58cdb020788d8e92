"""Forms of one lifecycle event for many assets: selection, and one form per kind of event."""

from functools import partial
from typing import Any

from django import forms
from django.http import QueryDict
from django.urls import reverse

from apps.assets.choices import EventKind
from apps.assets.models import Asset
from apps.assets.selectors import assets_of, matching
from apps.assets.services import record_many
from apps.assets.services.events import MOST_ASSETS
from apps.core.errors import Conflict, InvalidInput
from apps.core.text import parse_record_number
from apps.dashboard.assets.assets_page import UNDO_ROWS, parse_filters
from apps.dashboard.assets.forms.events import (
    Change,
    ChangeForm,
    DeployForm,
    DisposeForm,
    EventForm,
    LendForm,
    LifeChangeForm,
    MoveForm,
    RepairForm,
    RepurposeForm,
    RetireForm,
    ReturnForm,
    TransferForm,
)
from apps.dashboard.assets.forms.fields import SELECT_ONE, AssetForm, ItemsField


class BulkSelectionForm(AssetForm):
    """The selected assets: checkboxes of the list, all that match its filters, or numbers."""

    action = "select"
    item = ItemsField(required=False)
    items = forms.CharField(required=False, widget=forms.HiddenInput)
    every = forms.IntegerField(required=False)
    filters = forms.CharField(required=False, widget=forms.HiddenInput)
    record = forms.CharField(required=False, widget=forms.HiddenInput)

    def assets(self) -> list[Asset]:
        """Return the selected assets. Raises InvalidInput, Conflict."""
        data, lab = self.cleaned_data, self.visitor.lab
        rows = assets_of(lab).select_related("lab", "parent").order_by("pk")
        if data["every"] is not None:
            wanted = parse_filters(QueryDict(data["filters"]).dict())
            assets = list(rows.filter(pk__in=matching(lab, wanted).values("pk"))[: MOST_ASSETS + 1])
            if len(assets) <= MOST_ASSETS and len(assets) != data["every"]:
                raise Conflict("The list of assets changed.", hint="Reload it and select again.")
        else:
            texts = [*data["item"], *filter(None, data["items"].split("."))]
            numbers = {parse_record_number(text) or 0 for text in texts}
            assets = list(rows.filter(pk__in=numbers)[: MOST_ASSETS + 1])
            if len(assets) != len(numbers) and len(numbers) <= MOST_ASSETS:
                raise Conflict("Some of these assets do not exist.", hint="Reload the page.")
        if not assets:
            raise InvalidInput(SELECT_ONE, field="item")
        if len(assets) > MOST_ASSETS:
            raise InvalidInput(
                f"More than {MOST_ASSETS} assets are selected.",
                field="item",
                hint=f"Select at most {MOST_ASSETS}.",
            )
        return assets


class BulkEvent(EventForm):
    """Record an event for each of ``assets``: all or none."""

    assets: list[Asset]

    def concerned(self) -> list[Asset]:
        return self.assets

    def change(self) -> Change:
        make = partial(
            record_many,
            assets=self.assets,
            entry=self.entry(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        count = len(self.assets)
        label = EventKind(self.action).label.lower()
        return Change(make, f"{count} asset{'' if count == 1 else 's'}: {label}.")

    def save(self) -> str:
        change = self.change()
        self.events = change.make()
        return change.message

    def location(self) -> str:
        """Return the address of the list, which offers to undo the events."""
        numbers = [str(event.pk) for event in self.events]  # type: ignore[attr-defined]
        done = f"?done={'.'.join(numbers)}" if len(numbers) <= UNDO_ROWS else ""
        return reverse("assets") + done

    def submitted_values(self) -> list[tuple[str, Any]]:
        numbers = ".".join(str(asset.pk) for asset in self.assets)
        return [*super().submitted_values(), ("items", numbers), ("record", "1")]


class BulkDeployForm(BulkEvent, DeployForm):
    pass


class BulkMoveForm(BulkEvent, MoveForm):
    pass


class BulkTransferForm(BulkEvent, TransferForm):
    pass


class BulkLifeChangeForm(BulkEvent, LifeChangeForm):
    pass


class BulkRepurposeForm(BulkEvent, RepurposeForm):
    pass


class BulkRepairForm(BulkEvent, RepairForm):
    pass


class BulkLendForm(BulkEvent, LendForm):
    pass


class BulkReturnForm(BulkEvent, ReturnForm):
    pass


class BulkRetireForm(BulkEvent, RetireForm):
    pass


class BulkDisposeForm(BulkEvent, DisposeForm):
    pass


BULK_FORMS: tuple[type[ChangeForm], ...] = (
    BulkDisposeForm, BulkMoveForm, BulkTransferForm, BulkDeployForm, BulkRetireForm, BulkLendForm,
    BulkReturnForm, BulkRepairForm, BulkLifeChangeForm, BulkRepurposeForm,
)  # fmt: skip
