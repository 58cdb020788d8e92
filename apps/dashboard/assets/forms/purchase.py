"""Forms of a new asset: purchase, embodied carbon, service life."""

from decimal import Decimal
from typing import Any, ClassVar, Self

from django import forms
from django.http import HttpRequest
from django.urls import reverse

from apps.assets.amortisation import second_hand_ug
from apps.assets.choices import Amortisation, EventKind
from apps.assets.models import Asset
from apps.assets.services import (
    Draft,
    Embodied,
    Entry,
    default_life_hours,
    embodied_of_configuration,
    register,
)
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import best_figure, models_of
from apps.catalog.server_configuration import FIELDS
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number
from apps.core.units import HOURS_PER_YEAR
from apps.dashboard.assets.forms.fields import (
    MAX_PRICE,
    MAX_YEARS,
    SECOND_HAND_METHODS,
    AssetForm,
    DayField,
    FactsFields,
    KilogramField,
    NumberField,
    ReasonFields,
    day_start_us,
    meter_field,
    meter_parts,
    owner_field,
    parent_field,
    site_field,
)
from apps.dashboard.assets.new_asset_page import Offers, offers
from apps.dashboard.decorators import Visitor
from apps.dashboard.forms import ACTION, StartFields, TextField

# Values of ``condition``; a purchase of a new asset is "new".
CONDITIONS = {EventKind.SECOND_HAND: "used", EventKind.LEASE: "leased"}


def _count(label: str, **options: Any) -> forms.IntegerField:
    """Return an optional field for a whole number."""
    return forms.IntegerField(
        **{
            "label": label,
            "required": False,
            "min_value": 0,
            "widget": forms.TextInput({"inputmode": "numeric"}),
            "error_messages": {"invalid": "Enter a whole number."},
            **options,
        }
    )


class ConfigurationFields(forms.Form):
    """Parts of a server; inherited by page forms. ``configuration_numbers`` reads them."""

    cpus = _count("CPUs")
    cores = _count("Cores per CPU")
    memory_modules = _count("Memory modules")
    module_gb = _count("GB per module")
    ssds = _count("SSDs")
    ssd_gb = _count("GB per SSD")
    hdds = _count("Hard disks")
    power_supplies = _count("Power supplies", help_text="Empty: 2.")
    gpus = _count("GPUs")
    gpu_model = TextField(
        label="GPU model",
        required=False,
        max_length=200,
        help_text="Name in the catalogue. Its figure is added for each GPU.",
    )

    def configuration_numbers(self) -> dict[str, int]:
        """Return the numbers that are entered, by field of a Configuration."""
        data = self.cleaned_data
        return {name: data[name] for name in FIELDS if data.get(name) is not None}


class PurchaseFields(AssetForm, ConfigurationFields, StartFields, ReasonFields):
    """Fields for how an asset was purchased; inherited by page forms. ``opening`` reads them."""

    figure = forms.ChoiceField(
        label="Embodied carbon",
        choices=[
            ("catalogue", "Figure of the catalogue"),
            ("configuration", "Computed from a server's configuration"),
            ("own", "Your own value"),
            ("unknown", "Unknown (not zero)"),
        ],
        widget=forms.RadioSelect,
        error_messages={
            "required": "Choose one of the options.",
            "invalid_choice": "Choose one of the options.",
        },
        initial="catalogue",
    )
    units = forms.IntegerField(
        label="Number of units",
        required=False,
        min_value=1,
        max_value=100_000,
        widget=forms.TextInput({"inputmode": "numeric"}),
        help_text="Only for a figure per TB, GB or kg.",
        error_messages={"invalid": "Enter a whole number."},
    )
    kg = KilogramField(label="Total (kg CO₂e)")
    low_kg = KilogramField(label="Low (kg CO₂e)")
    high_kg = KilogramField(label="High (kg CO₂e)")
    source = TextField(
        label="Source",
        required=False,
        max_length=500,
        widget=forms.TextInput({"placeholder": "Data sheet, study, estimate"}),
    )
    holds_end_of_life = forms.ChoiceField(
        label="Includes end of life",
        choices=[("", "Unknown"), ("yes", "Yes"), ("no", "No")],
        required=False,
    )
    end_of_life_kg = KilogramField(
        label="End of life (kg CO₂e)", help_text="Part of the total, if stated separately."
    )
    condition = forms.ChoiceField(
        label="Acquired as",
        choices=[("new", "New"), ("used", "Second-hand"), ("leased", "Leased")],
        widget=forms.RadioSelect,
        required=False,
        initial="new",
    )
    way = forms.ChoiceField(
        label="Second-hand method",
        choices=list(SECOND_HAND_METHODS.items()),
        required=False,
        initial="cut_off",
        error_messages={"invalid_choice": "Unknown method. Choose one of the list."},
    )
    added_kg = KilogramField(label="Refurbishment, transport (kg CO₂e)")
    used_years = NumberField(label="Years used before", max_value=MAX_YEARS)
    first_life_years = NumberField(
        label="Full service life (years)",
        max_value=MAX_YEARS,
        help_text="Empty: usual value of the kind.",
    )
    paid = NumberField(label="Price paid", max_value=MAX_PRICE)
    price_new = NumberField(
        label="Price when new", max_value=MAX_PRICE, help_text="In the same currency."
    )
    life_years = NumberField(
        label="Planned life (years)",
        max_value=MAX_YEARS,
        help_text="Empty: usual value of the kind.",
    )
    amortisation = forms.ChoiceField(
        label="Amortisation",
        choices=Amortisation.choices,
        required=False,
        initial=Amortisation.LINEAR,
        help_text=(
            "By time: idle time is charged as it passes. By use: the unused rest is charged "
            "at the end of life."
        ),
    )
    owner = owner_field(help_text="Charged for time without use.")
    parent = parent_field()
    site = site_field()
    counterpart = TextField(label="Supplier", required=False, max_length=200)
    day_label = "Purchased"
    model_field: ClassVar[str] = "model"

    def clean(self) -> dict[str, Any]:
        super().clean()
        self._clean_figure()
        self._clean_condition()
        return self.cleaned_data

    def hardware_kind(self) -> str:
        """Return the kind of the asset, '' if the form does not name a valid one."""
        raise NotImplementedError

    def catalogue_model(self) -> HardwareModel | None:
        """Return the model that the form selects; add an error if it does not exist."""
        raise NotImplementedError

    def _clean_figure(self) -> None:
        way = self.cleaned_data.get("figure")
        own_fields = ("kg", "low_kg", "high_kg", "source", "holds_end_of_life", "end_of_life_kg")
        if way != "own":
            self.ignore_fields(*own_fields)
        if way != "catalogue":
            self.ignore_fields("units")
        if way != "configuration":
            self.ignore_fields(*FIELDS, "gpu_model")
        self.embodied: Embodied | None = None
        if way == "own":
            self.require_fields(
                {
                    "kg": "Enter a value.",
                    "source": "Enter the source, such as a data sheet or an estimate.",
                }
            )
            if not any(name in self.errors for name in own_fields):
                self.embodied = self._own_value()
        elif way == "configuration" and self.hardware_kind():
            self._clean_configuration()
        elif way == "catalogue" and self.hardware_kind():
            self._clean_catalogue_figure()

    def _clean_configuration(self) -> None:
        self.require_fields(
            dict.fromkeys(("cpus", "cores", "memory_modules", "module_gb"), "Enter a number.")
        )
        if any(name in self.errors for name in (*FIELDS, "gpu_model")):
            return
        try:
            self.embodied = embodied_of_configuration(
                self.visitor.lab,
                self.hardware_kind(),
                self.configuration_numbers(),
                self.cleaned_data["gpu_model"],
            )
        except InvalidInput as error:
            field = "figure" if error.field == "configuration" else error.field
            self.add_error(field, f"{error.message} {error.hint}")

    def _own_value(self) -> Embodied:
        data = self.cleaned_data
        part = data["end_of_life_kg"]
        includes = (
            True if part is not None else {"yes": True, "no": False}.get(data["holds_end_of_life"])
        )
        return Embodied(
            data["kg"],
            data["low_kg"],
            data["high_kg"],
            end_of_life_ug=part,
            includes_end_of_life=includes,
            source=data["source"],
        )

    def _clean_catalogue_figure(self) -> None:
        model = self.catalogue_model()
        if self.model_field in self.errors:
            return
        figure = best_figure(model, self.visitor.lab) if model else None
        if figure is None:
            self.add_error(
                self.model_field,
                "No figure of the catalogue. Choose a model that has one, or enter your own value.",
            )
            return
        if figure.unit == "item":
            self.ignore_fields("units")
        else:
            self.require_fields(
                {"units": f"The figure is per {figure.get_unit_display()}. Enter a whole number."}
            )
        if "units" not in self.errors:
            self.embodied = Embodied.of(figure, self.cleaned_data["units"] or 1)

    def _clean_condition(self) -> None:
        if self.cleaned_data.get("condition") != "used":
            self.ignore_fields("way", "added_kg")
        way = self.cleaned_data.get("way") or "cut_off"
        if self.cleaned_data.get("condition") != "used" or way != "remaining_life":
            self.ignore_fields("used_years", "first_life_years")
        if self.cleaned_data.get("condition") != "used" or way != "price":
            self.ignore_fields("paid", "price_new")
        if self.cleaned_data.get("condition") != "used" or "way" in self.errors:
            return
        if way != "cut_off" and self.cleaned_data.get("figure") == "unknown":
            self.add_error(
                "way",
                (
                    "A share of an unknown value is unknown. Enter the value when new, or use the "
                    "cut-off."
                ),
            )
        if way == "remaining_life":
            self.require_fields({"used_years": "Enter the years of use before the purchase."})
        if way == "price":
            self.require_fields(
                {"paid": "Enter the price paid.", "price_new": "Enter the price when new."}
            )
            if self.cleaned_data.get("price_new") == 0:
                self.add_error("price_new", "Enter a price above 0, or use the cut-off.")

    def _second_hand(self, life_hours: int) -> Embodied:
        """Return the embodied carbon of a second-hand asset for its new owner."""
        data, new = self.cleaned_data, self.embodied
        way, added = data["way"] or "cut_off", data["added_kg"] or 0
        if way == "cut_off" or new is None:
            source = "second-hand, cut-off: refurbishment and transport alone"
            return Embodied(
                added, includes_end_of_life=False, source=source, figure=new.figure if new else None
            )

        def share(value: int) -> int:
            return second_hand_ug(
                value,
                way=way,
                used_hours=int((data["used_years"] or Decimal(0)) * HOURS_PER_YEAR),
                life_hours=life_hours,
                paid=int((data["paid"] or Decimal(0)) * 100),
                new_price=int((data["price_new"] or Decimal(0)) * 100),
                added_ug=added,
            )

        return Embodied(
            share(new.total_ug),
            share(new.low_ug or new.total_ug),
            share(new.high_ug or new.total_ug),
            includes_end_of_life=new.includes_end_of_life,
            figure=new.figure,
            source=f"{new.source}; second-hand, {SECOND_HAND_METHODS[way].lower()}"[:500],
        )

    def _life_hours(self, name: str) -> int:
        years: Decimal | None = self.cleaned_data[name]
        return (
            default_life_hours(self.hardware_kind())
            if years is None
            else int(years * HOURS_PER_YEAR)
        )

    def opening(self) -> Entry:
        """Return the first lifecycle event that a valid form describes."""
        data = self.cleaned_data
        is_used = data["condition"] == "used"
        return Entry(
            next(
                (kind for kind, value in CONDITIONS.items() if value == data["condition"]),
                EventKind.PURCHASE,
            ),
            self.start_us(),
            embodied=self._second_hand(self._life_hours("first_life_years"))
            if is_used
            else self.embodied,
            life_hours=self._life_hours("life_years"),
            amortisation=data["amortisation"],
            project=data["owner"],
            parent=data["parent"],
            site=data["site"],
            counterpart=data["counterpart"],
            evidence=data["evidence"],
            note=data["note"],
        )


class NewAssetForm(PurchaseFields, FactsFields):
    """Register one asset. ``created`` is the new asset."""

    action = "register"
    created: Asset
    search = TextField(
        label="Model", required=False, max_length=200, help_text="Search the catalogue."
    )
    model = forms.CharField(label="Model of the catalogue", required=False)
    meter = meter_field()
    use = forms.ChoiceField(
        label="In use since",
        choices=[
            ("same", "Purchase"),
            ("other", "Another day"),
            ("stock", "Not yet (in stock, nothing is charged)"),
        ],
        widget=forms.RadioSelect,
        required=False,
        initial="same",
    )
    use_day = DayField(label="First day of use")

    def __init__(self, visitor: Visitor, *args: Any, **context: Any) -> None:
        super().__init__(visitor, *args, **context)
        url = reverse("asset-model-search")
        self.fields["kind"].widget.attrs |= {
            "hx-get": url,
            "hx-target": "#offers",
            "hx-include": "[name=search]",
            "hx-trigger": "change",
        }
        self.fields["search"].widget = forms.TextInput(
            {
                "type": "search",
                "maxlength": "200",
                "autocomplete": "off",
                "hx-get": url,
                "hx-target": "#offers",
                "hx-include": "[name=kind]",
                "hx-trigger": "input changed delay:250ms, search",
            }
        )

    @classmethod
    def from_request(
        cls, request: HttpRequest, visitor: Visitor, *, prefill: bool = True, **options: Any
    ) -> Self:
        """Return the form: bound if it is submitted, else with initial values, also those of a
        search without scripts.
        """
        if request.method == "POST" and request.POST.get(ACTION) == "search":
            initial = {
                name: value for name, value in request.POST.items() if name in cls.base_fields
            }
            return cls(visitor, initial=initial, **options)
        return super().from_request(request, visitor, prefill=prefill, **options)

    def offers(self) -> Offers:
        """Return the models of the catalogue that match the search text."""
        kind, text, selected = (
            str(self[name].value() or "") for name in ("kind", "search", "model")
        )
        return offers(lab=self.visitor.lab, kind=kind, name=text[:200], selected=selected)

    def hardware_kind(self) -> str:
        return str(self.cleaned_data.get("kind", ""))

    def catalogue_model(self) -> HardwareModel | None:
        return self.selected_model

    def _selected_model(self) -> HardwareModel | None:
        text = self.cleaned_data.get("model", "")
        if not text:
            return None
        model = models_of(self.visitor.lab).filter(pk=parse_record_number(text) or 0).first()
        if model is None:
            self.add_error("model", "No such model. Search again or enter your own value.")
        return model

    def clean(self) -> dict[str, Any]:
        self.selected_model = self._selected_model()
        super().clean()
        if self.cleaned_data.get("use") == "other":
            self.require_fields({"use_day": "Enter the first day of use."})
        else:
            self.ignore_fields("use_day")
        return self.cleaned_data

    def _first_use_us(self, purchased_us: int) -> int | None:
        if self.cleaned_data["use"] == "stock":
            return None
        if self.cleaned_data["use"] == "other":
            return day_start_us(self, "use_day")
        return purchased_us

    def save(self) -> str:
        entry = self.opening()
        device, node = meter_parts(self.cleaned_data["meter"])
        draft = Draft(
            self.facts(self.selected_model),
            entry,
            deployed_us=self._first_use_us(entry.at_us),
            device=device,
            node=node,
        )
        self.created = register(
            lab=self.visitor.lab, draft=draft, by=self.visitor.user, now=self.visitor.now
        )
        return f"{self.created.name} is registered."
