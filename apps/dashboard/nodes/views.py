"""Pages of nodes: the list, one node with its overhead, moves to other sites, enrolment, one
device.
"""

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.core.errors import NotFound
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import ACTION, PageForms
from apps.dashboard.frame.period_menu import period_menu, requested_period
from apps.dashboard.nodes.change_preview import Effect
from apps.dashboard.nodes.device_page import device_page
from apps.dashboard.nodes.forms import (
    EnrolForm,
    MoveForm,
    NameForm,
    OverheadForm,
    PreviewedForm,
    RefusedMessagesForm,
    UndoMoveForm,
)
from apps.dashboard.nodes.node_move_page import move_page
from apps.dashboard.nodes.node_pages import node_page, nodes_page
from apps.fleet.selectors import device_of, node_of


def _enrol_command() -> str:
    return f"labcarbon-collect enrol {settings.SITE_URL}"


@page()
def nodes(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List nodes with their energy, coverage and health."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    content = nodes_page(
        lab=visitor.lab,
        period=period,
        now=visitor.now,
        shows_retired=request.GET.get("show") == "retired",
    )
    return render(
        request,
        "dashboard/nodes/nodes.html",
        {
            "page": content,
            "menu": period_menu(request, period, visitor.now),
            "enrol": _enrol_command(),
        },
    )


@page("GET", "POST")
def node(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show one node. POST sets its overhead."""
    node = or_not_found(node_of(visitor.lab, uuid), "node", reverse("nodes"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    watts = "" if node.static_power_mw is None else f"{node.static_power_mw / 1000:g}"
    form = OverheadForm.from_request(request, visitor, initial={"watts": watts}, node=node)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(f"{reverse('node', args=[node.uuid])}#overhead")
    context = {
        "page": node_page(lab=visitor.lab, node=node, period=period, now=visitor.now),
        "menu": period_menu(request, period, visitor.now),
        "form": form,
        "move_form": MoveForm(visitor, node=node),
        "name_form": NameForm(visitor, initial={"name": node.display_name}, node=node),
    }
    return render(request, "dashboard/nodes/node.html", context, status=form.status)


@page("GET", "POST")
def move(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show the sites of a node over time. A GET with an action previews a move, POST records it."""
    node = or_not_found(node_of(visitor.lab, uuid), "node", reverse("nodes"))
    if request.method == "POST" or ACTION in request.GET:
        visitor.require_role(MANAGERS)
    forms = PageForms(request, visitor, [MoveForm, UndoMoveForm], node=node)
    effect: Effect | None = None
    form = forms.submitted
    if request.method == "POST" and form is not None:
        if form.submit():
            messages.success(request, form.message)
            return HttpResponseRedirect(f"{reverse('node', args=[node.uuid])}#place")
    elif isinstance(form, PreviewedForm):
        effect = form.preview()
    context = {"page": move_page(node=node, effect=effect, now=visitor.now), "forms": forms}
    return render(request, "dashboard/nodes/node_move.html", context, status=forms.status)


@page("POST")
def run_messages(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Accept or discard the refused messages of a node about a run."""
    node = or_not_found(node_of(visitor.lab, uuid), "node", reverse("nodes"))
    form = RefusedMessagesForm.from_request(request, visitor, node=node)
    try:
        is_saved = form.submit()
    except NotFound as error:
        messages.error(request, f"{error.message} {error.hint}")
    else:
        if is_saved:
            messages.success(request, form.message)
        for errors in form.errors.values():
            messages.error(request, " ".join(str(error) for error in errors))
    return HttpResponseRedirect(f"{reverse('node', args=[node.uuid])}#refused-messages")


@never_cache
@page("GET", "POST")
def enrol(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Create a one-time code that enrols a machine at a site, and show the two commands."""
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    form = EnrolForm.from_request(request, visitor)
    code = form.code if form.is_bound and form.submit() else ""
    context = {
        "code": code,
        "site": form.selected_site if code else None,
        "form": form,
        "enrol": _enrol_command(),
        "daemon": "labcarbon-collect daemon",
    }
    return render(request, "dashboard/nodes/enrol.html", context, status=form.status)


@page()
def device(request: HttpRequest, visitor: Visitor, key: str) -> HttpResponseBase:
    """Show one device."""
    device = or_not_found(device_of(visitor.lab, key), "device", reverse("nodes"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    content = device_page(lab=visitor.lab, device=device, period=period, now=visitor.now)
    return render(
        request,
        "dashboard/nodes/device.html",
        {"page": content, "menu": period_menu(request, period, visitor.now)},
    )
