"""Pages of emission factors: the list, one zone, the hours of a zone, and the lab's basis."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.choices import Basis
from apps.carbon.basis import check_basis, preview_basis
from apps.carbon.factor_levels import hours_of_series, levels_of_zones
from apps.carbon.figures.figure_query import iso_hour
from apps.core.units import UG_PER_G, hour_of
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import ADMINS, Visitor, or_not_found, page
from apps.dashboard.factors.basis_page import basis_page
from apps.dashboard.factors.factors_page import (
    ZoneRow,
    factors_page,
    parse_filters,
    zone_rows,
)
from apps.dashboard.factors.forms import BasisForm
from apps.dashboard.factors.zone_page import zone_page
from apps.dashboard.periods import from_days, parse_period
from apps.fleet.zones import zones

LIST_COLUMNS = (
    "zone", "zone_name", "sites", "basis", "resolution", "period", "g_per_kwh", "ug_per_kwh",
    "factor_zone", "origin", "edition", "source", "licence",
)  # fmt: skip
HOUR_COLUMNS = (
    "hour_utc", "g_per_kwh", "ug_per_kwh", "resolution", "basis", "factor_zone", "source",
    "licence",
)  # fmt: skip


@page()
def factors(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List zones with the factor that applies now. Filters are query parameters."""
    content = factors_page(lab=visitor.lab, params=request.GET.dict(), now=visitor.now)
    context = {"page": content, "bases": Basis.choices}
    return render(request, "dashboard/factors/factors.html", context)


def _grams(ug_per_kwh: int) -> str:
    return f"{Decimal(ug_per_kwh) / UG_PER_G:f}"


def _line(row: ZoneRow, basis: str) -> tuple[Any, ...]:
    sites = "; ".join(site.name for site in row.sites)
    start = (row.zone.code, row.zone.name, sites, basis)
    if row.applied is None:
        return start + (None,) * 9
    factor = row.applied.factor
    return (
        *start,
        factor.resolution,
        factor.period,
        _grams(row.applied.ug_per_kwh),
        row.applied.ug_per_kwh,
        factor.zone,
        "own" if factor.lab_id else "shipped",
        factor.edition,
        factor.source,
        factor.licence,
    )


@page()
def factors_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the filtered zones. A zone without a factor has empty cells."""
    filters = parse_filters(request.GET.dict(), visitor.lab)
    rows = zone_rows(visitor.lab, filters, visitor.now)
    lines = (_line(row, filters.basis) for row in rows)
    return csv_response(f"{visitor.lab.slug}-factors", LIST_COLUMNS, lines)


@page()
def zone(request: HttpRequest, visitor: Visitor, zone: str) -> HttpResponseBase:
    """Show a zone: the factor that applies and why, its editions, sites and hours. A code in lower
    case leads to the zone.
    """
    code = zone.upper()
    if zone != code and code in zones():
        query = f"?{request.GET.urlencode()}" if request.GET else ""
        return HttpResponseRedirect(reverse("factor-zone", args=[code]) + query)
    listed = or_not_found(zones().get(zone), "grid zone", reverse("factors"))
    content = zone_page(visitor=visitor, zone=listed, params=request.GET.dict())
    return render(request, "dashboard/factors/zone.html", {"page": content})


@page()
def hours_csv(request: HttpRequest, visitor: Visitor, zone: str) -> HttpResponseBase:
    """Download the current hourly factors of a zone over a period, on the lab's basis."""
    listed = or_not_found(zones().get(zone), "grid zone", reverse("factors"))
    lab = visitor.lab
    if "first_day" in request.GET or "last_day" in request.GET:
        days = from_days(request.GET.get("first_day", ""), request.GET.get("last_day", ""))
        return HttpResponseRedirect(f"{request.path}?{days}")
    period = parse_period(request.GET.dict(), zone=visitor.zone, now=visitor.now, default="7d")
    levels = levels_of_zones(lab, [zone], hour_of(visitor.now))[zone]

    def lines() -> Iterator[tuple[Any, ...]]:
        if levels.series_id is None:
            return
        rows = hours_of_series(levels.series_id, period.from_hour, period.to_hour)
        for row in rows.iterator(chunk_size=2000):
            factor = row.factor
            yield (
                iso_hour(row.hour),
                _grams(row.ug_per_kwh),
                row.ug_per_kwh,
                factor.resolution,
                factor.basis,
                factor.zone,
                factor.source,
                factor.licence,
            )

    return csv_response(f"{lab.slug}-factors-{listed.code}-hours", HOUR_COLUMNS, lines())


@page("GET", "POST")
def basis(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the lab's basis. A GET with a basis previews a change, POST confirms it."""
    if request.method == "POST" or "basis" in request.GET:
        visitor.require_role(ADMINS)
    lab = visitor.lab
    form = BasisForm.from_request(request, visitor, initial={"basis": lab.basis})
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("lab-basis"))
    chosen = check_basis(request.GET["basis"]) if "basis" in request.GET else None
    preview = None
    if chosen is not None and chosen != lab.basis:
        preview = basis_page(lab, chosen, preview_basis(lab, chosen, hour_of(visitor.now)))
    context = {"form": form, "preview": preview, "chosen": chosen}
    return render(request, "dashboard/factors/basis.html", context, status=form.status)
