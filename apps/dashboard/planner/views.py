"""Page Planner: what a training needs before it starts."""

from collections.abc import Iterator

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from apps.core.errors import InvalidInput
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page
from apps.dashboard.forms import require_valid
from apps.dashboard.planner.planner_page import PlannerPage, planner_page
from apps.dashboard.planner.result_csv import RESULT_HEAD, result_lines


@never_cache
@page()
def planner(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form of a planned training and its result."""
    content = planner_page(visitor.lab, request.GET)
    link = request.build_absolute_uri(f"{request.path}?{content.query}") if content.estimate else ""
    context = {
        "page": content, "form": content.form, "result": content.result,
        "estimate": content.estimate, "places": content.places, "link": link,
    }  # fmt: skip
    return render(request, "dashboard/planner/planner.html", context, status=content.status)


@page()
def planner_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the result: counts, parts of the memory, and cards."""
    content = _require_plan(request, visitor)
    return csv_response(f"{visitor.lab.slug}-planner", RESULT_HEAD, result_lines(content))


@page()
def planner_layers_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download all layers of the model."""
    result = _require_plan(request, visitor).result
    if result is None:
        raise InvalidInput("The plan has no model.", hint="Open the planner and choose one.")

    def lines() -> Iterator[tuple[object, ...]]:
        for row in result.layers:
            layer = row.layer
            yield (
                row.number, layer.name, layer.kind, layer.parameters, layer.macs, layer.operations,
                row.weight_bytes, row.input_bytes, row.output_bytes,
            )  # fmt: skip

    head = (
        "layer", "name", "kind", "parameters", "macs_per_sample", "operations_per_sample",
        "weight_bytes", "input_bytes", "output_bytes",
    )  # fmt: skip
    return csv_response(f"{visitor.lab.slug}-planner-layers", head, lines())


def _require_plan(request: HttpRequest, visitor: Visitor) -> PlannerPage:
    content = planner_page(visitor.lab, request.GET)
    if content.form.is_bound:
        require_valid(content.form)
    if content.estimate is None:
        raise InvalidInput("The address has no plan.", hint="Open the planner and choose a model.")
    return content
