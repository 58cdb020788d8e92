"""Assets: the list and what is done to many at once, one asset, a new one, the fleet by age."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from apps.assets.choices import EventKind
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.selectors import asset_of, assets_of, entries_of, through
from apps.assets.services import Entry, record, register
from apps.assets.services import reverse as reverse_event
from apps.core.errors import Conflict, InvalidInput, LabCarbonError
from apps.core.text import parse_record_number
from apps.dashboard.assets.detail import asset_page, load_life
from apps.dashboard.assets.event_forms import change_of, described
from apps.dashboard.assets.events import LifeEffect, effect_of
from apps.dashboard.assets.fleet import fleet_page
from apps.dashboard.assets.forms import WAYS, draft, owner, selected_asset
from apps.dashboard.assets.list import PAGE_ROWS, assets_page
from apps.dashboard.assets.new import AMORTISATIONS, choices, offers
from apps.dashboard.assets.timeline_table import month_lines
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.form_fields import from_us, optional_site
from apps.dashboard.period_menu import period_menu, requested_period
from apps.dashboard.periods import local, preset_period

BULK = {EventKind.TRANSFER: "changed owner", EventKind.MOVE: "moved", EventKind.RETIRE: "taken out of use"}


@page("GET", "POST")
def assets(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List assets; filters, sort and page live in the address. POST does one thing to all that were ticked."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            return _bulk(request, visitor)
        except LabCarbonError as wrong:
            error = wrong
    content = assets_page(lab=visitor.lab, params=request.GET.dict(), now=visitor.now, can_manage=visitor.can_manage)
    done = [text for text in request.GET.get("done", "").split(".") if text][:PAGE_ROWS]
    context = {"page": content, "error": error, "typed": request.POST, "done": done, **_today(visitor)}
    return render(request, "dashboard/assets/assets.html", context, status=error.status if error else 200)


def _today(visitor: Visitor) -> dict[str, str]:
    return {"today": local(through(visitor.now) - 1, visitor.zone).date().isoformat()}


def _ticked(data: QueryDict, visitor: Visitor) -> list[Asset]:
    texts = data.getlist("line")
    numbers = [number for text in texts if (number := parse_record_number(text)) is not None]
    if not texts or len(numbers) < len(texts):
        raise InvalidInput("Nothing was ticked.", field="line", hint="Tick at least one asset.")
    if len(texts) > PAGE_ROWS:
        raise InvalidInput("Too many at once.", field="line", hint=f"At most {PAGE_ROWS}: one page.")
    listed = list(assets_of(visitor.lab).select_related("lab").filter(pk__in=numbers).order_by("pk"))
    if len(listed) != len(set(numbers)):
        raise Conflict("Some of these assets are not there any more.", hint="Load the page again.")
    return listed


def _bulk(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    data, params = request.POST, request.GET.copy()
    params.pop("done", None)
    if data.get("do") == "undo":
        count = _reverse_entries(data, visitor)
        messages.success(request, f"{count} entr{'y is' if count == 1 else 'ies are'} reversed.")
        return HttpResponseRedirect(f"{reverse('assets')}?{params.urlencode()}")
    listed = _ticked(data, visitor)
    if data.get("do") == "labels":
        return HttpResponseRedirect(f"{reverse('asset-labels')}?" + urlencode([("id", asset.pk) for asset in listed]))
    entries = _recorded(data, visitor, listed)
    count = len(entries)
    messages.success(request, f"{count} asset{'' if count == 1 else 's'} {BULK[EventKind(data['do'])]}.")
    params["done"] = ".".join(str(event.pk) for event in entries)
    return HttpResponseRedirect(f"{reverse('assets')}?{params.urlencode()}")


@transaction.atomic
def _recorded(data: QueryDict, visitor: Visitor, listed: list[Asset]) -> list[LifecycleEvent]:
    """Write one entry for each asset, all or none."""
    do = data.get("do", "")
    if do not in BULK:
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    more: dict[str, Any] = {}
    if do == EventKind.TRANSFER:
        if not data.get("owner"):
            raise InvalidInput("To whom?", field="owner", hint="Choose a project, or the lab itself.")
        more = {"project": owner(data, visitor)}
    elif do == EventKind.MOVE:
        more = {"parent": selected_asset(data, visitor, "parent"), "site": optional_site(data, visitor)}
        if not any(more.values()):
            raise InvalidInput("Where to?", field="site", hint="Choose a site, a machine, or both.")
    entry = Entry(do, from_us(data, visitor), **more)
    entries = []
    for asset in listed:
        try:
            entries.append(record(asset=asset, entry=entry, by=visitor.user, now=visitor.now))
        except LabCarbonError as wrong:
            wrong.message = f"{asset.name}: {wrong.message} Nothing was recorded."
            raise
    return entries


@transaction.atomic
def _reverse_entries(data: QueryDict, visitor: Visitor) -> int:
    numbers = [number for text in data.get("entries", "").split(".") if (number := parse_record_number(text)) is not None]
    events = LifecycleEvent.objects.filter(asset__lab=visitor.lab, pk__in=numbers[:PAGE_ROWS]).select_related("asset__lab")
    for event in events.order_by("pk"):
        reverse_event(event=event, by=visitor.user, now=visitor.now)
    return len(events)


@page("GET", "POST")
def asset(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show one asset, and with a question in the address what an entry would change; POST records it."""
    asset: Asset = or_not_found(asset_of(visitor.lab, pk), "asset", reverse("assets"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    data = request.POST if request.method == "POST" else request.GET
    error: LabCarbonError | None = None
    effect: LifeEffect | None = None
    if request.method == "POST" or "do" in data:
        visitor.require_role(MANAGERS)
        try:
            if request.method == "POST":
                messages.success(request, _apply_change(data, visitor, asset))
                return HttpResponseRedirect(f"{reverse('asset', args=[asset.pk])}#entries")
            change = change_of(data, visitor, asset)
            effect = effect_of(lab=visitor.lab, assets=[asset], change=change.make, now=visitor.now)
        except LabCarbonError as wrong:
            error = wrong
            asset = or_not_found(asset_of(visitor.lab, pk), "asset", reverse("assets"))
    context = {
        "page": asset_page(lab=visitor.lab, asset=asset, period=period, now=visitor.now),
        "menu": period_menu(request, period) if effect is None else None,
        "error": error,
        "effect": effect,
        "typed": data,
        "opened": data if data.get("do") == "opening" else {},
        "kept": [(name, value) for name, value in data.items() if name != "csrfmiddlewaretoken"] if effect else [],
        "choices": choices(visitor.lab, WAYS, asset) if visitor.can_manage else None,
        "amortisations": AMORTISATIONS,
        **_today(visitor),
    }
    return render(request, "dashboard/assets/asset.html", context, status=error.status if error else 200)


def _apply_change(data: QueryDict, visitor: Visitor, asset: Asset) -> str:
    if data.get("do") == "describe":
        return described(data, visitor, asset)
    change = change_of(data, visitor, asset)
    change.make()
    return change.message


@page()
def asset_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download an asset's life: what each bore in each month and why, and the book value at its end."""
    asset: Asset = or_not_found(asset_of(visitor.lab, pk), "asset", reverse("assets"))
    period = preset_period("year", zone=visitor.zone, now=visitor.now)
    service_life, _ = load_life(asset, entries_of(asset), period, through(visitor.now))
    head = ("from_utc", "to_utc", "borne_by", "why", "charged_ug_co2e", "charged_kg_co2e", "book_value_ug_co2e")
    return csv_response(f"{asset.name}-life", head, month_lines(service_life, period))


@page("GET", "POST")
def new(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Ask for a new asset; POST registers it."""
    visitor.require_role(MANAGERS)
    data = request.POST if request.method == "POST" else request.GET
    error: LabCarbonError | None = None
    if request.method == "POST" and data.get("do") != "find":
        try:
            created = register(lab=visitor.lab, draft=draft(data, visitor), by=visitor.user, now=visitor.now)
            messages.success(request, f"{created.name} is registered.")
            return HttpResponseRedirect(reverse("asset", args=[created.pk]))
        except LabCarbonError as wrong:
            error = wrong
    context = {
        "typed": data,
        "error": error,
        "offers": _offers(data, visitor),
        "choices": choices(visitor.lab, WAYS),
        "amortisations": AMORTISATIONS,
        **_today(visitor),
    }
    return render(request, "dashboard/assets/asset_new.html", context, status=error.status if error else 200)


def _offers(data: QueryDict, visitor: Visitor) -> Any:
    return offers(
        lab=visitor.lab, kind=data.get("kind", ""), name=data.get("search", "")[:200], selected=data.get("model", "")
    )


@page()
def new_offers(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what the catalogue has for what is typed, as a part of the form."""
    visitor.require_role(MANAGERS)
    return render(
        request, "dashboard/assets/model_search.html", {"offers": _offers(request.GET, visitor), "typed": request.GET}
    )


@page()
def fleet(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the fleet by age."""
    return render(request, "dashboard/assets/fleet.html", {"page": fleet_page(lab=visitor.lab, now=visitor.now)})
