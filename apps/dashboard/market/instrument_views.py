"""Pages of contractual instruments: list, add, one instrument, and its document."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header

from apps.carbon.market.selectors import evidence_of, instrument_of
from apps.core.errors import NotFound
from apps.core.units import INT64_MAX
from apps.dashboard.decorators import MANAGERS, Visitor, page
from apps.dashboard.forms import PageForms
from apps.dashboard.market.instrument_forms import (
    EvidenceForm,
    InstrumentForm,
    WithdrawInstrumentForm,
)
from apps.dashboard.market.instrument_pages import instrument_page, instruments_page
from apps.fleet.zones import zones


@page()
def instruments(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's contractual instruments."""
    content = instruments_page(visitor.lab, request.GET.dict())
    return render(request, "dashboard/market/instruments.html", {"page": content})


@page("GET", "POST")
def add(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the form of a new instrument. POST adds it."""
    visitor.require_role(MANAGERS)
    form = InstrumentForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("instrument", args=[form.instrument.pk]))
    context = {"form": form, "zones": [zone.label for zone in zones().values()]}
    return render(request, "dashboard/market/instrument_add.html", context, status=form.status)


@page("GET", "POST")
def instrument(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show an instrument, with ``withdraw`` also the form that withdraws it. POST withdraws it or
    adds its document.
    """
    found = instrument_of(visitor.lab, _number(pk))
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    forms = PageForms(request, visitor, (EvidenceForm, WithdrawInstrumentForm), instrument=found)
    form = forms.submitted
    if form is not None and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("instrument", args=[found.pk]))
    context = {
        "page": instrument_page(visitor.lab, found),
        "form": form or forms["withdraw"],
        "forms": {name: forms[name] for name in ("document", "withdraw")},
        "is_withdrawal": "withdraw" in request.GET or isinstance(form, WithdrawInstrumentForm),
    }
    return render(request, "dashboard/market/instrument.html", context, status=forms.status)


@page()
def evidence(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Download the document of an instrument. Pages never embed it, since it is untrusted."""
    visitor.require_role(MANAGERS)
    found = evidence_of(visitor.lab, _number(pk))
    response = HttpResponse(bytes(found.content), content_type=found.content_type)
    response["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=found.file_name) or "attachment"
    )
    response["Cache-Control"] = "private, no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _number(pk: int) -> int:
    if pk > INT64_MAX:
        raise NotFound("There is no such instrument.")
    return pk
