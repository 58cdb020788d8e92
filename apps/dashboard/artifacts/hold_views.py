"""Views of holds: list, place and lift."""

from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.dashboard.artifacts.forms.holds import HOLD_FORMS, SUBJECT_FIELDS, HoldForm, PlaceHoldForm
from apps.dashboard.artifacts.holds_page import holds_page
from apps.dashboard.decorators import WRITERS, Visitor, page
from apps.dashboard.forms import PageForms


@page("GET", "POST")
def holds(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List holds; POST places or lifts a hold."""
    if request.method == "POST":
        visitor.require_role(WRITERS)
    named = {name: request.GET[name] for name in SUBJECT_FIELDS if name in request.GET}
    forms = PageForms(
        request, visitor, HOLD_FORMS, initial={"place": named} if request.method == "GET" else None
    )
    if request.method == "POST":
        form = cast("HoldForm", forms.submitted)
        if form.submit():
            messages.success(request, form.message)
            return HttpResponseRedirect(form.next_address)
    place = cast("PlaceHoldForm", forms["place"])
    page_data = holds_page(
        lab=visitor.lab,
        on=place.subject,
        user=visitor.user,
        can_write=visitor.can_write,
        can_manage=visitor.can_manage,
        now=visitor.now,
    )
    context = {"page": page_data, "forms": forms}
    return render(request, "dashboard/artifacts/holds.html", context, status=forms.status)
