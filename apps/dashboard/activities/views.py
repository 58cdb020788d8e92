"""Pages of activities: list, add with preview, and one activity."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.activity.kinds import KINDS
from apps.activity.selectors import activity_of
from apps.dashboard.activities.filters import parse_filters
from apps.dashboard.activities.forms import ActivityForm, WithdrawForm
from apps.dashboard.activities.pages import (
    CSV_HEADER,
    activities_page,
    activity_page,
    csv_rows,
)
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page


@page()
def activities(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's activities, filtered."""
    content = activities_page(visitor, request.GET.dict())
    return render(request, "dashboard/activities/activities.html", {"page": content})


@page()
def activities_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the filtered activities with exact integers."""
    _, filters = parse_filters(request.GET.dict(), visitor)
    return csv_response("activities", CSV_HEADER, csv_rows(visitor.lab, filters))


@page("GET", "POST")
def add(request: HttpRequest, visitor: Visitor, kind: str) -> HttpResponseBase:
    """Show the form of a new activity. POST shows its result, or records it."""
    visitor.require_role(WRITERS)
    found = or_not_found(KINDS.get(kind), "kind of activity", reverse("activities"))
    form = ActivityForm.from_request(request, visitor, kind=found)
    preview = None
    if form.is_preview:
        preview = form.preview()
    elif form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(form.address)
    context = {"form": form, "kind": found, "preview": preview}
    return render(request, "dashboard/activities/add.html", context, status=form.status)


@page("GET", "POST")
def activity(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show an activity with its equation, factors and source. POST withdraws it."""
    found = or_not_found(activity_of(visitor.lab, uuid), "activity", reverse("activities"))
    may_withdraw = visitor.can_manage or (
        visitor.can_write and found.created_by_id == visitor.user.pk
    )
    form = WithdrawForm.from_request(request, visitor, activity=found, may_withdraw=may_withdraw)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("activity", args=[found.uuid]))
    context = {"page": activity_page(visitor.lab, found), "form": form}
    return render(request, "dashboard/activities/activity.html", context, status=form.status)
