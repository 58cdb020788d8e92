"""Views of cleanup plans and retention periods."""

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.models import Project
from apps.artifacts.cleanup.plans import plan_by_uuid
from apps.artifacts.models import CleanupPlan
from apps.core.errors import InvalidInput
from apps.dashboard.artifacts.cleanup_pages import CSV_COLUMNS, plan_csv_rows, plan_page, plans_page
from apps.dashboard.artifacts.forms.cleanup import (
    DEFAULT_PLAN_DAYS,
    PERIOD_PREFIX,
    PLAN_FORMS,
    PLANS_FORMS,
    NotifyOwnersForm,
    PlanForm,
    PlansForm,
    RetentionForm,
    ScopeForm,
    SelectItemsForm,
    period_values,
)
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms


@page("GET", "POST")
def plans(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List plans; POST creates a plan for a node or sets retention periods."""
    if request.method == "POST":
        visitor.require_role(WRITERS)
    project = _scope(request, visitor)
    initial = {"retention": period_values(visitor, project)}
    forms = PageForms(request, visitor, PLANS_FORMS, initial=initial)
    if request.method == "POST":
        form = cast("PlansForm", forms.submitted)
        if form.submit():
            messages.success(request, form.message)
            return HttpResponseRedirect(form.next_address)
        if isinstance(form, RetentionForm):
            project = form.cleaned_data.get("project")
    listed = plans_page(visitor.lab, project=project)
    context = {
        "page": listed,
        "forms": forms,
        "periods": [
            (row, forms["retention"][f"{PERIOD_PREFIX}{row.retention_class.value}"])
            for row in listed.periods
        ],
        "scope": ScopeForm(visitor, initial={"project": project}),
    }
    return render(request, "dashboard/artifacts/cleanup_plans.html", context, status=forms.status)


def _scope(request: HttpRequest, visitor: Visitor) -> Project | None:
    """Return the project in the address whose retention periods are listed. Raises InvalidInput."""
    scope = ScopeForm(visitor, request.GET)
    if not scope.is_valid():
        raise InvalidInput(
            "There is no such project in this lab.", field="project", hint="Choose one of the list."
        )
    project: Project | None = scope.cleaned_data["project"]
    return project


@page("GET", "POST")
def plan(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show a plan; POST selects items, notifies owners, objects, approves or withdraws."""
    plan: CleanupPlan = or_not_found(
        plan_by_uuid(visitor.lab, uuid), "plan", reverse("cleanup-plans")
    )
    days = {name: request.GET.get(name, DEFAULT_PLAN_DAYS) for name in ("grace_days", "trash_days")}
    forms = PageForms(request, visitor, PLAN_FORMS, initial={"notify": days}, plan=plan)
    submitted = cast("PlanForm", forms.submitted) if request.method == "POST" else None
    if submitted is not None and submitted.submit():
        messages.success(request, submitted.message)
        return HttpResponseRedirect(_next_address(request, submitted))
    ticks = submitted.ticks if submitted else {}
    context = {
        "page": plan_page(
            plan=plan, params=request.GET.dict(), user=visitor.user, now=visitor.now, ticks=ticks
        ),
        "forms": forms,
        "draft": submitted
        if isinstance(submitted, (SelectItemsForm, NotifyOwnersForm))
        else forms["notify"],
        "confirms_withdrawal": request.GET.get("withdraw") == "1",
    }
    return render(request, "dashboard/artifacts/cleanup_plan.html", context, status=forms.status)


def _next_address(request: HttpRequest, form: PlanForm) -> str:
    """Return the same address, with the days that a selection keeps for the next page."""
    query = request.GET.copy()
    for name in ("grace_days", "trash_days"):
        query.pop(name, None)
    if isinstance(form, SelectItemsForm):
        query.update(form.changed_days)
    return f"{request.path}?{query.urlencode()}" if query else request.path


@page()
def plan_csv(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Download all items of a plan."""
    plan: CleanupPlan = or_not_found(
        plan_by_uuid(visitor.lab, uuid), "plan", reverse("cleanup-plans")
    )
    return csv_response(f"{visitor.lab.slug}-plan", CSV_COLUMNS, plan_csv_rows(plan, visitor.now))
