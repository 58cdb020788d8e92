"""Pages of assets: the list, one asset, a new asset, the fleet by age."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.assets.api.attachments import download, sandboxed
from apps.assets.models import Asset
from apps.assets.selectors import asset_of, entries_of, through
from apps.assets.services.attachments import attachment_of
from apps.dashboard.assets.asset_page import asset_page, load_life
from apps.dashboard.assets.assets_page import UNDO_ROWS, assets_page
from apps.dashboard.assets.attachment_rows import attachment_rows
from apps.dashboard.assets.event_rows import LifeEffect
from apps.dashboard.assets.fleet_page import fleet_page
from apps.dashboard.assets.forms.asset_list import (
    LIST_FORMS,
    BulkEventForm,
    ListForm,
    SelectionForm,
)
from apps.dashboard.assets.forms.attachments import ATTACHMENT_FORMS
from apps.dashboard.assets.forms.events import (
    CHANGE_FORMS,
    ChangeForm,
    initial_values,
    offered_forms,
)
from apps.dashboard.assets.forms.purchase import NewAssetForm
from apps.dashboard.assets.new_asset_page import LabOptions, offers
from apps.dashboard.assets.timeline_table import month_lines
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import ACTION, PageForms
from apps.dashboard.frame.period_menu import period_menu, requested_period
from apps.dashboard.periods import preset_period


@page("GET", "POST")
def assets(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List assets. Filters, sort and page are query parameters. POST changes the selected
    assets.
    """
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    forms = (
        PageForms(request, visitor, LIST_FORMS, options=LabOptions(visitor.lab))
        if visitor.can_manage
        else None
    )
    submitted = forms.submitted if forms else None
    if request.method == "POST" and isinstance(submitted, ListForm) and submitted.submit():
        params = request.GET.copy()
        params.pop("done", None)
        if submitted.message:
            messages.success(request, submitted.message)
        return HttpResponseRedirect(submitted.location(params))
    done = [text for text in request.GET.get("done", "").split(".") if text][:UNDO_ROWS]
    context = {
        "page": assets_page(lab=visitor.lab, params=request.GET.dict(), now=visitor.now),
        "forms": forms,
        "bulk": submitted
        if isinstance(submitted, BulkEventForm)
        else forms["transfer"]
        if forms
        else None,
        "selected": submitted["item"].value() if isinstance(submitted, SelectionForm) else [],
        "done": done,
    }
    return render(
        request, "dashboard/assets/assets.html", context, status=forms.status if forms else 200
    )


@page("GET", "POST")
def asset(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show one asset. With a form in the query string, preview its effect. POST records it."""
    asset: Asset = or_not_found(asset_of(visitor.lab, pk), "asset", reverse("assets"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    if request.method == "POST" or ACTION in request.GET:
        visitor.require_role(MANAGERS)
    forms: PageForms | None = None
    effect: LifeEffect | None = None
    if visitor.can_manage:
        options = LabOptions(visitor.lab, asset)
        forms = PageForms(
            request,
            visitor,
            (*CHANGE_FORMS, *ATTACHMENT_FORMS),
            initial=initial_values(asset),
            asset=asset,
            options=options,
        )
        submitted = forms.submitted
        if request.method == "POST" and submitted and submitted.submit():
            messages.success(request, submitted.message)
            part = "attachments" if isinstance(submitted, ATTACHMENT_FORMS) else "entries"
            return HttpResponseRedirect(f"{reverse('asset', args=[asset.pk])}#{part}")
        if isinstance(submitted, ChangeForm):
            effect = submitted.preview() if request.method == "GET" else None
            asset = or_not_found(asset_of(visitor.lab, pk), "asset", reverse("assets"))
    content = asset_page(lab=visitor.lab, asset=asset, period=period, now=visitor.now)
    if forms and content.meter:
        meter = content.meter
        forms["meter"].initial["meter"] = (
            f"device:{meter.device_id}" if meter.device_id else f"node:{meter.node_id}"
        )
    context = {
        "page": content,
        "menu": period_menu(request, period, visitor.now) if effect is None else None,
        "effect": effect,
        "forms": forms,
        "attachments": attachment_rows(asset) if visitor.can_manage else [],
        "event_forms": offered_forms(forms, asset, has_volumes=bool(content.volumes))
        if forms
        else [],
    }
    return render(
        request, "dashboard/assets/asset.html", context, status=forms.status if forms else 200
    )


@sandboxed
@page()
def attachment(
    request: HttpRequest, visitor: Visitor, pk: int, attachment: UUID
) -> HttpResponseBase:
    """Download an attachment. Pages never embed it, since it is untrusted."""
    visitor.require_role(MANAGERS)
    asset: Asset = or_not_found(asset_of(visitor.lab, pk), "asset", reverse("assets"))
    return download(attachment_of(asset, attachment))


@page()
def asset_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download the lifecycle of an asset: charges by month, project and reason, and the book
    value at the end.
    """
    asset: Asset = or_not_found(asset_of(visitor.lab, pk), "asset", reverse("assets"))
    period = preset_period("year", zone=visitor.zone, now=visitor.now)
    service_life, _ = load_life(asset, entries_of(asset), period, through(visitor.now))
    head = (
        "from_utc",
        "to_utc",
        "borne_by",
        "why",
        "charged_ug_co2e",
        "charged_kg_co2e",
        "book_value_ug_co2e",
    )
    return csv_response(f"{asset.name}-life", head, month_lines(service_life, period))


@page("GET", "POST")
def new(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form of a new asset. POST registers it, or searches the catalogue where scripts
    are off.
    """
    visitor.require_role(MANAGERS)
    form = NewAssetForm.from_request(request, visitor, options=LabOptions(visitor.lab))
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("asset", args=[form.created.pk]))
    context = {"form": form, "offers": form.offers()}
    return render(request, "dashboard/assets/asset_new.html", context, status=form.status)


@page()
def new_offers(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the catalogue's models that match the search text, as a part of the form."""
    visitor.require_role(MANAGERS)
    kind, text, selected = (request.GET.get(name, "") for name in ("kind", "search", "model"))
    listed = offers(lab=visitor.lab, kind=kind, name=text[:200], selected=selected)
    return render(request, "dashboard/assets/model_search.html", {"offers": listed})


@page()
def fleet(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the fleet by age."""
    return render(
        request,
        "dashboard/assets/fleet.html",
        {"page": fleet_page(lab=visitor.lab, now=visitor.now)},
    )
