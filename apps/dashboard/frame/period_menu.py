"""The period of a request, and the menu that changes it."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseRedirect

from apps.dashboard.decorators import Visitor
from apps.dashboard.periods import PRESETS, Period, default_preset, from_days, parse_period

_OWN = ("from", "to", "period", "first_day", "last_day", "page")


@dataclass(frozen=True)
class PeriodChoice:
    """A preset of the menu."""

    name: str
    href: str
    current: bool


@dataclass(frozen=True)
class PeriodMenu:
    """The menu: presets, and a form of days that preserves the other query parameters."""

    period: Period
    choices: list[PeriodChoice]
    other_params: list[tuple[str, str]]
    query: str


def requested_period(request: HttpRequest, visitor: Visitor) -> Period | HttpResponseRedirect:
    """Return the period of the address. First and last day of the form are replaced by from and
    to with a redirect.
    """
    if "first_day" in request.GET or "last_day" in request.GET:
        days = from_days(request.GET.get("first_day", ""), request.GET.get("last_day", ""))
        other_params = urlencode(
            [(name, value) for name, value in request.GET.items() if name not in _OWN]
        )
        return HttpResponseRedirect(
            f"{request.path}?{days}" + (f"&{other_params}" if other_params else "")
        )
    default = default_preset(visitor.lab.created_us, visitor.now)
    return parse_period(request.GET.dict(), zone=visitor.zone, now=visitor.now, default=default)


def period_menu(request: HttpRequest, period: Period) -> PeriodMenu:
    """Return the menu of the current page."""
    other_params = [(name, str(value)) for name, value in request.GET.items() if name not in _OWN]
    choices = [
        PeriodChoice(
            label,
            f"{request.path}?{urlencode([('period', name), *other_params])}",
            period.preset == name,
        )
        for name, label in PRESETS.items()
    ]
    return PeriodMenu(period, choices, other_params, period.query)
