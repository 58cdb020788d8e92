"""Page Share a GPU: several small jobs on one card."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from apps.core.errors import InvalidInput
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.forms import require_valid
from apps.dashboard.planner.sharing.plans_csv import PLANS_HEAD, plan_lines
from apps.dashboard.planner.sharing.sharing_page import sharing_page


@never_cache
@page()
def sharing(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the card and jobs to choose, and the plans of sharing."""
    content = sharing_page(visitor, request.GET)
    context = {"page": content, "form": content.form, "result": content.result}
    return render(request, "dashboard/planner/sharing/sharing.html", context, status=content.status)


@page()
def sharing_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the plans with exact integers."""
    content = sharing_page(visitor, request.GET)
    if content.form.is_bound:
        require_valid(content.form)
    if content.result is None:
        raise InvalidInput(
            "The address has no jobs.", hint="Open Share a GPU and choose two or more."
        )
    return csv_response(f"{visitor.lab.slug}-gpu-sharing", PLANS_HEAD, plan_lines(content.result))
