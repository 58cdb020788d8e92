"""Views of costs: the page, and its items as CSV."""

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.carbon.figures.figure_query import iso_hour
from apps.dashboard.costs.cost_items import State, costs_of
from apps.dashboard.costs.costs_page import CSV_HEADER, costs_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.frame.period_menu import period_menu, requested_period


@page()
def costs(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what a period costs: hardware, electricity and cloud, by currency."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    context = {
        "page": costs_page(visitor.lab, period, visitor.now),
        "menu": period_menu(request, period, visitor.now),
    }
    return render(request, "dashboard/costs/costs.html", context)


@page()
def costs_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download each cost with exact integers. The known ones of a line sum to the page."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    content = costs_of(visitor.lab, period, visitor.now)
    edges = [iso_hour(hour) for hour in (content.period.from_hour, content.period.to_hour)]
    rows = (
        (
            *edges,
            item.line,
            item.name,
            item.asset_id,
            item.state,
            item.currency,
            item.price_ucurrency,
            None if item.state == State.UNKNOWN else item.cost_ucurrency,
            item.written_off_ucurrency if item.asset_id and item.state == State.KNOWN else None,
        )
        for item in content.items
    )
    return csv_response(f"{visitor.lab.slug}-costs", CSV_HEADER, rows)
