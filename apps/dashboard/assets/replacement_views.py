"""Replace or keep an asset, and the fleet by carbon per useful hour. Nothing is written: a question is its address."""

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.carbon.ranking import ranking
from apps.dashboard.assets.ranking import CSV_HEADER, ranking_page, ranking_rows
from apps.dashboard.assets.replacement import keep_csv, keep_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, found, page
from apps.dashboard.period_menu import chosen_period, period_menu
from apps.replacement.query import parse, parse_what_can_be
from apps.replacement.services import answer, asset_to_keep


@page("GET")
def keep(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Answer whether to replace an asset by a model of the catalogue, on the lab's own use and grid."""
    asset = found(asset_to_keep(visitor.lab, pk), "asset", "/assets/")
    params = request.GET.dict()
    asked, error = parse_what_can_be(params)  # what was typed stays to be mended, and the rest is answered
    shown = keep_page(visitor=visitor, asset=asset, asked=asked, params=params)
    context = {"page": shown, "error": error, "typed": params}
    return render(request, "pages/keep.html", context, status=error.status if error else 200)


@page("GET")
def keep_table(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Return the three ways over the years as CSV."""
    asset = found(asset_to_keep(visitor.lab, pk), "asset", "/assets/")
    told = answer(lab=visitor.lab, asset=asset, asked=parse(request.GET.dict()), now=visitor.now)
    header, rows = keep_csv(told)
    return csv_response(f"labcarbon-keep-{asset.pk}", header, rows)


@page("GET")
def fleet_ranking(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the metered assets by carbon per useful hour, the worst first."""
    period = chosen_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    shown = ranking_page(lab=visitor.lab, period=period)
    return render(request, "pages/ranking.html", {"page": shown, "menu": period_menu(request, period)})


@page("GET")
def ranking_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Return the whole ranking as CSV."""
    period = chosen_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    told = ranking(lab=visitor.lab, from_hour=period.from_hour, to_hour=period.to_hour)
    return csv_response("labcarbon-ranking", CSV_HEADER, ranking_rows(told))
