"""Pages of quarantined windows and of devices that moved."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.core.errors import NotFound
from apps.core.units import INT64_MAX
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.dashboard.nodes.quarantine_forms import (
    AcceptMoveForm,
    DecisionForm,
    PlacementForm,
    TimePreviewForm,
    UndoDecisionForm,
    time_of,
)
from apps.dashboard.nodes.quarantine_pages import REASONS, quarantine_page, quarantined_window_page
from apps.ingest.selectors import quarantined_window
from apps.ingest.services.decisions import default_time


@page("GET", "POST")
def quarantine(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the quarantined windows. POST accepts or discards the selected ones."""
    reason = request.GET.get("reason", "")
    or_not_found(reason == "" or REASONS.get(reason), "reason", reverse("quarantine"))
    is_decided = request.GET.get("show") == "decided"
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    form = DecisionForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(request.get_full_path())
    context = {
        "page": quarantine_page(lab=visitor.lab, reason=reason, is_decided=is_decided),
        "form": form,
    }
    return render(request, "dashboard/nodes/quarantine.html", context, status=form.status)


@page("GET", "POST")
def window(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a quarantined window, and with action=preview what is counted in a chosen time. POST
    decides or undoes.
    """
    row = quarantined_window(visitor.lab, pk) if pk <= INT64_MAX else None
    row = or_not_found(row, "quarantined window", reverse("quarantine"))
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    start, end = (time_of(us, visitor.zone) for us in default_time(row))
    initial = {"start": start, "end": end}
    forms = PageForms(
        request,
        visitor,
        [PlacementForm, TimePreviewForm, UndoDecisionForm],
        initial={"decide": initial, "preview": initial},
        row=row,
    )
    form = forms.submitted
    time = None
    if request.method == "POST" and form is not None and not isinstance(form, TimePreviewForm):
        if form.submit():
            messages.success(request, form.message)
            return HttpResponseRedirect(reverse("quarantined-window", args=[row.pk]))
    elif isinstance(form, TimePreviewForm) and form.is_valid():
        time = form.times()
    if isinstance(form, PlacementForm):
        time = form.times()
    content = quarantined_window_page(row=row, time=time, now=visitor.now)
    context = {
        "page": content,
        "forms": forms,
        "start": time_of(content.start_us, visitor.zone).isoformat(),
        "end": time_of(content.end_us, visitor.zone).isoformat(),
    }
    return render(request, "dashboard/nodes/quarantined_window.html", context, status=forms.status)


@page("POST")
def device_move(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Accept the move of a device."""
    form = AcceptMoveForm.from_request(request, visitor, move_id=min(pk, INT64_MAX))
    try:
        if form.submit():
            messages.success(request, form.message)
    except NotFound as error:
        messages.error(request, f"{error.message} {error.hint}")
    return HttpResponseRedirect(f"{reverse('quarantine')}#moves")
