"""The period and the comparison of a request, and the bar that changes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseRedirect

from apps.core.errors import InvalidInput
from apps.dashboard.decorators import Visitor
from apps.dashboard.frame.period_steps import COMPARISONS, PREVIOUS, earlier_step, later_step
from apps.dashboard.periods import (
    PRESET_OF_UNIT,
    PRESETS,
    Period,
    default_preset,
    from_days,
    parse_period,
)

DATES = ("from", "to", "period")
_REPLACED = (*DATES, "first_day", "last_day", "page", "sums", "largest")


@dataclass(frozen=True)
class PeriodChoice:
    """A link of the bar. ``reason``: why it cannot be chosen."""

    name: str
    href: str
    current: bool
    reason: str = ""


@dataclass(frozen=True)
class PeriodMenu:
    """The bar: presets, the periods before and after, comparisons ([] on pages without one), and
    a form of days that preserves the other query parameters. ``later`` is '' if nothing is later.
    ``period`` None: all times, or an open end; then ``earlier`` and ``later`` are ''.
    """

    period: Period | None
    label: str
    choices: list[PeriodChoice]
    earlier: str
    later: str
    comparisons: list[PeriodChoice]
    other_params: list[tuple[str, str]]
    query: str

    @property
    def is_custom(self) -> bool:
        return not any(choice.current for choice in self.choices)


def requested_period(request: HttpRequest, visitor: Visitor) -> Period | HttpResponseRedirect:
    """Return the period of the address. First and last day of the form are replaced by from and
    to with a redirect.
    """
    if "first_day" in request.GET or "last_day" in request.GET:
        days = from_days(request.GET.get("first_day", ""), request.GET.get("last_day", ""))
        other_params = urlencode(
            [(name, value) for name, value in request.GET.items() if name not in _REPLACED]
        )
        return HttpResponseRedirect(
            f"{request.path}?{days}" + (f"&{other_params}" if other_params else "")
        )
    default = default_preset(visitor.lab.created_us, visitor.now)
    period = parse_period(request.GET.dict(), zone=visitor.zone, now=visitor.now, default=default)
    if any(name in request.GET for name in DATES):
        set_linked_period(request, period)
    return period


def requested_comparison(request: HttpRequest) -> str:
    """Return what the period is compared with, a key of COMPARISONS. Raises InvalidInput."""
    comparison = request.GET.get("compare", PREVIOUS)
    if comparison not in COMPARISONS:
        raise InvalidInput(
            f"{comparison[:40]!r} is not a comparison.",
            field="compare",
            hint=f"Use one of {', '.join(COMPARISONS)}.",
        )
    return comparison


def period_menu(
    request: HttpRequest,
    period: Period,
    now: int,
    comparison: str = "",
    not_comparable: Mapping[str, str] = MappingProxyType({}),
) -> PeriodMenu:
    """Return the bar of the current page. ``comparison``: of a page that compares periods.
    ``not_comparable``: the comparisons that are not possible, with the reason.
    """
    return menu_of(request, period, now, comparison, not_comparable)


def menu_of(
    request: HttpRequest, period: Period | None, now: int, comparison: str = "",
    not_comparable: Mapping[str, str] = MappingProxyType({}), *, with_all: bool = False,
) -> PeriodMenu:  # fmt: skip
    """Return the bar. ``with_all``: with a choice of all times."""
    other_params = [
        (name, str(value))
        for name, values in request.GET.lists()
        if name not in _REPLACED
        for value in values
    ]

    def address(query: str, params: list[tuple[str, str]] = other_params) -> str:
        return f"{request.path}?{'&'.join(filter(None, (query, urlencode(params))))}"

    current = (period.preset or PRESET_OF_UNIT.get(period.unit, "")) if period else ""
    choices = [
        PeriodChoice(label, address(urlencode({"period": name})), name == current)
        for name, label in PRESETS.items()
        if name != "24h" or current == "24h"
    ]
    edges = [request.GET.get(name, "") for name in ("from", "to")]
    if with_all:  # energy is limited to a period only if there is one
        everything = [(name, value) for name, value in other_params if name != "clip"]
        is_all = period is None and not any(edges)
        choices.insert(
            0, PeriodChoice("All", address(urlencode({"period": ""}), everything), is_all)
        )
    if period is None:
        label = " – ".join(edge[:25] or "…" for edge in edges) if any(edges) else "All times"
        return PeriodMenu(None, label, choices, "", "", [], other_params, "")
    without = [(name, value) for name, value in other_params if name != "compare"]
    comparisons = [
        PeriodChoice(
            label,
            address(period.query, [*without, ("compare", name)]),
            name == comparison,
            not_comparable.get(name, ""),
        )
        for name, label in COMPARISONS.items()
    ]
    later = later_step(period, now)
    return PeriodMenu(
        period,
        period.label,
        choices,
        address(earlier_step(period).query),
        address(later.query) if later else "",
        comparisons if comparison else [],
        other_params,
        period.query,
    )


def set_linked_period(request: HttpRequest, period: Period | None) -> None:
    """Set the period of an address for :func:`period_params`, where the page has read it."""
    request.linked_period = period  # type: ignore[attr-defined]


def period_params(request: HttpRequest) -> str:
    """Return the period and comparison of an address as a query string for links to other pages,
    '' if the address has none. Days become times, which every page reads alike.
    """
    if hasattr(request, "linked_period"):
        query = request.linked_period.query if request.linked_period else ""
    else:
        query = urlencode([(name, request.GET[name]) for name in DATES if name in request.GET])
    comparison = urlencode([("compare", value) for value in request.GET.getlist("compare")[-1:]])
    return "&".join(filter(None, (query, comparison)))
