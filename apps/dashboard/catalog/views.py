"""Pages of the hardware catalogue: list, CSV, one model with its figures, new model, document of
a figure.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header

from apps.catalog.packs import notices
from apps.catalog.selectors import evidence_of, model_by_id, parse_search, search
from apps.core.units import UG_PER_KG
from apps.dashboard.catalog.catalog_pages import ModelRow, catalog_page, model_page, model_rows
from apps.dashboard.catalog.forms import MODEL_FORMS, NewModelForm
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms

CHUNK = 500


@page()
def catalog(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the models. Search text and kind are query parameters."""
    content = catalog_page(lab=visitor.lab, params=request.GET.dict())
    return render(request, "dashboard/catalog/catalog.html", {"page": content})


def _line(row: ModelRow) -> tuple[Any, ...]:
    model, figure = row.model, row.figure
    begin = (
        model.kind,
        model.category,
        model.name,
        model.vendor,
        "own" if model.lab_id else "shipped",
    )
    if figure is None:
        return begin + (None,) * 15
    inside = {True: "yes", False: "no", None: None}[figure.includes_end_of_life]
    notice = next((pack.notice for pack in notices({figure.pack})), None)
    return (
        *begin,
        figure.method,
        figure.unit,
        figure.total_ug,
        f"{Decimal(figure.total_ug) / UG_PER_KG:f}",
        figure.low_ug,
        figure.high_ug,
        figure.manufacture_ug,
        figure.transport_ug,
        figure.end_of_life_ug,
        inside,
        figure.source,
        figure.source_year,
        figure.licence,
        figure.pack,
        notice,
    )


@page()
def catalog_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the filtered models, each with the figure used for it. An empty cell is unknown
    or not stated.
    """
    kind, words = parse_search(request.GET.get("kind", ""), request.GET.get("q", ""))
    listed = search(visitor.lab, kind, words)

    def lines() -> Iterator[tuple[Any, ...]]:
        for start in range(0, listed.count(), CHUNK):
            for row in model_rows(visitor.lab, list(listed[start : start + CHUNK])):
                yield _line(row)

    head = (
        "kind",
        "category",
        "name",
        "vendor",
        "origin",
        "method",
        "unit",
        "total_ug_co2e",
        "total_kg_co2e",
        "low_ug_co2e",
        "high_ug_co2e",
        "manufacture_ug_co2e",
        "transport_ug_co2e",
        "end_of_life_ug_co2e",
        "includes_end_of_life",
        "source",
        "source_year",
        "licence",
        "pack",
        "notice",
    )
    return csv_response("catalogue", head, lines())


@page("GET", "POST")
def model(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a model with all its figures. POST uploads a figure, withdraws one, or removes a
    model of the lab.
    """
    hardware_model = or_not_found(model_by_id(visitor.lab, pk), "model", reverse("catalog"))
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    forms = PageForms(request, visitor, MODEL_FORMS, model=hardware_model)
    if request.method == "POST" and forms.submitted and forms.submitted.submit():
        messages.success(request, forms.submitted.message)
        return HttpResponseRedirect(reverse("catalog-model", args=[hardware_model.pk]))
    context = {"page": model_page(lab=visitor.lab, model=hardware_model), "forms": forms}
    return render(request, "dashboard/catalog/catalog_model.html", context, status=forms.status)


@page("GET", "POST")
def new(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Add a model that only this lab sees."""
    visitor.require_role(MANAGERS)
    form = NewModelForm.from_request(request, visitor, prefill=True)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("catalog-model", args=[form.created.pk]))
    return render(request, "dashboard/catalog/catalog_new.html", {"form": form}, status=form.status)


@page()
def evidence(request: HttpRequest, visitor: Visitor, figure: int) -> HttpResponseBase:
    """Download the document of one of the lab's own figures. Pages never embed it, since it is
    untrusted.
    """
    document = or_not_found(evidence_of(visitor.lab, figure), "document", reverse("catalog"))
    response = HttpResponse(bytes(document.content), content_type="application/pdf")
    response["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=document.file_name) or "attachment"
    )
    response["Cache-Control"] = "private, no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response
