"""Nodes and sites: the list, one node and the power of its rest, enrolment, a site's zone and PUE."""

from datetime import date
from decimal import Decimal, InvalidOperation
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from apps.accounts.choices import CodePurpose
from apps.accounts.services import issue_code
from apps.carbon.selectors import zones
from apps.catalog.selectors import host_powers
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.units import PPM, US_PER_HOUR
from apps.dashboard.access import KEEPERS, Visitor, found, page
from apps.dashboard.contexts.nodes import node_page, nodes_page, site_page
from apps.dashboard.contexts.period import chosen_period, period_menu
from apps.dashboard.periods import midnight_hour
from apps.dashboard.services import choose_site_zone
from apps.fleet.models import Site
from apps.fleet.selectors import node_of
from apps.fleet.services import set_pue, set_static_power

MOST_WATTS = 100_000


@page()
def nodes(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List nodes with what came from them."""
    period = chosen_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    shown = nodes_page(lab=visitor.lab, period=period, now=visitor.now)
    return render(request, "pages/nodes.html", {"page": shown, "menu": period_menu(request, period)})


@page("GET", "POST")
def node(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show one node; POST says what its rest draws."""
    asked = found(node_of(visitor.lab, uuid), "node", "/nodes/")
    period = chosen_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.needs(KEEPERS)
        try:
            set_static_power(node=asked, static_power_mw=_static_power(request), by=visitor.user, now=visitor.now)
            messages.success(
                request, f"The rest of {asked.hostname} is computed again for all its hours; this takes a moment."
            )
            return HttpResponseRedirect(f"/nodes/{asked.uuid}/#rest")
        except LabCarbonError as wrong:
            error = wrong
    shown = node_page(lab=visitor.lab, node=asked, period=period, now=visitor.now)
    context = {"page": shown, "menu": period_menu(request, period), "error": error}
    return render(request, "pages/node.html", context, status=error.status if error else 200)


def _static_power(request: HttpRequest) -> int | None:
    """Return mW from the form: a default of the catalogue, a figure in W, or None for 'nobody knows'."""
    choice = request.POST.get("choice", "own")
    if choice == "unknown":
        return None
    for default in host_powers():
        if default.kind == choice:
            return default.static_mw
    text = request.POST.get("watts", "").strip().replace(",", ".")
    try:
        watts = Decimal(text)
        if not watts.is_finite() or not 0 <= watts <= MOST_WATTS:
            raise InvalidOperation
    except InvalidOperation as error:
        hint = f"Write watts between 0 and {MOST_WATTS}, for example 45."
        raise InvalidInput(f"{text[:40]!r} is not a power.", field="watts", hint=hint) from error
    return int(watts * 1000)


@never_cache
@page("GET", "POST")
def enrol(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Make a one-time code that enrols a machine, and show the two commands."""
    code = ""
    if request.method == "POST":
        visitor.needs(KEEPERS)
        code = issue_code(purpose=CodePurpose.ENROL, now=visitor.now, lab=visitor.lab, user=visitor.user)
    context = {"code": code, "enrol": f"labcarbon-collect enrol {settings.SITE_URL}", "daemon": "labcarbon-collect daemon"}
    return render(request, "pages/enrol.html", context)


@page("GET", "POST")
def site(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a site; POST chooses its grid zone or records a PUE."""
    asked = found(Site.objects.filter(lab=visitor.lab, pk=pk).exclude(kind="declared").first(), "site", "/nodes/")
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.needs(KEEPERS)
        try:
            messages.success(request, _changed(request, visitor, asked))
            return HttpResponseRedirect(f"/sites/{asked.pk}/")
        except LabCarbonError as wrong:
            error = wrong
    shown = site_page(lab=visitor.lab, site=asked, zones=zones())
    context = {"page": shown, "error": error, "typed": request.POST}
    return render(request, "pages/site.html", context, status=error.status if error else 200)


def _changed(request: HttpRequest, visitor: Visitor, asked: Site) -> str:
    if "zone" in request.POST:
        code = choose_site_zone(site=asked, text=request.POST["zone"], by=visitor.user, now=visitor.now)
        return f"{asked.name} is on the grid of {code}. Its carbon is computed for all of its past in a moment."
    text = request.POST.get("pue", "").strip().replace(",", ".")
    try:
        value = Decimal(text)
        if not value.is_finite() or not 1 <= value <= 5:
            raise InvalidOperation
    except InvalidOperation as error:
        raise InvalidInput(
            f"{text[:40]!r} is not a PUE.", field="pue", hint="Write a number from 1 to 5, as 1.4."
        ) from error
    try:
        day = date.fromisoformat(request.POST.get("from_day", ""))
        from_hour = midnight_hour(day, visitor.zone)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            "The day is missing or no day.", field="from_day", hint="Choose the first day it holds."
        ) from error
    note = request.POST.get("note", "").strip()[:200]
    from_us = max(0, from_hour) * US_PER_HOUR
    set_pue(site=asked, pue_ppm=int(value * PPM), from_us=from_us, note=note, by=visitor.user, now=visitor.now)
    return f"PUE {value} holds at {asked.name} from {day} on."
