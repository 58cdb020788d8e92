"""Page of the greener hours: when a job of some hours has the least grid intensity."""

from collections.abc import Iterator

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from apps.carbon.figures.figure_query import iso_hour
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.greener_hours.pages import greener_hours_page


@never_cache
@page()
def greener_hours(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the expected grid intensity of a site and the greenest start of a job."""
    content = greener_hours_page(visitor.lab, request.GET, visitor.now)
    return render(request, "dashboard/greener_hours/greener_hours.html", {"page": content})


@page()
def greener_hours_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the expected intensity of the coming hours."""
    content = greener_hours_page(visitor.lab, request.GET, visitor.now)

    def lines() -> Iterator[tuple[str, str, int, str]]:
        for row in content.rows:
            hour = row.intensity
            yield iso_hour(hour.hour), content.zone, hour.ug_per_kwh, hour.source

    head = ("hour_utc", "zone", "ug_per_kwh", "source")
    return csv_response(f"{visitor.lab.slug}-greener-hours", head, lines())
