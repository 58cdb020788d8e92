"""Pages for import and export of assets: file import, register as CSV, discovered hardware,
labels.
"""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.assets.choices import ImportState
from apps.assets.discovery import proposals
from apps.assets.selectors import matching
from apps.assets.services.csv_import import import_of
from apps.assets.spreadsheets.export import rows
from apps.assets.spreadsheets.formats import OWN
from apps.dashboard.assets.assets_page import parse_filters
from apps.dashboard.assets.forms.csv_import import (
    DISCOVERED_FORMS,
    ConfirmImportForm,
    ImportForm,
    MappingForm,
)
from apps.dashboard.assets.import_pages import (
    COLUMNS,
    discovered_page,
    import_page,
    mapping_page,
    undo_address,
)
from apps.dashboard.assets.new_asset_page import LabOptions
from apps.dashboard.assets.printed_labels import labels_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.forms import PageForms


@page("GET", "POST")
def assets_import(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form for a file. POST reads the file and redirects to its preview."""
    visitor.require_role(MANAGERS)
    form = ImportForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(reverse("asset-import", args=[form.created.uuid]))
    context = {"form": form, "columns": COLUMNS}
    return render(request, "dashboard/assets/assets_import.html", context, status=form.status)


@page("GET", "POST")
def assets_import_read(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the preview of a file. POST registers all of its assets, or none."""
    visitor.require_role(MANAGERS)
    row = import_of(visitor.lab, uuid)
    if row.state == ImportState.MAPPING:
        return HttpResponseRedirect(reverse("asset-import-mapping", args=[uuid]))
    if row.state in {ImportState.UNDOING, ImportState.REDOING}:
        return HttpResponseRedirect(undo_address(row))
    form = ConfirmImportForm.from_request(request, visitor, row=row)
    if form.is_bound:
        if form.submit():
            if form.message:
                messages.success(request, form.message)
            return HttpResponseRedirect(reverse("asset-import", args=[uuid]))
        row.refresh_from_db()
    context = {"page": import_page(row), "form": form}
    return render(
        request, "dashboard/assets/assets_import_preview.html", context, status=form.status
    )


@page("GET", "POST")
def assets_import_mapping(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the columns of a file with the fields that they may mean. POST assigns them and reads
    the file.
    """
    visitor.require_role(MANAGERS)
    row = import_of(visitor.lab, uuid)
    preview = reverse("asset-import", args=[uuid])
    if row.state not in {ImportState.MAPPING, ImportState.READ, ImportState.REFUSED}:
        return HttpResponseRedirect(preview)
    content = mapping_page(row)
    form = MappingForm.from_request(
        request, visitor, row=row, questions=content.questions, proposal=content.proposal
    )
    if form.is_bound and form.submit():
        return HttpResponseRedirect(preview)
    context = {"page": content, "form": form, "rows": content.rows(form.column_fields)}
    return render(
        request, "dashboard/assets/assets_import_mapping.html", context, status=form.status
    )


@page()
def assets_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the register as CSV, with the filters of the page. The import of any lab reads this
    file.
    """
    assets = matching(visitor.lab, parse_filters(request.GET.dict()))
    return csv_response(f"assets-{visitor.lab.slug}", OWN, rows(assets))


@page("GET", "POST")
def assets_discovered(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show hardware that collectors discovered and that is not registered. POST registers,
    dismisses or restores it.
    """
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    listed = proposals(visitor.lab)
    forms: PageForms | None = None
    if visitor.can_manage:
        forms = PageForms(
            request,
            visitor,
            DISCOVERED_FORMS,
            options=LabOptions(visitor.lab),
            all_proposals=listed,
        )
        if request.method == "POST" and forms.submitted and forms.submitted.submit():
            messages.success(request, forms.submitted.message)
            return HttpResponseRedirect(reverse("discovered-assets"))
    register = forms["confirm"] if forms else None
    context = {
        "page": discovered_page(lab=visitor.lab, all_proposals=listed, form=register),
        "forms": forms,
        "register": register,
        "selected": (forms.submitted["item"].value() or []) if forms and forms.submitted else [],
    }
    return render(
        request,
        "dashboard/assets/assets_discovered.html",
        context,
        status=forms.status if forms else 200,
    )


@page()
def assets_labels(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show labels to print: of selected assets, or of a kind and state."""
    kind, state = request.GET.get("kind", ""), request.GET.get("state", "")
    content = labels_page(lab=visitor.lab, ids=request.GET.getlist("id"), kind=kind, state=state)
    context = {"page": content, "kind": kind, "state": state}
    return render(request, "dashboard/assets/asset_labels.html", context)
