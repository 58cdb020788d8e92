"""Views of why use changed: the page and its parts as CSV."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.models import Project
from apps.accounts.selectors import project_by_slug
from apps.carbon.change.parts import PARTS
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import iso_hour
from apps.core.text import is_unstorable
from apps.dashboard.change.change_parts_page import (
    METRICS,
    change_parts_page,
    change_parts_rows,
    charge_name,
    requested_metric,
)
from apps.dashboard.change.division import EMISSIONS
from apps.dashboard.change.forms import SubjectForm
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, or_not_found, page
from apps.dashboard.frame.period_menu import (
    DATES,
    period_menu,
    requested_comparison,
    requested_period,
    set_linked_period,
)
from apps.dashboard.frame.period_steps import earlier_step
from apps.dashboard.periods import DEFAULT, Period, preset_period


@page()
def change(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show why use changed against an earlier period: the parts of the difference."""
    period = _period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    comparison, project = requested_comparison(request), _project(request, visitor)
    content = change_parts_page(
        lab=visitor.lab,
        project=project,
        period=period,
        comparison=comparison,
        metric=requested_metric(request.GET.get("metric", EMISSIONS)),
        now=visitor.now,
    )
    menu = period_menu(request, period, visitor.now, comparison)
    return render(
        request,
        "dashboard/change/change.html",
        {
            "page": content,
            "menu": menu,
            "comparison": comparison,
            "form": SubjectForm(
                visitor.lab, project.slug if project else "", content.metric, METRICS
            ),
            "hidden": _hidden(period, comparison),
        },
    )


@page()
def change_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the parts of each project and receiver, with exact integers that add up."""
    period = _period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    metric = requested_metric(request.GET.get("metric", EMISSIONS))
    (earlier, later), division, names = change_parts_rows(
        lab=visitor.lab,
        project=_project(request, visitor),
        period=period,
        comparison=requested_comparison(request),
        metric=metric,
        now=visitor.now,
    )
    spans = [iso_hour(hour) for part in (later, earlier) for hour in (part.from_hour, part.to_hour)]
    unit = "emission_ug_co2e" if metric == EMISSIONS else metric

    def lines() -> Iterator[tuple[Any, ...]]:
        for key, parts in division.parts.items():
            before, after = (
                figures.get(key, Figure()).value(metric) for figures in division.by_charge
            )
            yield (
                charge_name(key, names),
                key,
                *spans,
                before,
                after,
                after - before,
                *(parts.get(part, 0) for part in PARTS),
            )

    head = (
        "name",
        "key",
        "from_utc",
        "to_utc",
        "earlier_from_utc",
        "earlier_to_utc",
        *(f"{prefix}{unit}" for prefix in ("earlier_", "", "difference_")),
        *(f"{part}_{unit}" for part in PARTS),
    )
    return csv_response(f"{visitor.lab.slug}-change-parts", head, lines())


def _period(request: HttpRequest, visitor: Visitor) -> Period | HttpResponseRedirect:
    """Return the period of the address, else the last full month."""
    if not any(name in request.GET for name in (*DATES, "first_day", "last_day")):
        period = earlier_step(preset_period(DEFAULT, zone=visitor.zone, now=visitor.now))
        set_linked_period(request, period)
        return period
    return requested_period(request, visitor)


def _project(request: HttpRequest, visitor: Visitor) -> Project | None:
    slug = request.GET.get("project", "")
    if not slug:
        return None
    project = None if is_unstorable(slug) else project_by_slug(visitor.lab, slug)
    found: Project = or_not_found(project, "project", reverse("projects"))
    return found


def _hidden(period: Period, comparison: str) -> list[tuple[str, str]]:
    """Return the fields that the form of the subject preserves."""
    dates = [("period", period.preset)]
    if not period.preset:
        dates = [("from", iso_hour(period.from_hour)), ("to", iso_hour(period.to_hour))]
    return [*dates, ("compare", comparison)]
