"""Scopes: the table by profile, its CSV, and whose electricity each site's is."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.carbon.figures.query import ALLOCATION
from apps.core.errors import InvalidInput, LabCarbonError
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.explain.scopes import LEDGERS, scope_rows, scopes_page
from apps.dashboard.form_fields import required_site
from apps.dashboard.period_menu import period_menu, requested_period
from apps.dashboard.profile_menu import requested_profile
from apps.fleet.services import set_control


def _ledger(request: HttpRequest) -> str:
    ledger = request.GET.get("ledger", ALLOCATION)
    if ledger not in LEDGERS:
        raise InvalidInput(
            f"{ledger[:40]!r} is not a ledger of hardware.", field="ledger", hint=f"Use one of {', '.join(LEDGERS)}."
        )
    return ledger


@page("GET", "POST")
def scopes(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show scopes; POST says who controls the electricity of a site."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            site = required_site(request.POST, visitor)
            set_control(site=site, control=request.POST.get("control", ""), by=visitor.user, now=visitor.now)
            messages.success(request, f"Who controls the electricity of {site.name} is recorded; no total changes.")
            return HttpResponseRedirect(request.get_full_path())
        except LabCarbonError as wrong:
            error = wrong
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    content = scopes_page(
        lab=visitor.lab,
        period=period,
        profile=requested_profile(request, visitor.lab),
        ledger=_ledger(request),
        both=request.GET.get("both") == "1",
        now=visitor.now,
    )
    context = {"page": content, "menu": period_menu(request, period), "error": error}
    return render(request, "dashboard/explain/scopes.html", context, status=error.status if error else 200)


@page()
def scopes_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download both profiles with exact integers."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    head = (
        "profile", "scope", "role", "activity", "hardware_ledger", "energy_mj", "emission_ug_co2e", "note",
        "beyond_the_lesson",
    )  # fmt: skip
    rows = scope_rows(visitor.lab, period, _ledger(request), visitor.now)
    return csv_response(f"{visitor.lab.slug}-scopes", head, rows)
