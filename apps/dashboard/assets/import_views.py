"""Bringing assets in and out: a file read and confirmed, the register as CSV, what collectors saw, labels."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.assets.choices import ImportState
from apps.assets.models import Asset
from apps.assets.services.confirm_discovered import confirm_discovered, dismiss, propose_again
from apps.assets.services.csv_import import bring, confirm, import_of
from apps.assets.spreadsheets.csv_reader import MAX_BYTES, MAX_ROWS
from apps.assets.spreadsheets.export import rows
from apps.assets.spreadsheets.formats import OWN
from apps.assets.spreadsheets.rows import Options
from apps.core.errors import InvalidInput, LabCarbonError, TooLarge
from apps.dashboard.assets.imports import COLUMNS, discovered_page, import_page, selections_of
from apps.dashboard.assets.labels import labels_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, page


@page("GET", "POST")
def assets_import(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Ask for a file; POST reads it and goes to what was read."""
    visitor.require_role(MANAGERS)
    error: LabCarbonError | None = None
    if request.method == "POST":
        try:
            name, content = _uploaded(request)
            options = Options(request.POST.get("currency", ""), request.POST.get("bought_on", ""))
            row = bring(lab=visitor.lab, file_name=name, content=content, options=options, by=visitor.user, now=visitor.now)
            return HttpResponseRedirect(reverse("asset-import", args=[row.uuid]))
        except LabCarbonError as wrong:
            error = wrong
    context = {
        "error": error, "typed": request.POST, "columns": COLUMNS, "most_rows": MAX_ROWS, "most_mib": MAX_BYTES >> 20,
    }  # fmt: skip
    return render(request, "dashboard/assets/assets_import.html", context, status=error.status if error else 200)


def _uploaded(request: HttpRequest) -> tuple[str, bytes]:
    file = request.FILES.get("file")
    if file is None:
        return "pasted.csv", request.POST.get("lines", "").encode("utf-8", "surrogatepass")
    if (file.size or 0) > MAX_BYTES:
        raise TooLarge(f"A file is at most {MAX_BYTES >> 20} MiB.", field="file", hint="Split it.")
    return file.name or "", file.read()


@page("GET", "POST")
def assets_import_read(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show what a file would become; POST writes all of it, or nothing."""
    visitor.require_role(MANAGERS)
    row = import_of(visitor.lab, uuid)
    error: LabCarbonError | None = None
    if request.method == "POST":
        try:
            confirm(row=row, by=visitor.user, now=visitor.now)
            if row.state == ImportState.DONE:
                number = row.told["counts"].get("new", 0)
                messages.success(request, f"{number} asset{'' if number == 1 else 's'} registered.")
            return HttpResponseRedirect(reverse("asset-import", args=[uuid]))
        except LabCarbonError as wrong:
            error = wrong
            row.refresh_from_db()
    context = {"page": import_page(row), "error": error}
    return render(request, "dashboard/assets/assets_import_preview.html", context, status=error.status if error else 200)


@page()
def assets_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the register in our own columns: what is read here again, or in another lab."""
    return csv_response(f"assets-{visitor.lab.slug}", OWN, rows(Asset.objects.filter(lab=visitor.lab)))


@page("GET", "POST")
def assets_discovered(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what collectors saw and nobody registered; POST registers or dismisses what is ticked."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            messages.success(request, _discovered(request, visitor))
            return HttpResponseRedirect(reverse("discovered-assets"))
        except LabCarbonError as wrong:
            error = wrong
    typed = request.POST if error else None
    content = discovered_page(lab=visitor.lab, zone=visitor.zone, typed=typed)
    context = {
        "page": content,
        "error": error,
        "ticked": request.POST.getlist("line"),
        "owner": request.POST.get("owner", ""),
    }
    return render(request, "dashboard/assets/assets_discovered.html", context, status=error.status if error else 200)


def _discovered(request: HttpRequest, visitor: Visitor) -> str:
    """Do what a form asks with the ticked lines, and tell it."""
    keys, do = request.POST.getlist("line"), request.POST.get("do", "")
    if not keys:
        raise InvalidInput("No line was chosen.", field="line", hint="Tick at least one.")
    if do == "dismiss":
        number = dismiss(lab=visitor.lab, keys=keys, by=visitor.user, now=visitor.now)
        return f"{number} proposed no more. They stand below, and can be brought back."
    if do == "again":
        return f"{propose_again(lab=visitor.lab, keys=keys)} proposed again."
    if do != "confirm":
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    selections = selections_of(lab=visitor.lab, typed=request.POST, keys=keys, zone=visitor.zone)
    done = confirm_discovered(lab=visitor.lab, selections=selections, by=visitor.user, now=visitor.now)
    parts = [f"{done.made} registered"]
    if done.linked:
        parts.append(f"{done.linked} of the register got {'its meter' if done.linked == 1 else 'their meters'}")
    if done.gone:
        parts.append(f"{done.gone} had been registered already")
    return f"{', '.join(parts)}. Their embodied carbon is charged in a moment."


@page()
def assets_labels(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show labels to print, of chosen assets or of a kind and state."""
    kind, state = request.GET.get("kind", ""), request.GET.get("state", "")
    content = labels_page(lab=visitor.lab, ids=request.GET.getlist("id"), kind=kind, state=state)
    context = {"page": content, "kind": kind, "state": state}
    return render(request, "dashboard/assets/asset_labels.html", context)
