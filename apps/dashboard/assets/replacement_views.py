"""Pages of the replacement analysis and of the fleet by carbon per useful hour. They only read."""

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.carbon.ranking import ranking
from apps.dashboard.assets.ranking_page import CSV_HEADER, ranking_page, ranking_rows
from apps.dashboard.assets.replacement_page import replacement_csv, replacement_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, or_not_found, page
from apps.dashboard.frame.period_menu import period_menu, requested_period
from apps.replacement.query import parse, parse_valid_part
from apps.replacement.services import analyse_replacement, asset_for_analysis


@page("GET")
def replacement(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show whether replacing an asset by a model of the catalogue pays back, with the lab's own
    use and grid.
    """
    asset = or_not_found(asset_for_analysis(visitor.lab, pk), "asset", reverse("assets"))
    params = request.GET.dict()
    query, error = parse_valid_part(params)  # invalid inputs are shown and left out
    page_ = replacement_page(visitor=visitor, asset=asset, query=query, params=params)
    context = {"page": page_, "error": error, "typed": params}
    return render(
        request, "dashboard/assets/replacement.html", context, status=error.status if error else 200
    )


@page("GET")
def scenarios_csv(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Return the three scenarios by year as CSV."""
    asset = or_not_found(asset_for_analysis(visitor.lab, pk), "asset", reverse("assets"))
    analysis = analyse_replacement(
        lab=visitor.lab, asset=asset, query=parse(request.GET.dict()), now=visitor.now
    )
    header, rows = replacement_csv(analysis)
    return csv_response(f"labcarbon-keep-{asset.pk}", header, rows)


@page("GET")
def fleet_ranking(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the metered assets by carbon per useful hour, highest first."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    page_ = ranking_page(lab=visitor.lab, period=period)
    return render(
        request,
        "dashboard/assets/replacement_ranking.html",
        {"page": page_, "menu": period_menu(request, period, visitor.now)},
    )


@page("GET")
def ranking_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Return the whole ranking as CSV."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    analysis = ranking(lab=visitor.lab, from_hour=period.from_hour, to_hour=period.to_hour)
    return csv_response("labcarbon-ranking", CSV_HEADER, ranking_rows(analysis))
