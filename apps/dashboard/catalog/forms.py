"""Forms of the hardware catalogue: upload a figure, withdraw one, add a model, remove one."""

from decimal import Decimal
from typing import Any

from django import forms

from apps.catalog.choices import FigureMethod, FigureUnit, HardwareKind
from apps.catalog.matching import MOST_KG, Draft, kg_to_ug
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import figure_of
from apps.catalog.services import add_figure, add_model, retire_model, withdraw_figure
from apps.catalog.services.custom_models import checked_year
from apps.core.text import parse_record_number
from apps.dashboard.decorators import MANAGERS, or_not_found
from apps.dashboard.evidence_upload import read_document
from apps.dashboard.forms import DecimalField, PageForm, TextField

_NUMBER_MESSAGES = {"invalid": "Enter a number such as 1234.5, without thousands separators."}


class KilogramField(DecimalField):
    """An optional amount in kg CO₂e. Its cleaned value is in µg."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            **{
                "min_value": 0,
                "max_value": 10 * MOST_KG,
                "required": False,
                "error_messages": _NUMBER_MESSAGES,
                **options,
            }
        )

    def clean(self, value: Any) -> int | None:
        kg = super().clean(value)
        return None if kg is None else kg_to_ug(kg)


def year_field(label: str) -> forms.IntegerField:
    """Return an optional field for a calendar year."""
    return forms.IntegerField(
        label=label,
        required=False,
        min_value=0,
        max_value=10_000,
        widget=forms.TextInput({"inputmode": "numeric"}),
        error_messages={"invalid": "Enter a year as 2024."},
    )


class ModelForm(PageForm):
    """A form of one model's page. ``model`` is that model."""

    roles = MANAGERS
    model: HardwareModel


class FigureForm(ModelForm):
    """Upload a figure of the lab's own."""

    action = "upload"
    total_kg = KilogramField(label="Total")
    low_kg = KilogramField(label="Low")
    high_kg = KilogramField(label="High")
    unit = forms.ChoiceField(label="Per", choices=FigureUnit.choices, initial=FigureUnit.ITEM)
    manufacture_kg = KilogramField(label="Manufacture")
    transport_kg = KilogramField(label="Transport")
    end_of_life_kg = KilogramField(label="End of life")
    includes_end_of_life = forms.TypedChoiceField(
        label="Total includes end of life",
        choices=[("", "Not stated"), ("yes", "Yes"), ("no", "No")],
        coerce=lambda value: value == "yes",
        empty_value=None,
        required=False,
    )
    method = forms.ChoiceField(label="Method", choices=FigureMethod.choices)
    source = TextField(label="Source", max_length=500, help_text="Publisher and title or address.")
    source_year = year_field("Year")
    lifetime_years = DecimalField(
        label="Typical life (years)",
        required=False,
        min_value=0,
        max_value=100,
        error_messages=_NUMBER_MESSAGES,
    )
    note = TextField(label="Note", required=False, max_length=400)
    evidence = forms.FileField(
        label="Document",
        required=False,
        help_text="PDF, at most 5 MiB.",
        widget=forms.ClearableFileInput({"accept": ".pdf,application/pdf"}),
    )
    # Groups of the page, each with its legend.
    sections = (
        ("Embodied carbon in kg CO₂e, without use", ("total_kg", "low_kg", "high_kg", "unit")),
        (
            "Parts of the total",
            ("manufacture_kg", "transport_kg", "end_of_life_kg", "includes_end_of_life"),
        ),
        ("Source", ("method", "source", "source_year", "lifetime_years", "note", "evidence")),
    )

    def fieldsets(self) -> list[tuple[str, list[forms.BoundField]]]:
        """Return the fields in groups, each with its legend."""
        return [(legend, [self[name] for name in names]) for legend, names in self.sections]

    def clean(self) -> dict[str, Any]:
        self.check_fields({"source_year": lambda year: checked_year(year, "source_year")})
        return super().clean() or self.cleaned_data

    def save(self) -> str:
        data = self.cleaned_data
        draft = Draft(
            method=data["method"],
            unit=data["unit"],
            source=data["source"],
            manufacture_ug=data["manufacture_kg"],
            transport_ug=data["transport_kg"],
            end_of_life_ug=data["end_of_life_kg"],
            total_ug=data["total_kg"],
            low_ug=data["low_kg"],
            high_ug=data["high_kg"],
            includes_end_of_life=data["includes_end_of_life"],
            lifetime_years_typical=data["lifetime_years"],
            source_year=data["source_year"],
            note=data["note"],
        )
        visitor = self.visitor
        add_figure(
            lab=visitor.lab,
            model=self.model,
            draft=draft,
            document=read_document(data["evidence"]),
            by=visitor.user,
            now=visitor.now,
        )
        return "Figure saved. It is visible to your lab only."


class WithdrawForm(ModelForm):
    """Withdraw a figure of the lab's own."""

    action = "withdraw"
    figure = forms.CharField(required=False, widget=forms.HiddenInput)

    def save(self) -> str:
        number = parse_record_number(self.cleaned_data["figure"])
        figure = None if number is None else figure_of(self.visitor.lab, number)
        withdraw_figure(
            lab=self.visitor.lab,
            figure=or_not_found(figure, "figure", "the model's page"),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "Figure withdrawn. Existing charges do not change."


class RetireForm(ModelForm):
    """Remove a model of the lab's own from the catalogue."""

    action = "retire"

    def save(self) -> str:
        retire_model(
            lab=self.visitor.lab, model=self.model, by=self.visitor.user, now=self.visitor.now
        )
        return f"{self.model.name} was removed from the catalogue."


MODEL_FORMS = (FigureForm, WithdrawForm, RetireForm)


class NewModelForm(PageForm):
    """Add a model that only this lab sees. ``created`` is the new model."""

    roles = MANAGERS
    created: HardwareModel
    kind = forms.ChoiceField(
        label="Kind",
        choices=HardwareKind.choices,
        error_messages={
            "required": "Choose a kind.",
            "invalid_choice": "Unknown kind. Choose one of the list.",
        },
    )
    name = TextField(
        label="Name",
        max_length=200,
        help_text="As on the invoice, for example Dell PowerEdge R760.",
    )
    aliases = TextField(
        label="Other names",
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
        help_text="One per line. Hardware reported by one of these names is matched to this model.",
    )
    vendor = TextField(label="Vendor", required=False, max_length=60)
    release_year = year_field("Release year")
    tdp_w = DecimalField(
        label="Rated power (W)",
        required=False,
        min_value=0,
        max_value=1_000_000,
        error_messages=_NUMBER_MESSAGES,
    )

    def clean(self) -> dict[str, Any]:
        self.check_fields({"release_year": lambda year: checked_year(year, "release_year")})
        return super().clean() or self.cleaned_data

    def save(self) -> str:
        data, visitor = self.cleaned_data, self.visitor
        watts: Decimal | None = data["tdp_w"]
        self.created = add_model(
            lab=visitor.lab,
            kind=data["kind"],
            name=data["name"],
            aliases=data["aliases"].splitlines(),
            vendor=data["vendor"],
            release_year=data["release_year"],
            tdp_mw=None if watts is None else int(watts * 1000),
            by=visitor.user,
            now=visitor.now,
        )
        return (
            f"{self.created.name} was added to the catalogue of your lab. Upload its embodied "
            "carbon below."
        )
