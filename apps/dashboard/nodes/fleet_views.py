"""The page that adds nodes: fleet tokens, commands, approvals, and the list of new nodes."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.dashboard.decorators import Visitor, page
from apps.dashboard.forms import PageForms
from apps.dashboard.nodes.fleet_forms import FLEET_FORMS, CreateFleetTokenForm, FleetForm
from apps.dashboard.nodes.fleet_page import fleet_page, live_nodes
from apps.fleet.selectors import sites_of


@never_cache
@page("GET", "POST")
def add_nodes(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Create a fleet token and show the commands that install the collector. POST decides about
    tokens and nodes.
    """
    initial = {CreateFleetTokenForm.action: {"site": sites_of(visitor.lab).first()}}
    forms = PageForms(request, visitor, FLEET_FORMS, initial=initial)
    text = ""
    submitted = forms.submitted
    if isinstance(submitted, FleetForm) and submitted.submit():
        text = submitted.text
        messages.success(request, submitted.message)
        if not text:
            return HttpResponseRedirect(reverse("node-add"))
    context = {
        "page": fleet_page(visitor, request.GET.get("kind", "")),
        "forms": forms,
        "submitted": submitted,
        "text": text,
    }
    return render(request, "dashboard/nodes/add.html", context, status=forms.status)


@never_cache
@page()
def live(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Return the list of new nodes, which the page loads again every few seconds."""
    return render(request, "dashboard/nodes/add_live.html", {"live": live_nodes(visitor)})
