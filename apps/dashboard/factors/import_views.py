"""Pages of the import of own factors: upload a file, its preview, and its confirmation."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.carbon.own_factors.parsing import ALL_COLUMNS, REQUIRED_COLUMNS
from apps.carbon.own_factors.services import imported_files, own_file_of
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.factors.import_forms import (
    ConfirmFactorsForm,
    FactorsImportForm,
    WithdrawFactorsForm,
)
from apps.dashboard.factors.import_pages import factor_file_page
from apps.dashboard.forms import PageForms

MAX_FILES = 100


@page("GET", "POST")
def factors_import(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form for a file. POST reads the file and redirects to its preview."""
    visitor.require_role(MANAGERS)
    form = FactorsImportForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(reverse("factor-file", args=[form.created.uuid]))
    optional = [name for name in ALL_COLUMNS if name not in REQUIRED_COLUMNS]
    context = {
        "form": form,
        "required": REQUIRED_COLUMNS,
        "optional": optional,
        "files": imported_files(visitor.lab)[:MAX_FILES],
    }
    return render(request, "dashboard/factors/import.html", context, status=form.status)


@page("GET", "POST")
def factor_file(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the preview of a file, its result, or with ``withdraw`` the preview of its withdrawal.
    POST imports or withdraws its factors, all or none.
    """
    visitor.require_role(MANAGERS)
    file = own_file_of(visitor.lab, uuid)
    forms = PageForms(request, visitor, (ConfirmFactorsForm, WithdrawFactorsForm), file=file)
    form = forms.submitted
    if form is not None and form.submit():
        if form.message:
            messages.success(request, form.message)
        return HttpResponseRedirect(reverse("factor-file", args=[uuid]))
    context = {
        "page": factor_file_page(
            file,
            visitor.now,
            is_withdrawal="withdraw" in request.GET or isinstance(form, WithdrawFactorsForm),
        ),
        "form": form or forms["import"],
        "withdraw_form": forms["withdraw"],
    }
    return render(request, "dashboard/factors/factor_file.html", context, status=forms.status)
