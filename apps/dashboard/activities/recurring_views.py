"""Pages of recurring activities: list, and one with its periods."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.activity.selectors import recurring_activity_of
from apps.dashboard.activities.recurring_forms import EndForm
from apps.dashboard.activities.recurring_pages import recurring_list_page, recurring_page
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms


@page()
def recurring_list(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's recurring activities."""
    content = recurring_list_page(visitor.lab, request.GET.get("page", "1"))
    return render(request, "dashboard/activities/recurring_list.html", {"page": content})


@page("GET", "POST")
def recurring_activity(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show a recurring activity with its latest periods. POST ends it."""
    found = or_not_found(
        recurring_activity_of(visitor.lab, uuid),
        "recurring activity",
        reverse("recurring-activities"),
    )
    if request.method == "POST":
        visitor.require_role(WRITERS)
    may_end = visitor.can_manage or (visitor.can_write and found.created_by_id == visitor.user.pk)
    forms = PageForms(request, visitor, [EndForm], recurring=found, may_end=may_end)
    form = forms.submitted
    if request.method == "POST" and form and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("recurring-activity", args=[uuid]))
    context = {
        "page": recurring_page(found),
        "form": forms[EndForm.action],
        "may_end": may_end,
        "confirms_end": request.GET.get("end") == "1",
    }
    template = "dashboard/activities/recurring_activity.html"
    return render(request, template, context, status=forms.status)
