"""Forms of the page of the electricity prices of a site: a tariff, and a file of hourly prices."""

from typing import Any

from django import forms

from apps.core.errors import InvalidInput, TooLarge
from apps.core.spreadsheets.sources import base_name
from apps.core.text import parse_record_number
from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import PageForm, StartFields, TextField
from apps.dashboard.prices.prices_page import FilePreview, file_preview
from apps.fleet.models import Site, SitePrice
from apps.fleet.price_files import MAX_BYTES, MAX_ROWS, BadPriceRow, decode, parse_prices
from apps.fleet.selectors import hourly_prices_at
from apps.fleet.services import (
    check_currency,
    check_time_zone,
    record_hourly_prices,
    set_tariff,
    withdraw_hourly_prices,
)
from apps.fleet.services.prices import MAX_FILE_NAME
from apps.fleet.tariffs import EXAMPLE, BadTariff, parse_tariff

UPDATED = "Costs are updated within a minute."
MAX_TEXT = 4000


class PricesForm(PageForm):
    """A form of the page of the prices of a site."""

    roles = MANAGERS
    site: Site

    currency = TextField(
        max_length=3, error_messages={"required": "Enter three letters, e.g. EUR."}
    )

    def __init__(self, visitor: Visitor, *arguments: Any, **options: Any) -> None:
        super().__init__(visitor, *arguments, **options)
        if not self.fields["currency"].widget.is_hidden:
            self.fields["currency"].widget.attrs.update({"placeholder": "EUR", "size": "4"})
            self.initial.setdefault("currency", visitor.lab.currency)

    def clean_currency(self) -> str:
        return str(self.cleaned_data["currency"]).upper()

    def clean(self) -> dict[str, Any]:
        self.check_fields({"currency": check_currency})
        return super().clean() or self.cleaned_data


class TariffForm(PricesForm, StartFields):
    """Record a time-of-use tariff from a day on."""

    action = "tariff"

    periods = forms.CharField(
        label="Prices per kWh",
        max_length=MAX_TEXT,
        widget=forms.Textarea({"rows": 4, "placeholder": EXAMPLE, "spellcheck": "false"}),
        help_text="A line for each period: days, local hours, price. “other” is all other hours.",
        error_messages={"required": "Enter the prices, such as Mon-Fri 07-20 0.34."},
    )
    time_zone = TextField(
        max_length=64, error_messages={"required": "Enter a name such as Europe/Berlin."}
    )
    from_time = None  # type: ignore[assignment]
    field_order = ("periods", "currency", "time_zone", "from_day")

    def __init__(self, visitor: Visitor, *arguments: Any, **options: Any) -> None:
        super().__init__(visitor, *arguments, **options)
        self.initial.setdefault("time_zone", visitor.lab.time_zone)

    def clean_periods(self) -> str:
        text = str(self.cleaned_data["periods"])
        try:
            return parse_tariff(text).text
        except BadTariff as error:
            raise forms.ValidationError([*error.errors]) from error

    def clean(self) -> dict[str, Any]:
        self.check_fields({"time_zone": check_time_zone})
        return super().clean()

    def save(self) -> str:
        data = self.cleaned_data
        set_tariff(
            site=self.site,
            periods=data["periods"],
            time_zone=data["time_zone"],
            currency=data["currency"],
            from_us=self.start_us(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"Time-of-use tariff recorded. {UPDATED}"


class HoursForm(PricesForm):
    """Read a file of hourly prices. ``preview`` is its effect, ``bad_rows`` its errors."""

    action = "hours"
    preview: FilePreview | None = None
    bad_rows: tuple[BadPriceRow, ...] = ()
    text = ""

    file = forms.FileField(
        label="File",
        allow_empty_file=True,
        help_text=f"CSV in UTF-8, at most {MAX_ROWS:,} rows and {MAX_BYTES >> 20} MiB.",
        widget=forms.FileInput({"accept": ".csv,text/csv,text/plain"}),
        error_messages={"required": "Choose a file."},
    )
    field_order = ("file", "currency")

    @property
    def initial_record(self) -> dict[str, str]:
        """Return the values of the form that records the previewed file."""
        return {
            "text": self.text,
            "file_name": self.file_name,
            "currency": self.cleaned_data["currency"],
        }

    @property
    def file_name(self) -> str:
        return base_name(self.cleaned_data["file"].name or "")[:MAX_FILE_NAME]

    def save(self) -> str:
        """Read the file; nothing is recorded."""
        upload, currency = self.cleaned_data["file"], self.cleaned_data["currency"]
        if (upload.size or 0) > MAX_BYTES:
            raise TooLarge(
                f"The file is larger than {MAX_BYTES >> 20} MiB.", field="file", hint="Split it."
            )
        self.text = decode(upload.read())
        file = parse_prices(self.text)
        self.bad_rows = file.bad_rows
        if file.bad_rows:
            self.add_error(
                "file",
                f"{len(file.bad_rows):,} wrong rows, listed below. Nothing was recorded. Correct "
                "them and upload the file again.",
            )
            return ""
        self.preview = file_preview(
            lab=self.visitor.lab,
            site=self.site,
            file=file,
            currency=currency,
            write=lambda: record_prices(self.site, self.visitor, self.text, "", currency),
        )
        return ""


class RecordHoursForm(PricesForm):
    """Record the hourly prices of a previewed file."""

    action = "record-hours"

    currency = TextField(max_length=3, widget=forms.HiddenInput)
    file_name = TextField(required=False, max_length=MAX_FILE_NAME, widget=forms.HiddenInput)
    text = forms.CharField(
        max_length=MAX_BYTES, strip=False, widget=forms.Textarea({"hidden": True})
    )

    def save(self) -> str:
        data = self.cleaned_data
        price = record_prices(
            self.site, self.visitor, data["text"], data["file_name"], data["currency"]
        )
        return f"{price.content['hours']:,} hourly prices recorded. {UPDATED}"


class WithdrawHoursForm(PageForm):
    """Withdraw the hourly prices of a file."""

    roles = MANAGERS
    action = "withdraw-hours"
    site: Site

    price = TextField(required=False, widget=forms.HiddenInput)

    def save(self) -> str:
        number = parse_record_number(self.cleaned_data["price"])
        price = None if number is None else hourly_prices_at(self.site).filter(pk=number).first()
        if price is None:
            raise InvalidInput("No such file.", hint="Choose one of the files below.")
        withdraw_hourly_prices(price=price, by=self.visitor.user, now=self.visitor.now)
        return f"Hourly prices withdrawn: what they replaced applies again. {UPDATED}"


def record_prices(
    site: Site, visitor: Visitor, text: str, file_name: str, currency: str
) -> SitePrice:
    """Record the hourly prices of a file."""
    return record_hourly_prices(
        site=site,
        text=text,
        file_name=file_name,
        currency=currency,
        by=visitor.user,
        now=visitor.now,
    )


PRICES_FORMS: tuple[type[PageForm], ...] = (
    TariffForm,
    HoursForm,
    RecordHoursForm,
    WithdrawHoursForm,
)
