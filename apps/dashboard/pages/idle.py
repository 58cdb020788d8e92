"""To whom idle energy is charged: the lab's dated policy."""

from datetime import date, datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.intervals import us_of
from apps.core.text import number_of
from apps.core.units import hour_of
from apps.dashboard.attribution.idle import idle_page
from apps.dashboard.decorators import KEEPERS, Visitor, page
from apps.energy.services.idle import set_idle_policy, withdraw_idle_policy


@page("GET", "POST")
def idle(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the policies and what they spread; POST records one, or withdraws one."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.needs(KEEPERS)
        try:
            messages.success(request, _change(request, visitor))
            return HttpResponseRedirect("/idle/")
        except LabCarbonError as wrong:
            error = wrong
    shown = idle_page(lab=visitor.lab, hour=hour_of(visitor.now))
    typed = {name: request.POST.get(name, "") for name in ("policy", "from_day")}
    context = {"page": shown, "error": error, "typed": typed}
    return render(request, "pages/idle.html", context, status=error.status if error else 200)


def _change(request: HttpRequest, visitor: Visitor) -> str:
    withdrawn = request.POST.get("withdraw", "")
    if withdrawn:
        from_hour = number_of(withdrawn)
        if from_hour is None:
            raise InvalidInput("There is no such policy.", field="withdraw", hint="Use one of the buttons.")
        withdraw_idle_policy(lab=visitor.lab, from_hour=from_hour, by=visitor.user, now=visitor.now)
        return "The policy is withdrawn; the one before it holds on."
    text = request.POST.get("from_day", "")
    try:
        day = date.fromisoformat(text)
        from_us = us_of(datetime(day.year, day.month, day.day, tzinfo=visitor.zone))
    except (ValueError, OverflowError) as wrong:
        raise InvalidInput(f"{text[:20]!r} is not a day.", field="from_day", hint="Write 2026-11-01.") from wrong
    set_idle_policy(
        lab=visitor.lab, policy=request.POST.get("policy", ""), from_us=from_us, by=visitor.user, now=visitor.now
    )
    return "The policy is recorded; figures follow at once."
