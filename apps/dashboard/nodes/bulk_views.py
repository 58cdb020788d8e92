"""Page of one change for many nodes, and the name of one node."""

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.core.errors import InvalidInput
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForm, PageForms
from apps.dashboard.nodes.bulk_forms import (
    NODES_FORMS,
    NodeChange,
    NodeSelectionForm,
    NodesForm,
    RestoreForm,
    RetireForm,
    SiteChangeForm,
)
from apps.dashboard.nodes.change_preview import Effect
from apps.dashboard.nodes.forms import NameForm
from apps.fleet.selectors import node_of

LISTED = 12  # names on the page


@never_cache
@page("POST")
def nodes_changes(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the forms of changes for the selected nodes, preview one, or save it."""
    visitor.require_role(MANAGERS)
    selection = NodeSelectionForm.from_request(request, visitor)
    if not selection.is_valid():
        raise InvalidInput("Unreadable selection.", field="item", hint="Select the nodes again.")
    nodes = selection.nodes()
    is_retired = all(node.retired_us is not None for node in nodes)
    offered: list[type[NodesForm]] = [
        form_class
        for form_class in NODES_FORMS
        if form_class is not (RetireForm if is_retired else RestoreForm)
    ]
    classes: list[type[PageForm]] = [NodeSelectionForm, *NODES_FORMS]
    forms = PageForms(request, visitor, classes, nodes=nodes)
    submitted = forms.submitted
    effect: Effect | None = None
    changes: list[NodeChange] | None = None
    if isinstance(submitted, NodesForm):
        if selection.cleaned_data["record"]:
            if submitted.submit():
                messages.success(request, submitted.message)
                if not submitted.code:
                    return HttpResponseRedirect(_location(nodes, submitted))
        elif isinstance(submitted, SiteChangeForm):
            effect = submitted.effect()
        else:
            changes = submitted.trial()
    context = {
        "nodes": nodes,
        "listed": nodes[:LISTED],
        "more": max(0, len(nodes) - LISTED),
        "selected": ".".join(str(node.uuid) for node in nodes),
        "effect": effect,
        "changes": changes,
        "code": submitted.code if isinstance(submitted, NodesForm) else "",
        "enrol": f"labcarbon-collect enrol {settings.SITE_URL}",
        "forms": forms,
        "change_forms": [forms[form_class.action] for form_class in offered],
    }
    return render(request, "dashboard/nodes/nodes_changes.html", context, status=forms.status)


def _location(nodes: list, form: NodesForm) -> str:  # type: ignore[type-arg]
    """Return the page that shows the result."""
    return reverse("node", args=[nodes[0].uuid]) if len(nodes) == 1 else reverse("nodes")


@page("POST")
def name(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Set the display name of a node."""
    node = or_not_found(node_of(visitor.lab, uuid), "node", reverse("nodes"))
    form = NameForm.from_request(request, visitor, node=node)
    if form.submit():
        messages.success(request, form.message)
    for errors in form.errors.values():
        messages.error(request, " ".join(str(error) for error in errors))
    return HttpResponseRedirect(f"{reverse('node', args=[node.uuid])}#manage")
