"""Pages of billing exports: months, upload, accounts, preview, and one month."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.billing.choices import FileState
from apps.billing.selectors import earlier_options, month_of_lab
from apps.billing.services.uploads import file_of
from apps.dashboard.billing.forms import AccountsForm, BillingForm, ConfirmForm, RemoveForm
from apps.dashboard.billing.pages import (
    ITEM_HEADER,
    billing_page,
    csv_rows,
    file_page,
    month_page,
)
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, page


@page("GET", "POST")
def billing(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List billed months and exports. POST uploads the files of an export."""
    form = BillingForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(reverse("billing-file", args=[form.created.uuid]))
    context = {"page": billing_page(visitor.lab), "form": form}
    return render(request, "dashboard/billing/billing.html", context, status=form.status)


@page("GET", "POST")
def accounts(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the accounts and tags of an export. POST assigns them and computes its months."""
    visitor.require_role(WRITERS)
    found = file_of(visitor.lab, uuid)
    preview = reverse("billing-file", args=[uuid])
    if found.state not in (FileState.MAPPING, FileState.CHECKED):
        return HttpResponseRedirect(preview)
    tags = found.found.get("tags", {})
    tag = _tag(request, earlier_options(found) | found.options, tags)
    form = AccountsForm.from_request(request, visitor, file=found, tag_key=tag)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(preview)
    context = {"file": found, "form": form, "tags": list(tags)}
    return render(request, "dashboard/billing/accounts.html", context, status=form.status)


def _tag(request: HttpRequest, options: dict[str, str], tags: dict[str, object]) -> str:
    """Return the tag whose values are listed: the chosen one, that of before, or ``project``."""
    chosen = request.GET.get("tag")
    if chosen is not None:
        return chosen if chosen in tags else ""
    return next((name for name in (options.get("tag"), "project") if name in tags), "") or ""


@page("GET", "POST")
def file(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show an export in its state: progress, preview, or result. POST records it."""
    visitor.require_role(WRITERS)
    found = file_of(visitor.lab, uuid)
    if found.state == FileState.MAPPING:
        return HttpResponseRedirect(reverse("billing-accounts", args=[uuid]))
    form = ConfirmForm.from_request(request, visitor, file=found)
    if form.is_bound and form.submit():
        return HttpResponseRedirect(reverse("billing-file", args=[uuid]))
    context = {"page": file_page(found), "form": form}
    return render(request, "dashboard/billing/file.html", context, status=form.status)


@page("GET", "POST")
def month(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a billed month: use, money, and its activities. POST removes it."""
    found = month_of_lab(visitor.lab, pk)
    form = RemoveForm.from_request(request, visitor, month=found)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("billing"))
    context = {"page": month_page(found, visitor.now), "form": form}
    return render(request, "dashboard/billing/month.html", context, status=form.status)


@page()
def month_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download the items of a billed month with exact integers."""
    found = month_of_lab(visitor.lab, pk)
    return csv_response("billed-month", ITEM_HEADER, csv_rows(found))
