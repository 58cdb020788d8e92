"""Saved estimates: save the result of the planner, list, and show one."""

from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.core.errors import InvalidInput
from apps.dashboard.decorators import Visitor, or_not_found, page
from apps.dashboard.planner.estimates.estimate_pages import (
    calibration_rows,
    saved_estimate,
    saved_list,
)
from apps.dashboard.planner.estimates.forms import SaveForm


@page("POST")
def save(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Save the estimate of a planned training. The field ``query`` is that of the page Planner."""
    form = SaveForm.from_request(request, visitor)
    if not form.submit():
        raise InvalidInput(form.first_error, hint="Open the planner and correct the plan.")
    return redirect("planner-estimate", form.estimate.uuid)


@never_cache
@page()
def estimates(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the newest saved estimates."""
    context = {
        "page": saved_list(visitor.lab, visitor.now),
        "calibration": calibration_rows(visitor.lab),
    }
    return render(request, "dashboard/planner/estimates/estimates.html", context)


@never_cache
@page()
def estimate(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show a saved estimate with its outcome."""
    found = or_not_found(
        saved_estimate(visitor.lab, uuid, visitor.now), "estimate", reverse("planner-estimates")
    )
    return render(request, "dashboard/planner/estimates/estimate.html", {"page": found})
