"""Views of the overview: the page, its live part, data tables and CSV."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.carbon.figures.figure_query import iso_hour
from apps.core.units import MJ_PER_KWH, UG_PER_KG
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.frame.period_menu import (
    period_menu,
    requested_comparison,
    requested_period,
)
from apps.dashboard.frame.profile_menu import requested_profile
from apps.dashboard.overview.overview_page import (
    overview_data_table,
    overview_hardware_data_table,
    overview_page,
    overview_rows,
)
from apps.ingest.choices import EnergyQuality

ENERGY_HEAD = (
    "energy_mj",
    "energy_kwh",
    "emission_ug_co2e",
    "emission_kg_co2e",
    "without_factor_mj",
)


@page()
def overview(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the overview. A request of htmx gets only the live parts."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    comparison = requested_comparison(request)
    content = overview_page(
        lab=visitor.lab,
        period=period,
        now=visitor.now,
        profile=requested_profile(request, visitor.lab),
        can_manage=visitor.can_manage,
        comparison=comparison,
    )
    template = (
        "dashboard/overview/live.html"
        if request.headers.get("HX-Request")
        else "dashboard/overview/overview.html"
    )
    return render(
        request,
        template,
        {
            "page": content,
            "menu": period_menu(request, period, visitor.now, comparison, content.not_comparable),
            "change_query": f"{period.query}&compare={comparison}",
        },
    )


@page()
def overview_table(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the data table of the energy chart, as a page or as a part of one."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    data_table = overview_data_table(lab=visitor.lab, period=period, now=visitor.now)
    template = (
        "components/data_table.html"
        if request.headers.get("HX-Request")
        else "components/chart_data_page.html"
    )
    return render(
        request,
        template,
        {
            "data_table": data_table,
            "menu": period_menu(request, period, visitor.now),
            "title": "Energy by project",
        },
    )


@page()
def hardware_table(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the data table of the hardware chart, as a page or as a part of one."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    data_table = overview_hardware_data_table(lab=visitor.lab, period=period, now=visitor.now)
    template = (
        "components/data_table.html"
        if request.headers.get("HX-Request")
        else "components/chart_data_page.html"
    )
    return render(
        request,
        template,
        {
            "data_table": data_table,
            "menu": period_menu(request, period, visitor.now),
            "title": "Hardware by project",
        },
    )


@page()
def overview_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the hours of the overview."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    use, charges = overview_rows(lab=visitor.lab, period=period)
    names = {charge.key: charge.name for charge in charges}

    def lines() -> Iterator[tuple[Any, ...]]:
        for (hour, charge, quality), part in sorted(use.parts.items()):
            yield (
                iso_hour(hour),
                names[charge],
                charge,
                EnergyQuality(quality).name,
                part.energy_mj,
                part.energy_mj / MJ_PER_KWH,
                part.emission_ug,
                part.emission_ug / UG_PER_KG,
                part.without_factor_mj,
            )

    head = ("hour_utc", "charged_to", "charge_key", "energy_quality", *ENERGY_HEAD)
    return csv_response(f"{visitor.lab.slug}-energy-by-project", head, lines())
