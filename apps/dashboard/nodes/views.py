"""Nodes: the list, one node and the power of its rest, moving it to another site, enrolment."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.catalog.selectors import host_powers
from apps.core.errors import Conflict, InvalidInput, LabCarbonError
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.form_fields import always, from_us, required_site
from apps.dashboard.nodes.devices import device_page
from apps.dashboard.nodes.effects import Effect, effect_of, site_facts_after
from apps.dashboard.nodes.nodes import node_page, nodes_page
from apps.dashboard.nodes.placements import move_page
from apps.dashboard.period_menu import period_menu, requested_period
from apps.fleet.models import Node
from apps.fleet.selectors import device_of, node_of, sites_of, stays_of
from apps.fleet.services import correct_place, issue_enrolment_code, move_node, set_static_power, undo_move

MAX_WATTS = 100_000


@page()
def nodes(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List nodes with what came from them."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    content = nodes_page(lab=visitor.lab, period=period, now=visitor.now)
    return render(request, "dashboard/nodes/nodes.html", {"page": content, "menu": period_menu(request, period)})


@page("GET", "POST")
def node(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show one node; POST says what its rest draws."""
    node = or_not_found(node_of(visitor.lab, uuid), "node", reverse("nodes"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            set_static_power(node=node, static_power_mw=_static_power(request), by=visitor.user, now=visitor.now)
            messages.success(
                request, f"The rest of {node.hostname} is computed again for all its hours; this takes a moment."
            )
            return HttpResponseRedirect(f"{reverse('node', args=[node.uuid])}#rest")
        except LabCarbonError as wrong:
            error = wrong
    content = node_page(lab=visitor.lab, node=node, period=period, now=visitor.now)
    context = {"page": content, "menu": period_menu(request, period), "error": error}
    return render(request, "dashboard/nodes/node.html", context, status=error.status if error else 200)


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
        if not watts.is_finite() or not 0 <= watts <= MAX_WATTS:
            raise InvalidOperation
    except InvalidOperation as error:
        hint = f"Write watts between 0 and {MAX_WATTS}, for example 45."
        raise InvalidInput(f"{text[:40]!r} is not a power.", field="watts", hint=hint) from error
    return int(watts * 1000)


@page("GET", "POST")
def move(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show where a node stood, and with a question in the address what a move would change; POST records it."""
    node = or_not_found(node_of(visitor.lab, uuid), "node", reverse("nodes"))
    data = request.POST if request.method == "POST" else request.GET
    error: LabCarbonError | None = None
    effect: Effect | None = None
    if request.method == "POST" or "do" in data:
        visitor.require_role(MANAGERS)
        try:
            change, message = _move(data, visitor, node)
            if request.method == "POST":
                change()
                messages.success(request, f"{message} Its carbon is computed again in a moment.")
                return HttpResponseRedirect(f"{reverse('node', args=[node.uuid])}#place")
            effect = effect_of(lab=visitor.lab, after=site_facts_after(visitor.lab, change), now=visitor.now)
        except LabCarbonError as wrong:
            error = wrong
    content = move_page(lab=visitor.lab, node=node, effect=effect, now=visitor.now)
    context = {"page": content, "error": error, "typed": data, "kept": data.items() if effect else ()}
    return render(request, "dashboard/nodes/node_move.html", context, status=error.status if error else 200)


def _move(data: QueryDict, visitor: Visitor, node: Node) -> tuple[Callable[[], object], str]:
    """Return what a form asks to record about a node's place, and how it is told when that is done."""
    who: dict[str, Any] = {"by": visitor.user, "now": visitor.now}
    if data.get("do") == "undo":
        text = data.get("placement", "")
        latest = [stay.placement for stay in stays_of(node) if str(stay.placement.pk) == text]
        if not latest:
            raise Conflict("This move is not there any more.", hint="Load the page again to see where the node stood.")
        return partial(undo_move, placement=latest[0], **who), f"The move to {latest[0].site} is withdrawn."
    site = required_site(data, visitor)
    if always(data):
        return partial(correct_place, node=node, site=site, **who), f"{node.hostname} always stood at {site}."
    begin = from_us(data, visitor)
    return partial(move_node, node=node, site=site, from_us=begin, **who), f"{node.hostname} moves to {site}."


@never_cache
@page("GET", "POST")
def enrol(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Make a one-time code that enrols a machine at a site, and show the two commands."""
    code = ""
    error: LabCarbonError | None = None
    sites = list(sites_of(visitor.lab))
    site = sites[0] if len(sites) == 1 else None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            if len(sites) > 1:
                site = required_site(request.POST, visitor)
            code = issue_enrolment_code(lab=visitor.lab, site=site, by=visitor.user, now=visitor.now)
        except LabCarbonError as wrong:
            error = wrong
    context = {
        "code": code,
        "site": site,
        "sites": sites,
        "error": error,
        "enrol": f"labcarbon-collect enrol {settings.SITE_URL}",
        "daemon": "labcarbon-collect daemon",
    }
    return render(request, "dashboard/nodes/enrol.html", context, status=error.status if error else 200)


@page()
def device(request: HttpRequest, visitor: Visitor, key: str) -> HttpResponseBase:
    """Show one device."""
    device = or_not_found(device_of(visitor.lab, key), "device", reverse("nodes"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    content = device_page(lab=visitor.lab, device=device, period=period, now=visitor.now)
    return render(request, "dashboard/nodes/device.html", {"page": content, "menu": period_menu(request, period)})
