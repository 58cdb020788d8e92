"""Sites: the list with its form, and one site's name, grid zone, PUE and price of electricity."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from apps.carbon.figures.energy import zones
from apps.core.errors import Conflict, InvalidInput, LabCarbonError
from apps.core.text import parse_record_number
from apps.core.units import PPM
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.form_fields import always, from_us
from apps.dashboard.nodes.effects import Effect, effect_of, site_facts_after
from apps.dashboard.nodes.sites import site_page, sites_page
from apps.dashboard.setup.services import SITE_KINDS, zone_code, zone_label
from apps.fleet.choices import Control, SiteKind
from apps.fleet.models import Site
from apps.fleet.selectors import site_fact, site_of
from apps.fleet.services import (
    correct_pue,
    correct_zone,
    create_site,
    delete_site,
    rename_site,
    set_control,
    set_price,
    set_pue,
    set_zone,
    withdraw_site_fact,
)

FACTS = {"zone": "grid zone", "pue": "PUE", "price": "price"}
RECOMPUTED_NOTE = "Its carbon is computed again in a moment."
Change = tuple[Callable[[], object], str]


@page("GET", "POST")
def sites(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List sites; POST makes one."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            created = _create_site(request.POST, visitor)
            messages.success(request, f"{created.name} is there. Machines are enrolled at it or moved to it.")
            return HttpResponseRedirect(reverse("site", args=[created.pk]))
        except LabCarbonError as wrong:
            error = wrong
    context = {
        "rows": sites_page(lab=visitor.lab, now=visitor.now),
        "kinds": SITE_KINDS,
        "offered": [zone_label(code, name) for code, name in zones()],
        "typed": request.POST,
        "error": error,
    }
    return render(request, "dashboard/nodes/sites.html", context, status=error.status if error else 200)


def _create_site(data: QueryDict, visitor: Visitor) -> Site:
    kind = data.get("kind", "")
    if kind not in dict(SITE_KINDS):
        kinds = ", ".join(name for name, _ in SITE_KINDS)
        raise InvalidInput(f"{kind[:40]!r} is not a kind of site.", field="kind", hint=f"Use one of {kinds}.")
    return create_site(
        lab=visitor.lab,
        name=data.get("name", ""),
        kind=SiteKind(kind),
        zone=zone_code(data.get("zone", "")),
        by=visitor.user,
        now=visitor.now,
    )


@page("GET", "POST")
def site(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a site, and with a question in the address what a fact about it would change; POST records the fact."""
    site = or_not_found(site_of(visitor.lab, pk), "site", reverse("sites"))
    data = request.POST if request.method == "POST" else request.GET
    error: LabCarbonError | None = None
    effect: Effect | None = None
    if request.method == "POST" or "do" in data:
        visitor.require_role(MANAGERS)
        try:
            change, message = _change(data, visitor, site)
            if request.method == "POST":
                change()
                messages.success(request, message)
                return HttpResponseRedirect(
                    reverse("sites") if data.get("do") == "delete" else reverse("site", args=[site.pk])
                )
            effect = effect_of(lab=visitor.lab, after=site_facts_after(visitor.lab, change), now=visitor.now)
        except LabCarbonError as wrong:
            error = wrong
    site.refresh_from_db()  # a name that was refused is not its name
    content = site_page(lab=visitor.lab, site=site, zones=zones(), effect=effect, now=visitor.now)
    controls = [(control.value, control.label) for control in Control]
    context = {"page": content, "controls": controls, "error": error, "typed": data, "kept": data.items() if effect else ()}
    return render(request, "dashboard/nodes/site.html", context, status=error.status if error else 200)


def _change(data: QueryDict, visitor: Visitor, site: Site) -> Change:
    """Return what a form asks to record about a site, and how it is told when that is done."""
    who: dict[str, Any] = {"by": visitor.user, "now": visitor.now}
    do = data.get("do", "")
    if do == "zone":
        return _zone(data, visitor, site, who)
    if do == "pue":
        return _pue(data, visitor, site, who)
    if do == "price":
        return _price(data, visitor, site, who)
    if do == "withdraw":
        return _withdrawn(data, site, who)
    if do == "control":
        control = data.get("control", "")
        change = partial(set_control, site=site, control=control, **who)
        return change, f"Who controls the electricity of {site.name} is recorded; no total changes."
    if do == "rename":
        name = data.get("name", "")
        return partial(rename_site, site=site, name=name, **who), f"The site is called {name.strip()} now."
    if do == "delete":
        return partial(delete_site, site=site, **who), f"{site.name} is deleted."
    raise InvalidInput(
        f"{do[:40]!r} cannot be done to a site.",
        field="do",
        hint="Use one of zone, pue, price, control, withdraw, rename, delete.",
    )


def _zone(data: QueryDict, visitor: Visitor, site: Site, who: dict[str, Any]) -> Change:
    zone = zone_code(data.get("zone", ""))
    if not zone:
        raise InvalidInput("No zone was chosen.", field="zone", hint="Write a country such as Germany, or its code DE.")
    if always(data):
        return partial(
            correct_zone, site=site, zone=zone, **who
        ), f"{site.name} was always on the grid of {zone}. {RECOMPUTED_NOTE}"
    begin = from_us(data, visitor)
    return partial(
        set_zone, site=site, zone=zone, from_us=begin, **who
    ), f"The grid zone {zone} is recorded. {RECOMPUTED_NOTE}"


def _decimal(data: QueryDict, field: str, low: int, high: int, wrong: str, hint: str) -> Decimal:
    text = data.get(field, "").strip().replace(",", ".")
    try:
        value = Decimal(text)
        if not value.is_finite() or not low <= value <= high:
            raise InvalidOperation
    except InvalidOperation as error:
        raise InvalidInput(f"{text[:40]!r} is not {wrong}.", field=field, hint=hint) from error
    return value


def _pue(data: QueryDict, visitor: Visitor, site: Site, who: dict[str, Any]) -> Change:
    value = _decimal(data, "pue", 1, 5, "a PUE", "Write a number from 1 to 5, as 1.4.")
    note = data.get("note", "").strip()[:200]
    if always(data):
        always_so = partial(correct_pue, site=site, pue_ppm=int(value * PPM), note=note, **who)
        return always_so, f"The PUE of {site.name} was always {value}. {RECOMPUTED_NOTE}"
    change = partial(set_pue, site=site, pue_ppm=int(value * PPM), from_us=from_us(data, visitor), note=note, **who)
    return change, f"The PUE {value} is recorded. {RECOMPUTED_NOTE}"


def _price(data: QueryDict, visitor: Visitor, site: Site, who: dict[str, Any]) -> Change:
    value = _decimal(data, "price", 0, 1_000_000, "a price", "Write what one kWh costs, as 0.31.")
    currency = data.get("currency", "").strip().upper()
    change = partial(
        set_price, site=site, ucurrency_per_kwh=int(value * 1_000_000), currency=currency, from_us=from_us(data, visitor),
        **who,
    )  # fmt: skip
    return change, f"The price of {value} {currency} per kWh is recorded."


def _withdrawn(data: QueryDict, site: Site, who: dict[str, Any]) -> Change:
    """Return the withdrawal of one of the site's own facts."""
    kind, text = data.get("kind", ""), data.get("fact", "")
    number = parse_record_number(text)
    if kind not in FACTS or number is None:
        raise InvalidInput("There is no such entry.", field="fact", hint="Choose one of the histories below.")
    name = FACTS[kind]
    fact = site_fact(site, kind, number)
    if fact is None:
        raise Conflict("This entry is not there any more.", hint="Load the page again to see the history as it is now.")
    return partial(withdraw_site_fact, fact=fact, **who), f"The latest {name} is withdrawn. {RECOMPUTED_NOTE}"
