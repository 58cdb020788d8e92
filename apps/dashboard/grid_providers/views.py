"""Pages of grid providers: the list with a form to add one, and one provider. PIs and admins
only.
"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.carbon.providers.services import providers_of
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.dashboard.grid_providers.forms import (
    PROVIDER_FORMS,
    AddProviderForm,
    RemoveForm,
    TokenForm,
)
from apps.dashboard.grid_providers.pages import provider_row, provider_rows, unusable_labels


@never_cache
@page("GET", "POST")
def providers(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's grid providers; POST adds one."""
    visitor.require_role(MANAGERS)
    form = AddProviderForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("grid-provider", args=[form.provider.pk]))
    context = {
        "rows": provider_rows(visitor.lab),
        "form": form,
        "zones": form.zone_labels(),
        "basis": visitor.lab.get_basis_display(),
        "unusable": unusable_labels(visitor.lab),
    }
    template = "dashboard/grid_providers/providers.html"
    return render(request, template, context, status=form.status)


@never_cache
@page("GET", "POST")
def provider(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show one grid provider; POST changes it."""
    visitor.require_role(MANAGERS)
    found = providers_of(visitor.lab).filter(pk=pk).first() if pk < 2**63 else None
    stored = or_not_found(found, "grid provider", reverse("grid-providers"))
    forms = PageForms(request, visitor, PROVIDER_FORMS, provider=stored)
    form = forms.submitted
    if request.method == "POST" and form and form.submit():
        messages.success(request, form.message)
        is_removed = isinstance(form, RemoveForm)
        return HttpResponseRedirect(
            reverse("grid-providers") if is_removed else reverse("grid-provider", args=[stored.pk])
        )
    context = {
        "page": provider_row(stored),
        "form": forms[TokenForm.action],
        "submitted": form,
        "confirms_removal": request.GET.get("remove") == "1",
    }
    template = "dashboard/grid_providers/provider.html"
    return render(request, template, context, status=forms.status)
