"""Forms of the pages of nodes and sites: overhead, moves, enrolment, new sites and the dated
facts of a site.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from apps.catalog.selectors import HostPower, host_powers
from apps.core.errors import Conflict, Forbidden, InvalidInput, LabCarbonError, NotFound
from apps.core.text import parse_record_number
from apps.core.units import PPM, US_PER_S
from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import (
    DecimalField,
    PageForm,
    SiteField,
    StartFields,
    StartOrAlwaysFields,
    TextField,
)
from apps.dashboard.nodes.change_preview import Effect, effect_of, site_facts_after
from apps.dashboard.setup.services import SITE_KINDS, zone_code
from apps.fleet.choices import Control, SiteKind
from apps.fleet.models import Node, Site
from apps.fleet.selectors import site_fact, sites_of, stays_of
from apps.fleet.services import (
    check_currency,
    correct_place,
    correct_pue,
    correct_zone,
    create_site,
    delete_site,
    issue_enrolment_code,
    move_node,
    rename_node,
    rename_site,
    set_control,
    set_price,
    set_pue,
    set_static_power,
    set_zone,
    undo_move,
    withdraw_site_fact,
)
from apps.fleet.services.nodes import MAX_NAME
from apps.runs.services.messages import accept_messages, discard_messages

MAX_WATTS = 100_000
MAX_PRICE = 1_000_000
OWN_POWER, UNKNOWN_POWER = "own", "unknown"
FACTS = {"zone": "grid zone", "pue": "PUE", "price": "price"}
RECALCULATED = "Emissions are recalculated in the background."
MACHINE_NAMES = {
    "gpu_server_8": "8-GPU server",
    "server_2_socket": "2-socket server",
    "server_1_socket": "1-socket server",
}


def _number_errors(message: str) -> dict[str, str]:
    return dict.fromkeys(
        ("required", "invalid", "min_value", "max_value", "max_digits", "max_whole_digits"), message
    )


class ZoneField(TextField):
    """A grid zone by code, name or label, offered by the list ``zones`` of the page. The cleaned
    value is the code.
    """

    def __init__(self, **options: Any) -> None:
        messages = {"required": "Enter a country such as Germany, or its code DE."}
        super().__init__(label="Country or zone", **{"error_messages": messages, **options})
        self.widget.attrs.update({"list": "zones", "autocomplete": "off"})

    def clean(self, value: Any) -> str:
        text = super().clean(value)
        try:
            return zone_code(text)
        except InvalidInput as error:
            raise ValidationError(f"{error.message} {error.hint}", code="invalid") from error


class PreviewedForm(PageForm):
    """A form that shows the figures which it would change before it is saved."""

    roles = MANAGERS

    def preview(self) -> Effect | None:
        """Return the effect of saving the form, which is rolled back; None if the form has
        errors.
        """
        self.visitor.require_role(self.roles)
        if not self.is_valid():
            return None
        lab, now = self.visitor.lab, self.visitor.now
        try:
            return effect_of(lab=lab, after=site_facts_after(lab, self.save), now=now)
        except (Forbidden, NotFound):
            raise
        except LabCarbonError as error:
            self.add_service_error(error)
            return None

    @property
    def author(self) -> dict[str, Any]:
        """Return the arguments of services that record who changes what when."""
        return {"by": self.visitor.user, "now": self.visitor.now}


def power_label(default: HostPower) -> str:
    """Return a default of the catalogue: '2-socket server: 125.5 W (51.5–218 W)'."""
    low, watts, high = (
        f"{value / 1000:g}" for value in (default.low_mw, default.static_mw, default.high_mw)
    )
    return f"{MACHINE_NAMES.get(default.kind, default.kind)}: {watts} W ({low}–{high} W)"


class OverheadForm(PageForm):
    """The static power of a node outside its device meters: a typed value, a default of the
    catalogue, or unknown.
    """

    roles = MANAGERS
    node: Node

    choice = forms.ChoiceField(label="Source", required=False)
    watts = DecimalField(
        label="Power (W)",
        required=False,
        min_value=0,
        max_value=MAX_WATTS,
        help_text="For your own value: the reading of a plug meter at idle, minus the GPUs.",
        error_messages=_number_errors(f"Enter watts between 0 and {MAX_WATTS}, e.g. 45."),
    )

    def __init__(self, visitor: Visitor, *arguments: Any, **options: Any) -> None:
        super().__init__(visitor, *arguments, **options)
        self._defaults = {default.kind: default for default in host_powers()}
        self.fields["choice"].choices = [  # type: ignore[attr-defined]
            (OWN_POWER, "Your own value, in W"),
            *((kind, power_label(default)) for kind, default in self._defaults.items()),
            (UNKNOWN_POWER, "Unknown"),
        ]

    def clean(self) -> dict[str, Any]:
        choice = self.cleaned_data.get("choice") or OWN_POWER
        if choice != OWN_POWER:
            self.errors.pop("watts", None)
        elif self.cleaned_data.get("watts") is None and "watts" not in self.errors:
            self.add_error("watts", self.fields["watts"].error_messages["required"])
        return self.cleaned_data

    def save(self) -> str:
        set_static_power(
            node=self.node,
            static_power_mw=self._static_power_mw(),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return (
            f"Node overhead saved. All hours of {self.node.name} are recalculated in the "
            "background."
        )

    def _static_power_mw(self) -> int | None:
        choice = self.cleaned_data["choice"] or OWN_POWER
        if choice == UNKNOWN_POWER:
            return None
        if choice in self._defaults:
            return self._defaults[choice].static_mw
        return int(self.cleaned_data["watts"] * 1000)


class NameForm(PageForm):
    """Set the display name of a node. An empty one removes it."""

    roles = MANAGERS
    node: Node

    name = TextField(
        label="Name",
        required=False,
        max_length=MAX_NAME,
        help_text="Empty: the hostname that the collector reports.",
    )

    def save(self) -> str:
        node = rename_node(
            node=self.node,
            name=self.cleaned_data["name"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"The name of this node is {node.name}."


class RefusedMessagesForm(PageForm):
    """Accept or discard the refused messages of a node about one run."""

    roles = MANAGERS
    node: Node

    ACCEPT, DISCARD = "accept", "discard"
    decision = forms.ChoiceField(choices=[(ACCEPT, "Accept"), (DISCARD, "Discard")])
    run = forms.UUIDField(
        error_messages=dict.fromkeys(("required", "invalid"), "Reload the page and try again.")
    )

    def save(self) -> str:
        decide = {"node": self.node, "run_uuid": self.cleaned_data["run"]}
        decide |= {"by": self.visitor.user, "now": self.visitor.now}
        if self.cleaned_data["decision"] == self.ACCEPT:
            run = accept_messages(**decide)
            return f"Run {run.name} is reported by {self.node.name} now."
        discard_messages(**decide)
        return "Messages discarded. The run is unchanged."


class MoveForm(PreviewedForm, StartOrAlwaysFields):
    """Move a node to another site from an hour on, or correct its whole history."""

    action = "move"
    node: Node

    site = SiteField(empty_label="Choose a site")
    field_order = ("site", "when", "from_day", "from_time")

    def save(self) -> str:
        site: Site = self.cleaned_data["site"]
        if self.always:
            correct_place(node=self.node, site=site, **self.author)
            return f"{self.node.name} was always at {site}. {RECALCULATED}"
        move_node(node=self.node, site=site, from_us=self.start_us(), **self.author)
        if self.start_us() > self.visitor.now:
            return f"Planned: {self.node.name} moves to {site} on {self.start_text()}."
        return f"{self.node.name} moved to {site}. {RECALCULATED}"

    def start_text(self) -> str:
        """Return the day of the move in the lab's time zone."""
        day = datetime.fromtimestamp(self.start_us() // US_PER_S, tz=self.visitor.zone)
        return f"{day.day} {day:%b %Y}"


class UndoMoveForm(PreviewedForm):
    """Withdraw the latest move of a node."""

    action = "undo"
    node: Node

    placement = TextField(required=False, widget=forms.HiddenInput)

    def save(self) -> str:
        number = self.cleaned_data["placement"]
        placement = next(
            (stay.placement for stay in stays_of(self.node) if str(stay.placement.pk) == number),
            None,
        )
        if placement is None:
            raise Conflict(
                "This move no longer exists.", hint="Reload the page to see the current history."
            )
        undo_move(placement=placement, **self.author)
        return f"Move to {placement.site} withdrawn. {RECALCULATED}"


class EnrolForm(PageForm):
    """Create an enrolment code for a machine at a site. A lab with one site needs no choice."""

    roles = MANAGERS
    code = ""

    site = SiteField(
        empty_label="Choose a site",
        help_text="Its grid zone and PUE are used to calculate the machine's emissions.",
    )

    def __init__(self, visitor: Visitor, *arguments: Any, **options: Any) -> None:
        super().__init__(visitor, *arguments, **options)
        sites = sites_of(visitor.lab)
        self.fields["site"].queryset = sites  # type: ignore[attr-defined]
        first_sites = list(sites[:2])
        self.only_site = first_sites[0] if len(first_sites) == 1 else None
        if len(first_sites) < 2:
            del self.fields["site"]

    @property
    def selected_site(self) -> Site | None:
        """Return the site of the code: the lab's only one, or the selected one."""
        return self.cleaned_data.get("site", self.only_site) if self.is_bound else self.only_site

    def save(self) -> str:
        visitor = self.visitor
        self.code = issue_enrolment_code(
            lab=visitor.lab, site=self.selected_site, by=visitor.user, now=visitor.now
        )
        return "Code created."


class CreateSiteForm(PageForm):
    """Create a site."""

    roles = MANAGERS
    site: Site | None = None

    name = TextField(
        max_length=200, error_messages={"required": "Enter a name, e.g. Machine room."}
    )
    kind = forms.ChoiceField(label="Kind", choices=SITE_KINDS, help_text="Sets the first PUE.")
    zone = ZoneField(required=False, help_text="Without a zone, emissions are unknown.")

    def save(self) -> str:
        data = self.cleaned_data
        self.site = create_site(
            lab=self.visitor.lab,
            name=data["name"],
            kind=SiteKind(data["kind"]),
            zone=data["zone"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return f"{self.site.name} created. Enrol nodes at it, or move nodes to it."


class SiteForm(PreviewedForm):
    """A form of the page of one site."""

    site: Site


class ZoneForm(SiteForm, StartOrAlwaysFields):
    """Record the grid zone of a site."""

    action = "zone"

    zone = ZoneField()
    field_order = ("zone", "when", "from_day", "from_time")

    def save(self) -> str:
        zone = self.cleaned_data["zone"]
        if self.always:
            correct_zone(site=self.site, zone=zone, **self.author)
            return (
                f"Grid zone corrected: {zone} for the whole history of {self.site.name}. "
                f"{RECALCULATED}"
            )
        set_zone(site=self.site, zone=zone, from_us=self.start_us(), **self.author)
        return f"Grid zone {zone} recorded. {RECALCULATED}"


class PueForm(SiteForm, StartOrAlwaysFields):
    """Record the PUE of a site."""

    action = "pue"

    pue = DecimalField(
        label="PUE",
        min_value=1,
        max_value=5,
        error_messages=_number_errors("Enter a number from 1 to 5, e.g. 1.4."),
    )
    note = TextField(required=False, max_length=200, help_text="Optional: the source of the value.")
    field_order = ("pue", "note", "when", "from_day", "from_time")

    def save(self) -> str:
        value: Decimal = self.cleaned_data["pue"]
        fact = {
            "site": self.site,
            "pue_ppm": int(value * PPM),
            "note": self.cleaned_data["note"],
            **self.author,
        }
        if self.always:
            correct_pue(**fact)
            return (
                f"PUE corrected: {value} for the whole history of {self.site.name}. {RECALCULATED}"
            )
        set_pue(from_us=self.start_us(), **fact)
        return f"PUE {value} recorded. {RECALCULATED}"


class PriceForm(SiteForm, StartFields):
    """Record the price of electricity at a site, from a day on."""

    action = "price"

    price = DecimalField(
        label="Price per kWh",
        min_value=0,
        max_value=MAX_PRICE,
        error_messages=_number_errors("Enter the price of one kWh, e.g. 0.31."),
    )
    currency = TextField(
        max_length=3, error_messages={"required": "Enter three letters, e.g. EUR."}
    )
    from_time = None  # type: ignore[assignment]
    field_order = ("price", "currency", "from_day")

    def __init__(
        self,
        visitor: Visitor,
        data: Mapping[str, Any] | None = None,
        *arguments: Any,
        **options: Any,
    ) -> None:
        super().__init__(visitor, data, *arguments, **options)
        self.fields["currency"].widget.attrs.update({"placeholder": "EUR", "size": "4"})

    def clean_currency(self) -> str:
        return str(self.cleaned_data["currency"]).upper()

    def clean(self) -> dict[str, Any]:
        self.check_fields({"currency": check_currency})
        return super().clean() or self.cleaned_data

    def save(self) -> str:
        value, currency = self.cleaned_data["price"], self.cleaned_data["currency"]
        set_price(
            site=self.site,
            ucurrency_per_kwh=int(value * 1_000_000),
            currency=currency,
            from_us=self.start_us(),
            **self.author,
        )
        return f"Price of {value} {currency} per kWh recorded."


class WithdrawForm(SiteForm):
    """Withdraw the latest zone, PUE or price of a site."""

    action = "withdraw"

    kind = TextField(required=False, widget=forms.HiddenInput)
    fact = TextField(required=False, widget=forms.HiddenInput)

    def save(self) -> str:
        kind, number = self.cleaned_data["kind"], parse_record_number(self.cleaned_data["fact"])
        if kind not in FACTS or number is None:
            raise InvalidInput("No such entry.", hint="Choose one from the histories below.")
        fact = site_fact(self.site, kind, number)
        if fact is None:
            raise Conflict(
                "This entry no longer exists.", hint="Reload the page to see the current history."
            )
        withdraw_site_fact(fact=fact, **self.author)
        return f"Latest {FACTS[kind]} withdrawn. {RECALCULATED}"


class ControlForm(SiteForm):
    """Record who controls the electricity of a site."""

    action = "control"

    control = forms.ChoiceField(label="Electricity control", choices=Control.choices)

    def save(self) -> str:
        set_control(site=self.site, control=self.cleaned_data["control"], **self.author)
        return f"Electricity control of {self.site.name} recorded. Totals do not change."


class RenameForm(SiteForm):
    """Rename a site."""

    action = "rename"

    name = TextField(
        max_length=200, error_messages={"required": "Enter a name, e.g. Machine room."}
    )

    def save(self) -> str:
        rename_site(site=self.site, name=self.cleaned_data["name"], **self.author)
        return f"Site renamed to {self.site.name}."


class DeleteForm(SiteForm):
    """Delete a site that was never used."""

    action = "delete"

    def save(self) -> str:
        name = self.site.name
        delete_site(site=self.site, **self.author)
        return f"{name} deleted."


SITE_FORMS: tuple[type[SiteForm], ...] = (
    ZoneForm,
    PueForm,
    PriceForm,
    WithdrawForm,
    ControlForm,
    RenameForm,
    DeleteForm,
)
