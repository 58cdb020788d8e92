"""Forms of contractual instruments: add, add a document, and withdraw."""

from decimal import Decimal
from typing import Any

from django import forms

from apps.carbon.market.choices import Granularity, InstrumentKind
from apps.carbon.market.models import Instrument
from apps.carbon.market.services import add_evidence, add_instrument, withdraw_instrument
from apps.carbon.market.validation import InstrumentInput
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.units import UG_PER_G
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.evidence_upload import read_document
from apps.dashboard.forms import DayField, DecimalField, PageForm, TextField

WH_PER_MWH = 1_000_000
_MAX_MWH = 1_000_000
_MAX_VOLUMES = 90_000  # hours of ten years
_PARTS = (("", "The total only"), (Granularity.MONTH, "Months"), (Granularity.HOUR, "Hours"))


def _evidence_field(**options: Any) -> forms.FileField:
    return forms.FileField(
        label="Document", widget=forms.FileInput({"accept": ".pdf,.png,.jpg,.jpeg"}), **options
    )


class InstrumentForm(PageForm):
    """A new instrument. ``instrument`` is the instrument after ``save``."""

    roles = MANAGERS
    instrument: Instrument
    kind = forms.ChoiceField(
        choices=InstrumentKind.choices,
        help_text="A residual mix and a fossil-based factor are published for a whole zone.",
    )
    name = TextField(
        max_length=200, help_text="Of the product, contract or power plant, or the publisher."
    )
    market = TextField(
        max_length=500,
        help_text="Grid zones in which it can be used, separated by commas, such as DE, FR.",
    )
    first_day = DayField(
        label="First day of the vintage",
        help_text="When the electricity is produced or supplied. A published factor: 1 January.",
    )
    last_day = DayField(label="Last day of the vintage", help_text="Included.")
    g_per_kwh = DecimalField(
        label="Emission rate (g CO₂e per kWh)",
        min_value=0,
        decimal_places=6,
        help_text="Direct emissions as stated. Wind, solar and hydropower: 0.",
    )
    volume = DecimalField(
        label="Volume (MWh)",
        required=False,
        min_value=0,
        max_value=_MAX_MWH,
        decimal_places=6,
        help_text="Empty for a tariff without a limit, and for a published factor.",
    )
    granularity = forms.ChoiceField(
        label="Matched by",
        choices=Granularity.choices,
        initial=Granularity.YEAR,
        help_text="The period in which the instrument and the use are compared.",
    )
    volumes_by = forms.ChoiceField(
        label="Volumes are known by",
        required=False,
        choices=_PARTS,
        help_text="With months or hours, leave the total empty and enter the volumes below.",
    )
    volumes = forms.CharField(
        label="Volumes of the months or hours (MWh)",
        required=False,
        widget=forms.Textarea({"rows": 4}),
        help_text="One number for each, from the first day on, separated by line breaks.",
    )
    registry = TextField(max_length=100, required=False, help_text="Such as HKNR or M-RETS.")
    certificates = forms.CharField(
        label="Certificate ids",
        required=False,
        widget=forms.Textarea({"rows": 3}),
        help_text="One id or range for each line, such as GO-1 to GO-500. Each is used once.",
    )
    retired_on = DayField(label="Retired on", required=False, help_text="In the registry.")
    beneficiary = TextField(
        max_length=200, required=False, help_text="For whom the certificates were retired."
    )
    plant_zone = TextField(
        label="Grid zone of the power plant",
        max_length=120,
        required=False,
        widget=forms.TextInput({"list": "instrument-zones", "autocomplete": "off"}),
        help_text="The draft of 2025 needs it.",
    )
    notes = TextField(
        max_length=1000, required=False, help_text="For your lab. No figure depends on them."
    )
    evidence = _evidence_field(
        required=False,
        help_text=(
            "A PDF, PNG or JPEG of up to 5 MiB, such as the cancellation statement. You can add it "
            "later."
        ),
    )

    def save(self) -> str:
        data = self.cleaned_data
        volume = data["volume"]
        volumes = _volumes(data["volumes"])
        self.instrument = add_instrument(
            lab=self.visitor.lab,
            values=InstrumentInput(
                kind=data["kind"],
                name=data["name"],
                market=data["market"].split(","),
                first_day=data["first_day"],
                last_day=data["last_day"],
                ug_per_kwh=int(data["g_per_kwh"] * UG_PER_G),
                volume_wh=None if volume is None else int(volume * WH_PER_MWH),
                granularity=data["granularity"],
                volumes_by=data["volumes_by"] or Granularity.YEAR,
                volumes_wh=volumes or None,
                registry=data["registry"],
                certificates=data["certificates"],
                plant_zone=data["plant_zone"],
                retired_on=data["retired_on"],
                beneficiary=data["beneficiary"],
                notes=data["notes"],
                document=read_document(data["evidence"]),
            ),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"{self.instrument.name} added. The totals are computed again within a minute."

    def add_service_error(self, error: LabCarbonError) -> None:
        if error.field == "ug_per_kwh":
            error.field = "g_per_kwh"
        super().add_service_error(error)


class EvidenceForm(PageForm):
    """Add the document of an instrument that has none."""

    roles = MANAGERS
    action = "document"
    instrument: Instrument
    evidence = _evidence_field(
        help_text="A PDF, PNG or JPEG of up to 5 MiB.",
        error_messages={"required": "Choose a file.", "empty": "The file is empty."},
    )

    def save(self) -> str:
        document = read_document(self.cleaned_data["evidence"])
        assert document is not None  # the field is required
        add_evidence(
            lab=self.visitor.lab,
            instrument=self.instrument,
            document=document,
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "Document added."


class WithdrawInstrumentForm(PageForm):
    """Withdraw an instrument."""

    roles = MANAGERS
    action = "withdraw"
    instrument: Instrument
    reason = TextField(
        max_length=400,
        help_text="Why this instrument must not be used.",
        error_messages={"required": "Enter a reason."},
    )

    def save(self) -> str:
        withdraw_instrument(
            lab=self.visitor.lab,
            instrument=self.instrument,
            reason=self.cleaned_data["reason"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "Instrument withdrawn. The totals are computed again within a minute."


def _volumes(text: str) -> list[int]:
    """Return volumes in Wh from MWh on lines of their own. Raises InvalidInput."""
    lines = text.split()
    if len(lines) > _MAX_VOLUMES:
        raise InvalidInput(
            "There are too many volumes.", field="volumes", hint="Ten years at most."
        )
    volumes = []
    for number, line in enumerate(lines, start=1):
        try:
            value = Decimal(line.replace(",", ".")) * WH_PER_MWH
            is_valid = value.is_finite() and 0 <= value <= _MAX_MWH * WH_PER_MWH
        except ArithmeticError:
            is_valid = False
        if not is_valid or value != int(value):
            raise InvalidInput(
                f"Volume {number}, {line[:20]!r}, is not a number of MWh.",
                field="volumes",
                hint="Enter MWh of up to six decimals, such as 0.25, without a unit.",
            )
        volumes.append(int(value))
    return volumes
