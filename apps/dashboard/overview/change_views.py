"""Views of what changed against an earlier period: the page and its tables as CSV."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.carbon.figures.figure_query import iso_hour
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.frame.period_menu import (
    period_menu,
    requested_comparison,
    requested_period,
)
from apps.dashboard.overview.change_page import (
    METRICS,
    change_page,
    change_rows,
    known_value,
    requested_table,
)

_CSV_HEAD = (
    "name",
    "key",
    "from_utc",
    "to_utc",
    "earlier_from_utc",
    "earlier_to_utc",
    "currency",
    *(
        f"{prefix}{metric}{'_co2e' if metric == 'emission_ug' else ''}"
        for metric in METRICS
        for prefix in ("earlier_", "", "difference_")
    ),
    "earlier_without_factor_mj",
    "without_factor_mj",
    "earlier_without_price_mj",
    "without_price_mj",
    "not_comparable",
)


@page()
def change(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what changed against an earlier period, by project and by node."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    comparison = requested_comparison(request)
    content = change_page(lab=visitor.lab, period=period, comparison=comparison, now=visitor.now)
    menu = period_menu(request, period, visitor.now, comparison, content.not_comparable)
    query = f"{period.query}&compare={comparison}"
    return render(
        request,
        "dashboard/overview/change.html",
        {"page": content, "menu": menu, "overview_query": query, "csv_query": query},
    )


@page()
def change_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download one of the tables, with exact integers. The earlier amounts and differences are
    empty if nothing can be compared; the last column says why.
    """
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    table = requested_table(request.GET.get("by", "project"))
    comparison, rows = change_rows(
        lab=visitor.lab,
        period=period,
        comparison=requested_comparison(request),
        table=table,
        now=visitor.now,
    )
    spans = [
        iso_hour(hour)
        for part in (period, comparison.earlier)
        for hour in (part.from_hour, part.to_hour)
    ]

    def lines() -> Iterator[tuple[Any, ...]]:
        for row in rows:
            before, after = row.pair.before, row.pair.after
            values: list[int | None] = []
            for metric in METRICS:
                earlier = None if comparison.reason else known_value(before, metric)
                values += [earlier, known_value(after, metric)]
                values.append(None if comparison.reason else row.pair.difference(metric))
            yield (
                row.subject.name,
                row.subject.key,
                *spans,
                visitor.lab.currency,
                *values,
                None if comparison.reason else before.without_factor_mj,
                after.without_factor_mj,
                None if comparison.reason else before.without_price_mj,
                after.without_price_mj,
                comparison.reason,
            )

    return csv_response(f"{visitor.lab.slug}-change-by-{table}", _CSV_HEAD, lines())
