"""The page of the electricity prices of a site: its tariff, and hourly prices from a file."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.dashboard.prices.forms import PRICES_FORMS, HoursForm, RecordHoursForm
from apps.dashboard.prices.prices_page import monday_of, prices_page
from apps.fleet.price_files import SCALES
from apps.fleet.selectors import site_of
from apps.fleet.tariffs import EXAMPLE


@page("GET", "POST")
def site_prices(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show the prices of a site. POST records a tariff, or previews, records or withdraws the
    hourly prices of a file.
    """
    site = or_not_found(site_of(visitor.lab, pk), "site", reverse("sites"))
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    monday = monday_of(request.GET.get("week", ""), visitor.now, visitor.zone)
    forms = PageForms(request, visitor, PRICES_FORMS, site=site)
    form = forms.submitted
    record_form = None
    if request.method == "POST" and form is not None and form.submit():
        if not isinstance(form, HoursForm):
            messages.success(request, form.message)
            return HttpResponseRedirect(reverse("site-prices", args=[pk]))
        if form.preview is not None:
            record_form = RecordHoursForm(visitor, initial=form.initial_record, site=site)
    context = {
        "page": prices_page(site=site, zone=visitor.zone, monday=monday),
        "forms": forms,
        "record_form": record_form,
        "columns": list(SCALES),
        "example": EXAMPLE,
    }
    return render(request, "dashboard/prices/site_prices.html", context, status=forms.status)
