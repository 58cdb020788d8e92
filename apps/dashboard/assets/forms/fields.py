"""Base form and fields of asset forms."""

from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.template.defaultfilters import truncatechars

from apps.accounts.models import Project
from apps.assets.selectors import through
from apps.assets.services import Facts
from apps.assets.services.validation import check_currency_code
from apps.catalog.choices import HardwareKind
from apps.catalog.matching import kg_to_ug
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import model_of, suggest
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.intervals import midnight_hour
from apps.core.units import US_PER_HOUR
from apps.dashboard.assets.new_asset_page import LabOptions
from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import DecimalField, PageForm, TextField
from apps.dashboard.periods import local
from apps.fleet.models import Device, Node

SELECT_ONE = "Select at least one asset."
MAX_KG = 1_000_000
MAX_PRICE = 10**9
MAX_YEARS = 100
SECOND_HAND_METHODS = {
    "cut_off": "Cut-off: none of the first life (usual)",
    "remaining_life": "Share of remaining life",
    "price": "Share of purchase price",
}


class NumberField(DecimalField):
    """An optional number from 0 to ``max_value``."""

    def __init__(self, **options: Any) -> None:
        messages = {"invalid": "Enter a number such as 1234.5, without thousands separators."}
        super().__init__(
            **{"min_value": 0, "required": False, "error_messages": messages, **options}
        )


class KilogramField(NumberField):
    """An optional amount in kg CO₂e. Its cleaned value is in µg."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_value": MAX_KG, **options})

    def clean(self, value: Any) -> int | None:
        kg = super().clean(value)
        return None if kg is None else kg_to_ug(kg)


class DayField(forms.DateField):
    """An optional calendar day."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            **{
                "required": False,
                "input_formats": ["%Y-%m-%d"],
                "widget": forms.DateInput({"type": "date"}, format="%Y-%m-%d"),
                "error_messages": {"invalid": "Enter a day as 2027-03-31."},
                **options,
            }
        )


class ItemsField(forms.Field):
    """Values of the selected checkboxes."""

    widget = forms.SelectMultiple

    def to_python(self, value: Any) -> list[str]:
        return list(value or [])


class LabRecordChoiceField(forms.ChoiceField):
    """A choice among records of the lab. ``source`` is the attribute of LabOptions that lists them.

    The cleaned value is the record.
    """

    def __init__(self, source: str, *, empty_label: str | None = None, **options: Any) -> None:
        messages = {
            "invalid_choice": "Not available in this lab. Choose one of the list.",
            "required": "Choose one of the list.",
        }
        super().__init__(**{"required": False, "error_messages": messages, **options})
        self.source = source
        self.empty_label = empty_label
        self.records: dict[str, Any] = {}

    def set_options(self, options: LabOptions) -> None:
        """Offer the records of a lab."""
        listed = getattr(options, self.source)
        self.records = {option.value: option.record for option in listed}
        empty = [] if self.empty_label is None else [("", self.empty_label)]
        self.choices = [
            *empty,
            *((option.value, truncatechars(option.label, 48)) for option in listed),
        ]

    def clean(self, value: Any) -> Any:
        return self.records.get(super().clean(value))


def parent_field() -> LabRecordChoiceField:
    """Return the field for the machine that an asset is built into."""
    return LabRecordChoiceField("machines", label="Part of machine", empty_label="None")


def site_field() -> LabRecordChoiceField:
    """Return the field for a site."""
    return LabRecordChoiceField("sites", label="Site", empty_label="None")


def owner_field(label: str = "Owner", **options: Any) -> LabRecordChoiceField:
    """Return the field for an owner: a project, or the lab (None)."""
    return LabRecordChoiceField("owners", label=label, **options)


def meter_field() -> LabRecordChoiceField:
    """Return the field for the device or node that measures the use of an asset."""
    messages = {
        "invalid_choice": (
            "This meter does not exist or measures another asset. Choose one of the list."
        )
    }
    return LabRecordChoiceField(
        "meters",
        label="Meter",
        empty_label="None (charged to the owner by time)",
        error_messages=messages,
    )


class AssetForm(PageForm):
    """A form about assets. ``options`` lists the records that its fields offer."""

    roles = MANAGERS
    options: LabOptions
    day_label: ClassVar[str] = "Since"
    # Fields of services by their names here, where these differ.
    service_fields: ClassVar[dict[str, str]] = {
        "at": "from_day",
        "embodied": "kg",
        "gigabytes": "terabytes",
        "life": "life_years",
        "life_end": "end_day",
        "project": "owner",
        "warranty_until": "warranty",
    }

    def __init__(self, visitor: Visitor, *args: Any, **context: Any) -> None:
        super().__init__(visitor, *args, **context)
        for field in self.fields.values():
            if isinstance(field, LabRecordChoiceField):
                field.set_options(self.options)
        if "from_day" in self.fields:
            today = local(through(visitor.now) - 1, visitor.zone).date().isoformat()
            day, time = self.fields["from_day"], self.fields["from_time"]
            day.label, day.initial = self.day_label, today
            day.widget.attrs["max"] = today
            time.initial = "00:00"

    def add_service_error(self, error: LabCarbonError) -> None:
        error.field = self.service_fields.get(error.field or "", error.field)
        super().add_service_error(error)

    def ignore_fields(self, *names: str) -> None:
        """Drop the values and errors of fields that the chosen options do not use. Call it in
        ``clean``.
        """
        for name in names:
            self.errors.pop(name, None)
            self.cleaned_data[name] = "" if isinstance(self.fields[name], forms.CharField) else None

    def require_fields(self, messages: dict[str, str]) -> None:
        """Add an error to each field of ``messages`` that is empty. Call it in ``clean``."""
        for name, message in messages.items():
            if name not in self.errors and self.cleaned_data.get(name) in (None, ""):
                self.add_error(name, message)


class ReasonFields(forms.Form):
    """Evidence and note of a lifecycle event; inherited by page forms."""

    evidence = TextField(
        label="Evidence", required=False, max_length=300, help_text="A document number or a link."
    )
    note = TextField(label="Note", required=False, max_length=500)


class FactsFields(forms.Form):
    """Facts about an asset; inherited by page forms. ``facts`` reads them."""

    name = TextField(
        label="Name",
        max_length=200,
        error_messages={"required": "Enter a name, such as model and number."},
    )
    kind = forms.ChoiceField(
        label="Kind",
        choices=HardwareKind.choices,
        error_messages={"invalid_choice": "Unknown kind. Choose one of the list."},
    )
    serial = TextField(label="Serial number", required=False, max_length=120)
    tag = TextField(label="Inventory number", required=False, max_length=60)
    supplier = TextField(label="Supplier", required=False, max_length=200)
    order_number = TextField(label="Order number", required=False, max_length=100)
    contact = TextField(
        label="Contact",
        required=False,
        max_length=200,
        help_text="Who is asked about the asset: a function or a mailbox rather than a person.",
    )
    location = TextField(
        label="Location", required=False, max_length=200, help_text="Room or rack."
    )
    price = NumberField(label="Price", max_value=MAX_PRICE)
    currency = TextField(
        label="Currency",
        required=False,
        max_length=3,
        widget=forms.TextInput({"placeholder": "EUR"}),
    )
    warranty = DayField(label="Warranty until")
    about = TextField(label="Note", required=False, max_length=1000)

    def clean_currency(self) -> str:
        code = str(self.cleaned_data["currency"])
        if self.cleaned_data.get("price") is not None or (code and "price" in self.errors):
            try:
                check_currency_code(code)
            except InvalidInput as error:
                raise ValidationError(f"{error.message} {error.hint}") from error
        return code

    def facts(self, model: HardwareModel | None) -> Facts:
        """Return the facts of a valid form."""
        data = self.cleaned_data
        price: Decimal | None = data["price"]
        return Facts(
            name=data["name"],
            kind=data["kind"],
            model=model,
            serial=data["serial"],
            tag=data["tag"],
            supplier=data.get("supplier", ""),
            order_number=data.get("order_number", ""),
            contact=data.get("contact", ""),
            location=data.get("location", ""),
            price_ucurrency=None if price is None else int(price * 1_000_000),
            currency=data["currency"],
            warranty_until=data["warranty"],
            note=data.get("about", ""),
        )


def named_model(form: AssetForm, kind: str) -> HardwareModel | None:
    """Return the catalogue's model that the field ``model_name`` names; add an error to the
    field if there is none.
    """
    name = form.cleaned_data.get("model_name", "")
    if not name:
        return None
    model = model_of(kind, name, form.visitor.lab)
    if model is None:
        similar = ", ".join(each.name for each in suggest(kind, name, 3, form.visitor.lab))
        hint = (
            f"Similar models: {similar}."
            if similar
            else "Enter another name or leave the field empty."
        )
        form.add_error(
            "model_name", f"The catalogue has no model {name[:60]!r} of this kind. {hint}"
        )
    return model


def day_start_us(form: PageForm, name: str) -> int:
    """Return the start (µs) of a day in the lab's time zone: the first whole UTC hour. ``name``:
    its field.
    """
    return midnight_hour(form.cleaned_data[name], form.visitor.zone) * US_PER_HOUR


def meter_parts(meter: Device | Node | None) -> tuple[Device | None, Node | None]:
    """Return a meter as device and node, one of which is None."""
    return (
        meter if isinstance(meter, Device) else None,
        meter if isinstance(meter, Node) else None,
    )


def owner_name(project: Project | None) -> str:
    """Return the name of an owner."""
    return project.name if project else "the lab"
