"""Page of market-based emissions: a year under both rule editions, and its lines as CSV."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.market.pages import CSV_HEADER, csv_rows, market_page, parse_year


@page()
def market(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the market-based emissions of a year beside the location-based ones."""
    content = market_page(visitor.lab, request.GET.get("year", ""), visitor.now)
    return render(request, "dashboard/market/market.html", {"page": content})


@page()
def market_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the lines of a year under both rule editions, with exact integers."""
    year = parse_year(visitor.lab, request.GET.get("year", ""), visitor.now)
    rows = csv_rows(visitor.lab, year, visitor.now)
    return csv_response(f"{visitor.lab.slug}-market-based-{year}", CSV_HEADER, rows)
