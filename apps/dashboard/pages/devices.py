"""One device: its energy, and its nodes over time."""

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.dashboard.decorators import Visitor, found, page
from apps.dashboard.nodes.devices import device_page
from apps.dashboard.period_menu import chosen_period, period_menu
from apps.fleet.selectors import device_of


@page()
def device(request: HttpRequest, visitor: Visitor, key: str) -> HttpResponseBase:
    """Show one device."""
    asked = found(device_of(visitor.lab, key), "device", "/nodes/")
    period = chosen_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    shown = device_page(lab=visitor.lab, device=asked, period=period, now=visitor.now)
    return render(request, "pages/device.html", {"page": shown, "menu": period_menu(request, period)})
