"""Pages of asset sources: the list with a form to add one, and one source. PIs and admins only."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.dashboard.asset_sources.forms import (
    SOURCE_FORMS,
    AddSourceForm,
    ChangeSourceForm,
    RemoveForm,
)
from apps.dashboard.asset_sources.pages import (
    initial_values,
    permitted_addresses,
    source_page,
    source_rows,
)
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.pollers.choices import Policy
from apps.pollers.selectors import source_of


@never_cache
@page("GET", "POST")
def sources(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's asset sources; POST adds one."""
    visitor.require_role(MANAGERS)
    form = AddSourceForm.from_request(request, visitor, initial={"policy": Policy.PROPOSE})
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("asset-source", args=[form.source.pk]))
    context = {
        "rows": source_rows(visitor.lab),
        "form": form,
        "addresses": permitted_addresses(),
    }
    template = "dashboard/asset_sources/sources.html"
    return render(request, template, context, status=form.status)


@never_cache
@page("GET", "POST")
def source(request: HttpRequest, visitor: Visitor, source: int) -> HttpResponseBase:
    """Show one source with what its last list added, changed and lost; POST decides about it."""
    visitor.require_role(MANAGERS)
    stored = or_not_found(source_of(visitor.lab, source), "asset source", reverse("asset-sources"))
    initial = {ChangeSourceForm.action: initial_values(stored)}
    forms = PageForms(request, visitor, SOURCE_FORMS, initial=initial, source=stored)
    form = forms.submitted
    if request.method == "POST" and form and form.submit():
        messages.success(request, form.message)
        is_removed = isinstance(form, RemoveForm)
        return HttpResponseRedirect(
            reverse("asset-sources") if is_removed else reverse("asset-source", args=[stored.pk])
        )
    context = {
        "page": source_page(stored),
        "form": forms[ChangeSourceForm.action],
        "submitted": form,
        "confirms_removal": request.GET.get("remove") == "1",
    }
    template = "dashboard/asset_sources/source.html"
    return render(request, template, context, status=forms.status)
