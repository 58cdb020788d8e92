"""The period of lists that show everything unless one is selected, such as that of runs."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseRedirect

from apps.dashboard.frame.period_menu import PeriodMenu, menu_of, set_linked_period
from apps.dashboard.periods import Period, from_days


def is_days_form(request: HttpRequest) -> bool:
    """Return whether the address is that of the bar's form of days."""
    return "first_day" in request.GET or "last_day" in request.GET


def days_redirect(request: HttpRequest) -> HttpResponseRedirect:
    """Replace first and last day of the form by ``from`` and ``to``, both included, as the
    addresses of such a list have them.
    """
    first, last = request.GET.get("first_day", ""), request.GET.get("last_day", "")
    from_days(first, last)  # checks them
    params = request.GET.copy()
    for name in ("first_day", "last_day", "period", "page", "sums", "largest"):
        params.pop(name, None)
    params["from"], params["to"] = first, last
    return HttpResponseRedirect(f"{request.path}?{urlencode(list(params.lists()), doseq=True)}")


def optional_period_menu(request: HttpRequest, period: Period | None, now: int) -> PeriodMenu:
    """Return the bar of a list, and the period that links to other pages contain."""
    set_linked_period(request, period)
    return menu_of(request, period, now, with_all=True)
