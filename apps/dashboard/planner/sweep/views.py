"""Page Plan a sweep: what its runs need before they start."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from apps.core.errors import InvalidInput
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.forms import require_valid, submitted
from apps.dashboard.planner.sweep.sweep_page import POINTS_HEAD, point_lines, sweep_page


@never_cache
@page("GET", "POST")
def sweep(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form of a sweep and its runs. Nothing is stored."""
    content = sweep_page(visitor, submitted(request))
    context = {"page": content, "form": content.form, "result": content.result}
    return render(request, "dashboard/planner/sweep/sweep.html", context, status=content.status)


@page("POST")
def sweep_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download each run of a sweep with its state."""
    content = sweep_page(visitor, submitted(request))
    require_valid(content.form)
    if content.result is None:
        raise InvalidInput("There is no sweep.", hint="Open Plan a sweep and enter one.")
    return csv_response(f"{visitor.lab.slug}-sweep", POINTS_HEAD, point_lines(content.result))
