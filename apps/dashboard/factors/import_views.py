"""Pages of the import of own factors: upload a file, its preview, and its confirmation."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.carbon.own_factors.parsing import ALL_COLUMNS, REQUIRED_COLUMNS
from apps.carbon.own_factors.services import own_file_of
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.factors.import_forms import ConfirmFactorsForm, FactorsImportForm
from apps.dashboard.factors.import_pages import factor_file_page


@page("GET", "POST")
def factors_import(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form for a file. POST reads the file and redirects to its preview."""
    visitor.require_role(MANAGERS)
    form = FactorsImportForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(reverse("factor-file", args=[form.created.uuid]))
    optional = [name for name in ALL_COLUMNS if name not in REQUIRED_COLUMNS]
    context = {"form": form, "required": REQUIRED_COLUMNS, "optional": optional}
    return render(request, "dashboard/factors/import.html", context, status=form.status)


@page("GET", "POST")
def factor_file(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the preview of a file, or its result. POST imports its factors, all or none."""
    visitor.require_role(MANAGERS)
    file = own_file_of(visitor.lab, uuid)
    form = ConfirmFactorsForm.from_request(request, visitor, file=file)
    if form.is_bound and form.submit():
        if form.message:
            messages.success(request, form.message)
        return HttpResponseRedirect(reverse("factor-file", args=[uuid]))
    context = {"page": factor_file_page(file, visitor.now), "form": form}
    return render(request, "dashboard/factors/factor_file.html", context, status=form.status)
