"""Scopes: the table by profile, its CSV, and who controls the electricity of each site."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.carbon.figures.figure_query import ALLOCATION
from apps.core.errors import InvalidInput
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.explain.forms import SiteControlForm
from apps.dashboard.explain.scopes_page import LEDGERS, scope_rows, scopes_page
from apps.dashboard.frame.period_menu import period_menu, requested_period
from apps.dashboard.frame.profile_menu import requested_profile


def _ledger(request: HttpRequest) -> str:
    ledger = request.GET.get("ledger", ALLOCATION)
    if ledger not in LEDGERS:
        raise InvalidInput(
            f"{ledger[:40]!r} is not a hardware ledger.",
            field="ledger",
            hint=f"Use one of {', '.join(LEDGERS)}.",
        )
    return ledger


@page("GET", "POST")
def scopes(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show scopes. POST records who controls the electricity of a site."""
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    form = SiteControlForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(request.get_full_path())
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
    context = {
        "page": content,
        "menu": period_menu(request, period, visitor.now),
        "form": form,
        "site_forms": [(site, SiteControlForm.of_site(visitor, site)) for site in content.sites],
    }
    return render(request, "dashboard/explain/scopes.html", context, status=form.status)


@page()
def scopes_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download both profiles with exact integers."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    head = (
        "profile",
        "scope",
        "role",
        "activity",
        "hardware_ledger",
        "energy_mj",
        "emission_ug_co2e",
        "note",
        "beyond_the_lesson",
    )
    rows = scope_rows(visitor.lab, period, _ledger(request), visitor.now)
    return csv_response(f"{visitor.lab.slug}-scopes", head, rows)
