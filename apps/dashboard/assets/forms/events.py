"""Forms of an asset's page: lifecycle events, meter, storage, reversal, purchase and facts."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from django import forms

from apps.assets.choices import Amortisation, AssetState, EndOfLife, EventKind, PartsAction
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.selectors import assets_of
from apps.assets.services import (
    Draft,
    Embodied,
    Entry,
    Facts,
    correct_opening,
    default_life_hours,
    describe,
    record,
    reverse,
    set_meter,
    store,
    upgrade,
)
from apps.assets.services.events import standing_rows
from apps.assets.services.validation import MOST_MASS_G
from apps.catalog.choices import HardwareKind
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import match
from apps.core.errors import Conflict, LabCarbonError
from apps.core.text import parse_record_number
from apps.core.units import HOURS_PER_YEAR
from apps.dashboard.assets.asset_page import price_text
from apps.dashboard.assets.event_rows import LifeEffect, effect_of
from apps.dashboard.assets.forms.fields import (
    AssetForm,
    DayField,
    FactsFields,
    KilogramField,
    LabRecordChoiceField,
    NumberField,
    ReasonFields,
    day_start_us,
    meter_field,
    meter_parts,
    named_model,
    owner_field,
    owner_name,
    parent_field,
    site_field,
)
from apps.dashboard.assets.forms.purchase import CONDITIONS, PurchaseFields
from apps.dashboard.decorators import Visitor
from apps.dashboard.forms import ACTION, PageForms, StartFields, TextField

SOURCE_REQUIRED = "Enter the source, such as a data sheet, a study or an estimate."
_DAYS = ("from_day", "from_time")
_REASON = ("evidence", "note")


@dataclass(frozen=True)
class Change:
    """Something to record, and the message for the user when that is done."""

    make: Callable[[], object]
    message: str


class ChangeForm(AssetForm):
    """A form that changes an asset. The change can be previewed before it is recorded.

    ``title`` and ``description``: text of the page.
    """

    asset: Asset
    title: ClassVar[str] = ""
    description: ClassVar[str] = ""

    def concerned(self) -> list[Asset]:
        """Return the assets that the form changes."""
        return [self.asset]

    def change(self) -> Change:
        """Return the change that a valid form describes. Raises LabCarbonError."""
        raise NotImplementedError

    def save(self) -> str:
        change = self.change()
        change.make()
        return change.message

    def preview(self) -> LifeEffect | None:
        """Return the effect of the change on the books; None if the form has errors. Nothing is
        recorded.
        """
        if not self.is_valid():
            return None
        try:
            return effect_of(
                lab=self.visitor.lab,
                assets=self.concerned(),
                change=self.change().make,
                now=self.visitor.now,
            )
        except LabCarbonError as error:
            self.add_service_error(error)
            return None

    def submitted_values(self) -> list[tuple[str, Any]]:
        """Return names and values of the submitted fields, to submit them again."""
        return [(name, self.data[name]) for name in (ACTION, *self.fields) if name in self.data]


class EventForm(ChangeForm, StartFields, ReasonFields):
    """Record a lifecycle event. ``action`` is the kind of the event."""

    def details(self) -> dict[str, Any]:
        """Return the values of Entry that this kind of event has."""
        return {}

    def entry(self) -> Entry:
        """Return the event of a valid form."""
        data = self.cleaned_data
        return Entry(
            EventKind(self.action),
            self.start_us(),
            evidence=data["evidence"],
            note=data["note"],
            **self.details(),
        )

    def change(self) -> Change:
        make = partial(
            record,
            asset=self.asset,
            entry=self.entry(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return Change(make, f"{self.asset.name}: {EventKind(self.action).label.lower()}.")


class DeployForm(EventForm):
    action = EventKind.DEPLOY
    title = "Put into use"


class MoveForm(EventForm):
    action = EventKind.MOVE
    title = "Move"
    parent = parent_field()
    site = site_field()
    field_order = ("parent", "site", *_DAYS, *_REASON)

    def details(self) -> dict[str, Any]:
        return {"parent": self.cleaned_data["parent"], "site": self.cleaned_data["site"]}


class TransferForm(EventForm):
    action = EventKind.TRANSFER
    title = "Change owner"
    owner = owner_field("New owner")
    field_order = ("owner", *_DAYS, *_REASON)

    def details(self) -> dict[str, Any]:
        return {"project": self.cleaned_data["owner"]}


class RepurposeForm(EventForm):
    action = EventKind.REPURPOSE
    title = "Repurpose"
    description = (
        "From this date the asset serves another purpose. Amortisation continues with the "
        "remaining balance."
    )
    end_day = DayField(label="New planned end", help_text="Empty: unchanged.")
    field_order: tuple[str, ...] = ("end_day", *_DAYS, *_REASON)

    def details(self) -> dict[str, Any]:
        end = day_start_us(self, "end_day") if self.cleaned_data["end_day"] else None
        return {"life_end_us": end, "amortisation": self.cleaned_data.get("amortisation", "")}


class LifeChangeForm(RepurposeForm):
    action = EventKind.LIFE_CHANGE
    title = "Change planned life"
    description = (
        "The remaining balance is spread over the new remaining life. Past charges do not change."
    )
    day_label = "Decided"
    amortisation = forms.ChoiceField(
        label="Amortisation", choices=[("", "Unchanged"), *Amortisation.choices], required=False
    )
    field_order = ("end_day", "amortisation", *_DAYS, *_REASON)


class RepairForm(EventForm):
    action = EventKind.REPAIR
    title = "Repair or refurbish"
    description = "If the new part is an asset of its own, use “Swap a part” instead."
    kg = KilogramField(label="Embodied carbon (kg CO₂e)")
    source = TextField(label="Source", required=False, max_length=500)
    counterpart = TextField(label="Repaired by", required=False, max_length=200)
    field_order = ("kg", "source", "counterpart", *_DAYS, *_REASON)

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.cleaned_data.get("kg") is not None:
            self.require_fields({"source": SOURCE_REQUIRED})
        return self.cleaned_data

    def details(self) -> dict[str, Any]:
        data = self.cleaned_data
        embodied = None if data["kg"] is None else Embodied(data["kg"], source=data["source"])
        return {"embodied": embodied, "counterpart": data["counterpart"]}


class LendForm(EventForm):
    action = EventKind.LEND
    title = "Lend"
    service_fields: ClassVar[dict[str, str]] = {**AssetForm.service_fields, "project": "borrower"}
    borrower = LabRecordChoiceField(
        "projects",
        label="Project",
        empty_label="None (outside the lab)",
        help_text="The project is charged for this time.",
    )
    counterpart = TextField(label="Borrower", required=False, max_length=200)
    field_order = ("borrower", "counterpart", *_DAYS, *_REASON)

    def details(self) -> dict[str, Any]:
        return {
            "project": self.cleaned_data["borrower"],
            "counterpart": self.cleaned_data["counterpart"],
        }


class ReturnForm(EventForm):
    action = EventKind.RETURN
    title = "Return from loan"


class RetireForm(EventForm):
    action = EventKind.RETIRE
    title = "Take out of use"
    description = "Amortisation continues. The remaining balance is written off at disposal."


class DisposeForm(EventForm):
    action = EventKind.DISPOSE
    title = "Dispose"
    parts = forms.ChoiceField(
        label="Parts",
        choices=[("", "Choose …"), *PartsAction.choices],
        help_text="Each part has its own book value.",
        error_messages={"required": "Choose what happens to the parts."},
    )
    counterpart = TextField(
        label="Recipient",
        required=False,
        max_length=200,
        widget=forms.TextInput({"placeholder": "Recycler, buyer"}),
    )
    end_of_life = forms.ChoiceField(
        label="End of life", choices=[("", "Unknown"), *EndOfLife.choices], required=False
    )
    mass_kg = NumberField(
        label="Mass (kg)",
        max_value=MOST_MASS_G // 1000,
        help_text="Recycled: the default emissions are 4.69 g CO₂e per kg.",
    )
    kg = KilogramField(
        label="End-of-life emissions (kg CO₂e)",
        help_text="Treatment and transport. Empty: the default, if there is one.",
    )
    service_fields: ClassVar[dict[str, str]] = {**AssetForm.service_fields, "mass": "mass_kg"}
    field_order = ("parts", "end_of_life", "mass_kg", "counterpart", "kg", *_DAYS, *_REASON)

    def __init__(self, visitor: Visitor, *args: Any, **context: Any) -> None:
        super().__init__(visitor, *args, **context)
        disposed = [asset.pk for asset in self.concerned()]
        left = assets_of(visitor.lab).filter(parent__in=disposed).exclude(pk__in=disposed)
        if not left.exists():
            del self.fields["parts"]

    def details(self) -> dict[str, Any]:
        data = self.cleaned_data
        source = data["evidence"] or data["counterpart"]
        embodied = None if data["kg"] is None else Embodied(data["kg"], source=source)
        return {
            "embodied": embodied,
            "counterpart": data["counterpart"],
            "parts": data.get("parts", ""),
            "end_of_life": data["end_of_life"],
            "mass_g": None if data["mass_kg"] is None else int(data["mass_kg"] * 1000),
        }


class UpgradeForm(ChangeForm, StartFields, ReasonFields):
    """Take a part out of an asset, add a new one, or both."""

    action = "upgrade"
    title = "Swap a part"
    out = LabRecordChoiceField(
        "parts",
        label="Removed part",
        empty_label="None",
        help_text="Its remaining balance is written off.",
        error_messages={"invalid_choice": "Not a part of this asset. Choose one of the list."},
    )
    part_name = TextField(label="New part", required=False, max_length=200, help_text="Model name.")
    part_kind = forms.ChoiceField(label="Kind", choices=HardwareKind.choices, required=False)
    part_serial = TextField(label="Serial number", required=False, max_length=120)
    part_kg = KilogramField(
        label="Embodied carbon (kg CO₂e)", help_text="Empty: figure of the catalogue, if any."
    )
    part_source = TextField(label="Source", required=False, max_length=500)
    part_years = NumberField(label="Planned life (years)", max_value=100)
    field_order = (
        "out", "part_name", "part_kind", "part_serial", "part_kg", "part_source", "part_years",
        *_DAYS, *_REASON,
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.cleaned_data.get("part_name"):
            self.require_fields({"part_kind": "Choose the kind of the new part."})
            if self.cleaned_data.get("part_kg") is not None:
                self.require_fields({"part_source": SOURCE_REQUIRED})
        else:
            self.ignore_fields("part_kind", "part_serial", "part_kg", "part_source", "part_years")
        return self.cleaned_data

    def change(self) -> Change:
        data = self.cleaned_data
        make = partial(
            upgrade,
            asset=self.asset,
            out=data["out"],
            new=self._new_part(),
            at_us=self.start_us(),
            evidence=data["evidence"],
            note=data["note"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return Change(make, f"{self.asset.name}: part swapped.")

    def _new_part(self) -> Draft | None:
        """Return the new part. Its figure is the entered value, else that of the catalogue's
        model.
        """
        data = self.cleaned_data
        name, kind, ug = data["part_name"], data["part_kind"], data["part_kg"]
        if not name:
            return None
        known = match(kind, name, self.visitor.lab)
        embodied = None
        if ug is not None:
            embodied = Embodied(ug, source=data["part_source"])
        elif known.figure is not None and known.by == "model" and known.figure.unit == "item":
            embodied = Embodied.of(known.figure)
        years: Decimal | None = data["part_years"]
        entry = Entry(
            EventKind.PURCHASE,
            self.visitor.now,
            embodied=embodied,
            life_hours=default_life_hours(kind) if years is None else int(years * HOURS_PER_YEAR),
            project=self.asset.owner,
        )
        return Draft(Facts(name, kind, model=known.model, serial=data["part_serial"]), entry)


class MeterForm(ChangeForm, StartFields):
    """Set the device or node that measures the use of an asset."""

    action = "meter"
    title = "Set meter"
    meter = meter_field()
    field_order = ("meter", *_DAYS)

    def change(self) -> Change:
        meter = self.cleaned_data["meter"]
        device, node = meter_parts(meter)
        make = partial(
            set_meter,
            asset=self.asset,
            device=device,
            node=node,
            from_us=self.start_us(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        name = str(device) if device else node.name if node else "none"
        return Change(make, f"Meter of {self.asset.name}: {name}.")


class StoreForm(ChangeForm, StartFields):
    """Set the volume that a project stores on an asset."""

    action = "store"
    title = "Set stored volume"
    description = "A file server is charged to projects by the volume that they store."
    owner = owner_field("Project")
    terabytes = NumberField(
        label="Volume (TB)", max_value=10**9, required=True, help_text="0: no longer stored."
    )
    field_order = ("owner", "terabytes", *_DAYS)

    def change(self) -> Change:
        project, terabytes = self.cleaned_data["owner"], self.cleaned_data["terabytes"]
        make = partial(
            store,
            asset=self.asset,
            project=project,
            gigabytes=int(terabytes * 1000),
            from_us=self.start_us(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return Change(make, f"{self.asset.name}: {terabytes} TB stored by {owner_name(project)}.")


class ReverseForm(ChangeForm):
    """Reverse a lifecycle event, or restore a reversed one."""

    action = "reverse"
    entry = forms.CharField(required=False, widget=forms.HiddenInput)
    note = TextField(required=False, max_length=500, widget=forms.HiddenInput)

    def change(self) -> Change:
        number = parse_record_number(self.cleaned_data["entry"]) or 0
        event = LifecycleEvent.objects.filter(asset=self.asset, pk=number).first()
        if event is None:
            raise Conflict(
                "This event does not exist.", hint="Reload the page to see the current events."
            )
        is_restored = event.reverses_id is not None
        message = (
            "Event restored."
            if is_restored
            else f"Event reversed: {event.get_kind_display().lower()}."
        )
        make = partial(
            reverse,
            event=event,
            note=self.cleaned_data["note"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return Change(make, message)


class OpeningForm(PurchaseFields, ChangeForm):
    """Correct how an asset was purchased."""

    action = "opening"
    title = "Correct purchase"
    model_name = TextField(label="Model of the catalogue", required=False, max_length=200)
    model_field = "model_name"

    def hardware_kind(self) -> str:
        return self.asset.kind

    def catalogue_model(self) -> HardwareModel | None:
        return named_model(self, self.asset.kind)

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.cleaned_data.get("figure") != "catalogue":
            self.ignore_fields("model_name")
        return self.cleaned_data

    def change(self) -> Change:
        make = partial(
            correct_opening,
            asset=self.asset,
            entry=self.opening(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return Change(make, f"Purchase of {self.asset.name} corrected.")


class DescribeForm(ChangeForm, FactsFields):
    """Edit the facts about an asset."""

    action = "describe"
    title = "Edit details"
    description = "The price changes the costs. Emissions do not change."
    model_name = TextField(label="Model of the catalogue", required=False, max_length=200)
    field_order = (
        "name", "kind", "model_name", "serial", "tag", "supplier", "order_number", "contact",
        "location", "price", "currency", "warranty", "about",
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        super().clean()
        self.selected_model = named_model(self, self.cleaned_data.get("kind", ""))
        return self.cleaned_data

    def change(self) -> Change:
        facts = self.facts(self.selected_model)
        make = partial(
            describe, asset=self.asset, facts=facts, by=self.visitor.user, now=self.visitor.now
        )
        return Change(make, f"Details of {facts.name} saved.")


EVENT_FORMS: tuple[type[ChangeForm], ...] = (
    DeployForm, MoveForm, TransferForm, LifeChangeForm, RepurposeForm, RepairForm, UpgradeForm,
    ReturnForm, LendForm, MeterForm, StoreForm, RetireForm, DisposeForm,
)  # fmt: skip
CHANGE_FORMS: tuple[type[ChangeForm], ...] = (*EVENT_FORMS, ReverseForm, OpeningForm, DescribeForm)


def initial_values(asset: Asset) -> dict[str, dict[str, Any]]:
    """Return the initial values of the forms of an asset's page, by action."""
    model_name = asset.model.name if asset.model else ""
    opening = next(iter(standing_rows(asset)), None)
    condition = CONDITIONS.get(EventKind(opening.kind), "new") if opening else "new"
    return {
        OpeningForm.action: {"model_name": model_name, "condition": condition},
        DescribeForm.action: {
            "name": asset.name,
            "kind": asset.kind,
            "model_name": model_name,
            "serial": asset.serial,
            "tag": asset.tag,
            "supplier": asset.supplier,
            "order_number": asset.order_number,
            "contact": asset.contact,
            "location": asset.location,
            "price": price_text(asset),
            "currency": asset.currency,
            "warranty": asset.warranty_until,
            "about": asset.note,
        },
    }


def offered_forms(page_forms: PageForms, asset: Asset, *, has_volumes: bool) -> list[ChangeForm]:
    """Return the forms for events that are possible in the state of an asset, in the order of
    the page.
    """
    if asset.state == AssetState.DISPOSED:
        return []
    hidden: set[str] = set()
    if asset.state != AssetState.STOCK:
        hidden.add(DeployForm.action)
    hidden.add(LendForm.action if asset.state == AssetState.LENT else ReturnForm.action)
    if asset.state == AssetState.RETIRED:
        hidden.add(RetireForm.action)
    if asset.kind not in {HardwareKind.STORAGE, HardwareKind.SERVER} and not has_volumes:
        hidden.add(StoreForm.action)
    forms_of_page = (page_forms[form_class.action] for form_class in EVENT_FORMS)
    return [
        form
        for form in forms_of_page
        if isinstance(form, ChangeForm) and (form.action not in hidden or form.is_bound)
    ]
