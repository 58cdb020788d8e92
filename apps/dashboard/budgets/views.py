"""Pages of budgets: the list with a form to add one, and one budget. Members read them, PIs and
admins change them.
"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.budgets.models import Budget
from apps.budgets.selectors import budgets_of
from apps.dashboard.budgets.budget_page import DAY_HEADER, budget_page, day_rows
from apps.dashboard.budgets.budgets_page import CSV_HEADER, budgets_page, csv_rows
from apps.dashboard.budgets.forms import (
    BUDGET_FORMS,
    AddBudgetForm,
    ChangeForm,
    entered_amount,
)
from apps.dashboard.budgets.stored_forecasts import FORECAST_HEADER, forecast_rows
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms


def _budget_of(visitor: Visitor, pk: int) -> Budget:
    found = budgets_of(visitor.lab).filter(pk=pk).first() if pk < 2**63 else None
    budget: Budget = or_not_found(found, "budget", reverse("budgets"))
    return budget


@page("GET", "POST")
def budgets(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's budgets with their state; POST adds one."""
    form = AddBudgetForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("budget", args=[form.budget.pk]))
    context = {"page": budgets_page(visitor.lab, visitor.now), "form": form}
    return render(request, "dashboard/budgets/budgets.html", context, status=form.status)


@page()
def budgets_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the budgets in use with exact integers."""
    rows = csv_rows(visitor.lab, visitor.now)
    return csv_response(f"{visitor.lab.slug}-budgets", CSV_HEADER, rows)


@page("GET", "POST")
def budget(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show one budget with its burn-down; POST changes or ends it."""
    stored = _budget_of(visitor, pk)
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    content = budget_page(stored, visitor.now)
    amount = entered_amount(stored.metric, content.amount)
    forms = PageForms(
        request,
        visitor,
        BUDGET_FORMS,
        initial={ChangeForm.action: {"amount": f"{amount:f}"}},
        budget=stored,
    )
    form = forms.submitted
    if request.method == "POST" and form and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("budget", args=[stored.pk]))
    context = {
        "page": content,
        "form": forms[ChangeForm.action],
        "submitted": form,
        "confirms_end": request.GET.get("end") == "1",
    }
    return render(request, "dashboard/budgets/budget.html", context, status=forms.status)


@page()
def budget_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download the days of the running period with exact integers."""
    stored = _budget_of(visitor, pk)
    name = f"{visitor.lab.slug}-budget-{stored.pk}"
    return csv_response(name, DAY_HEADER, day_rows(stored, visitor.now))


@page()
def forecasts_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download the stored forecasts with exact integers."""
    stored = _budget_of(visitor, pk)
    name = f"{visitor.lab.slug}-budget-{stored.pk}-forecasts"
    return csv_response(name, FORECAST_HEADER, forecast_rows(stored, visitor.now))
