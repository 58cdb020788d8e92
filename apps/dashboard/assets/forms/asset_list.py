"""Forms of the list of assets: actions on selected assets, and their reversal."""

from typing import Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import QueryDict
from django.urls import reverse

from apps.assets.choices import EventKind
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.selectors import assets_of
from apps.assets.services import Entry, record
from apps.assets.services import reverse as reverse_event
from apps.core.errors import Conflict, LabCarbonError
from apps.core.text import parse_record_number
from apps.dashboard.assets.assets_page import PAGE_ROWS, UNDO_ROWS
from apps.dashboard.assets.forms.fields import (
    SELECT_ONE,
    AssetForm,
    ItemsField,
    owner_field,
    parent_field,
    site_field,
)
from apps.dashboard.forms import StartFields


class AssetsField(ItemsField):
    """Numbers of the selected assets, at most one page of them."""

    def to_python(self, value: Any) -> list[int]:  # type: ignore[override]  # numbers in place of texts
        texts = super().to_python(value)
        numbers = [number for text in texts if (number := parse_record_number(text)) is not None]
        if len(numbers) < len(texts):
            raise ValidationError(SELECT_ONE, code="required")
        if len(texts) > PAGE_ROWS:
            raise ValidationError(f"Select at most {PAGE_ROWS} assets (one page).", code="too_many")
        return numbers


class ListForm(AssetForm):
    """A form of the list of assets."""

    def location(self, params: QueryDict) -> str:
        """Return the address of the next page. ``params``: query of the list."""
        return f"{reverse('assets')}?{params.urlencode()}"


class SelectionForm(ListForm):
    """A form with selected assets."""

    item = AssetsField(error_messages={"required": SELECT_ONE})

    def assets(self) -> list[Asset]:
        """Return the selected assets. Raises Conflict if one does not exist."""
        numbers = set(self.cleaned_data["item"])
        assets = list(
            assets_of(self.visitor.lab).select_related("lab").filter(pk__in=numbers).order_by("pk")
        )
        if len(assets) != len(numbers):
            raise Conflict("Some of these assets do not exist.", hint="Reload the page.")
        return assets


class LabelsForm(SelectionForm):
    """Print labels of the selected assets."""

    action = "labels"

    def save(self) -> str:
        self.asset_ids = [asset.pk for asset in self.assets()]
        return ""

    def location(self, params: QueryDict) -> str:
        return f"{reverse('asset-labels')}?" + urlencode(
            [("id", number) for number in self.asset_ids]
        )


class BulkEventForm(SelectionForm, StartFields):
    """Record one event for each selected asset: all or none."""

    day_label = "From"
    done: ClassVar[str] = ""
    owner = owner_field(empty_label="Choose …")
    parent = parent_field()
    site = site_field()

    def details(self) -> dict[str, Any]:
        """Return the values of Entry that this kind of event has."""
        return {}

    def save(self) -> str:
        with transaction.atomic():
            self.events = [self._record(asset) for asset in self.assets()]
        count = len(self.events)
        return f"{count} asset{'' if count == 1 else 's'} {self.done}."

    def _record(self, asset: Asset) -> LifecycleEvent:
        entry = Entry(self.action, self.start_us(), **self.details())
        try:
            return record(asset=asset, entry=entry, by=self.visitor.user, now=self.visitor.now)
        except LabCarbonError as error:
            error.message = f"{asset.name}: {error.message} Nothing was recorded."
            raise

    def location(self, params: QueryDict) -> str:
        params["done"] = ".".join(str(event.pk) for event in self.events)
        return super().location(params)


class BulkTransferForm(BulkEventForm):
    action = EventKind.TRANSFER
    done = "changed owner"

    def clean(self) -> dict[str, Any]:
        super().clean()
        self.ignore_fields("parent", "site")
        if not self.data.get("owner") and "owner" not in self.errors:
            self.add_error("owner", "Choose a project or the lab.")
        return self.cleaned_data

    def details(self) -> dict[str, Any]:
        return {"project": self.cleaned_data["owner"]}


class BulkMoveForm(BulkEventForm):
    action = EventKind.MOVE
    done = "moved"

    def clean(self) -> dict[str, Any]:
        super().clean()
        self.ignore_fields("owner")
        if not (self.cleaned_data.get("parent") or self.cleaned_data.get("site") or self.errors):
            self.add_error("site", "Choose a site, a machine, or both.")
        return self.cleaned_data

    def details(self) -> dict[str, Any]:
        return {"parent": self.cleaned_data["parent"], "site": self.cleaned_data["site"]}


class BulkRetireForm(BulkEventForm):
    action = EventKind.RETIRE
    done = "taken out of use"

    def clean(self) -> dict[str, Any]:
        super().clean()
        self.ignore_fields("owner", "parent", "site")
        return self.cleaned_data


class UndoForm(ListForm):
    """Reverse the events that a bulk action recorded."""

    action = "undo"
    entries = forms.CharField(required=False, widget=forms.HiddenInput)

    @transaction.atomic
    def save(self) -> str:
        texts = self.cleaned_data["entries"].split(".")
        numbers = [number for text in texts if (number := parse_record_number(text)) is not None]
        events = LifecycleEvent.objects.filter(
            asset__lab=self.visitor.lab, pk__in=numbers[:UNDO_ROWS]
        )
        for event in events.select_related("asset__lab").order_by("pk"):
            reverse_event(event=event, by=self.visitor.user, now=self.visitor.now)
        count = len(events)
        return f"{count} event{'' if count == 1 else 's'} reversed."


LIST_FORMS = (BulkTransferForm, BulkMoveForm, BulkRetireForm, LabelsForm, UndoForm)
