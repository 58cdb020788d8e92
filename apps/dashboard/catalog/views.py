"""The catalogue of hardware: the list, its CSV, one model with upload of figures, a new model, a figure's document."""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header

from apps.catalog.choices import FigureUnit, HardwareKind
from apps.catalog.matching import MOST_KG, Draft, kg_to_ug
from apps.catalog.models import HardwareModel
from apps.catalog.packs import notices
from apps.catalog.selectors import evidence_of, figure_of, model_by_id, parse_search, search
from apps.catalog.services import add_figure, add_model, retire_model, withdraw_figure
from apps.catalog.services.custom_models import MOST_EVIDENCE_BYTES, Document
from apps.core.errors import InvalidInput, LabCarbonError, TooLarge
from apps.core.text import parse_record_number
from apps.core.units import UG_PER_KG
from apps.dashboard.catalog.pages import ModelRow, catalog_page, model_page, model_rows
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page

CHUNK = 500
_INSIDE = {"": None, "yes": True, "no": False}


@page()
def catalog(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the models on offer; search and kind live in the address."""
    content = catalog_page(lab=visitor.lab, params=request.GET.dict())
    return render(request, "dashboard/catalog/catalog.html", {"page": content})


def _line(row: ModelRow) -> tuple[Any, ...]:
    model, figure = row.model, row.figure
    begin = (model.kind, model.category, model.name, model.vendor, "own" if model.lab_id else "shipped")
    if figure is None:
        return begin + (None,) * 15
    inside = {True: "yes", False: "no", None: None}[figure.includes_end_of_life]
    notice = next((pack.notice for pack in notices({figure.pack})), None)
    return (
        *begin, figure.method, figure.unit, figure.total_ug, f"{Decimal(figure.total_ug) / UG_PER_KG:f}", figure.low_ug,
        figure.high_ug, figure.manufacture_ug, figure.transport_ug, figure.end_of_life_ug, inside, figure.source,
        figure.source_year, figure.licence, figure.pack, notice,
    )  # fmt: skip


@page()
def catalog_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the models that the filters leave, with the figure used for each. Empty: not known, or not given."""
    kind, words = parse_search(request.GET.get("kind", ""), request.GET.get("q", ""))
    listed = search(visitor.lab, kind, words)

    def lines() -> Iterator[tuple[Any, ...]]:
        for start in range(0, listed.count(), CHUNK):
            for row in model_rows(visitor.lab, list(listed[start : start + CHUNK])):
                yield _line(row)

    head = (
        "kind", "category", "name", "vendor", "origin", "method", "unit", "total_ug_co2e", "total_kg_co2e", "low_ug_co2e",
        "high_ug_co2e", "manufacture_ug_co2e", "transport_ug_co2e", "end_of_life_ug_co2e", "includes_end_of_life", "source",
        "source_year", "licence", "pack", "notice",
    )  # fmt: skip
    return csv_response("catalogue", head, lines())


@page("GET", "POST")
def model(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a model with all figures; POST uploads a figure, withdraws one, or takes an own model off the catalogue."""
    hardware_model = or_not_found(model_by_id(visitor.lab, pk), "model", reverse("catalog"))
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            messages.success(request, _change(request, visitor, hardware_model))
            return HttpResponseRedirect(reverse("catalog-model", args=[hardware_model.pk]))
        except LabCarbonError as wrong:
            error = wrong
    context = {"page": model_page(lab=visitor.lab, model=hardware_model), "error": error, "typed": request.POST}
    return render(request, "dashboard/catalog/catalog_model.html", context, status=error.status if error else 200)


def _change(request: HttpRequest, visitor: Visitor, hardware_model: HardwareModel) -> str:
    """Do what a form asks of a model; return how it is told."""
    do, who = request.POST.get("do", ""), {"by": visitor.user, "now": visitor.now}
    if do == "upload":
        draft, document = _draft(request.POST), _document(request)
        add_figure(lab=visitor.lab, model=hardware_model, draft=draft, document=document, **who)  # type: ignore[arg-type]
        return "The figure is recorded. Your lab alone sees it."
    if do == "withdraw":
        number = parse_record_number(request.POST.get("figure", ""))
        figure = None if number is None else figure_of(visitor.lab, number)
        withdraw_figure(lab=visitor.lab, figure=or_not_found(figure, "figure", "the model's page"), **who)  # type: ignore[arg-type]
        return "The figure is withdrawn. What was charged with it stays as it is."
    if do == "retire":
        retire_model(lab=visitor.lab, model=hardware_model, **who)  # type: ignore[arg-type]
        return f"{hardware_model.name} is off the catalogue."
    raise InvalidInput(f"{do[:40]!r} cannot be done to a model.", field="do", hint="Use one of upload, withdraw, retire.")


def _number(data: QueryDict, field: str, max_value: int) -> Decimal | None:
    """Return a number from 0 to ``most``, None where the field is empty. A comma is a decimal point; no thousands."""
    text = data.get(field, "").strip().replace(",", ".")
    try:
        value = Decimal(text) if text else None
        if value is not None and not (value.is_finite() and 0 <= value <= max_value):
            raise InvalidOperation
    except InvalidOperation as error:
        words = field.replace("_", " ")
        raise InvalidInput(
            f"{text[:40]!r} is no number of {words}.",
            field=field,
            hint=f"Write 1234.5, from 0 to {max_value:,}, or nothing.",
        ) from error
    return value


def _ug(data: QueryDict, field: str) -> int | None:
    kg = _number(data, field, 10 * MOST_KG)
    return None if kg is None else kg_to_ug(kg)


def _whole(data: QueryDict, field: str) -> int | None:
    number = _number(data, field, 10_000)
    if number is not None and number != int(number):
        raise InvalidInput(f"{number} is no whole number.", field=field, hint="Write 2024, or nothing.")
    return None if number is None else int(number)


def _draft(data: QueryDict) -> Draft:
    inside = data.get("includes_end_of_life", "")
    if inside not in _INSIDE:
        raise InvalidInput(
            "Say whether the end of life is inside.", field="includes_end_of_life", hint="yes, no or nothing."
        )
    return Draft(
        method=data.get("method", ""),
        unit=data.get("unit", FigureUnit.ITEM),
        source=data.get("source", ""),
        manufacture_ug=_ug(data, "manufacture_kg"),
        transport_ug=_ug(data, "transport_kg"),
        end_of_life_ug=_ug(data, "end_of_life_kg"),
        total_ug=_ug(data, "total_kg"),
        low_ug=_ug(data, "low_kg"),
        high_ug=_ug(data, "high_kg"),
        includes_end_of_life=_INSIDE[inside],
        lifetime_years_typical=_number(data, "lifetime_years", 100),
        source_year=_whole(data, "source_year"),
        note=data.get("note", ""),
    )


def _document(request: HttpRequest) -> Document | None:
    file = request.FILES.get("evidence")
    if file is None:
        return None
    if (file.size or 0) > MOST_EVIDENCE_BYTES:
        raise TooLarge("The document is larger than 5 MiB.", field="evidence", hint="Print it into a smaller PDF.")
    return Document(name=file.name or "", content=file.read())


@page("GET", "POST")
def new(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Add a model that this lab alone sees."""
    visitor.require_role(MANAGERS)
    error: LabCarbonError | None = None
    if request.method == "POST":
        try:
            created = _create_model(request.POST, visitor)
            messages.success(request, f"{created.name} is in the catalogue of your lab. Upload its embodied carbon below.")
            return HttpResponseRedirect(reverse("catalog-model", args=[created.pk]))
        except LabCarbonError as wrong:
            error = wrong
    typed = request.POST if request.method == "POST" else request.GET
    context = {"kinds": HardwareKind.choices, "typed": typed, "error": error}
    return render(request, "dashboard/catalog/catalog_new.html", context, status=error.status if error else 200)


def _create_model(data: QueryDict, visitor: Visitor) -> HardwareModel:
    watts = _number(data, "tdp_w", 1_000_000)
    return add_model(
        lab=visitor.lab,
        kind=data.get("kind", ""),
        name=data.get("name", ""),
        aliases=data.get("aliases", "").splitlines(),
        vendor=data.get("vendor", ""),
        release_year=_whole(data, "release_year"),
        tdp_mw=None if watts is None else int(watts * 1000),
        by=visitor.user,
        now=visitor.now,
    )


@page()
def evidence(request: HttpRequest, visitor: Visitor, figure: int) -> HttpResponseBase:
    """Download the document of one of the lab's own figures. It is never shown in the page: it came from outside."""
    document = or_not_found(evidence_of(visitor.lab, figure), "document", reverse("catalog"))
    response = HttpResponse(bytes(document.content), content_type="application/pdf")
    response["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=document.file_name) or "attachment"
    )
    response["Cache-Control"] = "private, no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response
