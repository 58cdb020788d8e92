"""Saved estimates: save the result of the planner, list, and show one."""

from uuid import UUID

from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.core.errors import InvalidInput
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.dashboard.forms import require_valid
from apps.dashboard.planner.planner_page import planner_form
from apps.dashboard.planner.saved.saved_page import saved_estimate, saved_list
from apps.planner.services import compute_estimate, store_estimate


@page("POST")
def save(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Save the estimate of a planned training. The field ``query`` is that of the page Planner."""
    visitor.require_role(WRITERS)
    made = planner_form(visitor.lab, QueryDict(request.POST.get("query", "")))
    if not made.form.is_bound:
        raise InvalidInput("There is no plan to save.", hint="Fill in the planner first.")
    require_valid(made.form)
    computed = compute_estimate(lab=visitor.lab, job=made.job_input(), now=visitor.now)
    if computed.figures is None:
        raise InvalidInput(
            "There is no basis for an estimate, so that nothing is saved.",
            hint=" ".join(computed.missing),
        )
    stored = store_estimate(
        lab=visitor.lab, computed=computed, person=visitor.user, now=visitor.now
    )
    return redirect("planner-estimate", stored.uuid)


@never_cache
@page()
def estimates(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the newest saved estimates."""
    context = {"page": saved_list(visitor.lab, visitor.now)}
    return render(request, "dashboard/planner/saved/estimates.html", context)


@never_cache
@page()
def estimate(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show a saved estimate with its outcome."""
    found = or_not_found(
        saved_estimate(visitor.lab, uuid, visitor.now), "estimate", reverse("planner-estimates")
    )
    return render(request, "dashboard/planner/saved/estimate.html", {"page": found})
