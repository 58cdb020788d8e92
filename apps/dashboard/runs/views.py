"""Pages of runs: list, comparison, one run, and their CSV files."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.artifacts.holds import holds_on_subject
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.figures.run_table import run_table
from apps.carbon.figures.visibility import visibility_for
from apps.core.clock import utc
from apps.core.units import MJ_PER_KWH, UG_PER_KG
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.dashboard.frame.optional_period import (
    days_redirect,
    is_days_form,
    optional_period_menu,
)
from apps.dashboard.runs.comparison_page import compare_page, compare_rows, runs_from_uuids
from apps.dashboard.runs.run_filters import (
    Clip,
    clip_of,
    metric_columns,
    runs_filtered,
    table_view,
)
from apps.dashboard.runs.run_forms import RUN_FORMS, VIEW_FORMS
from apps.dashboard.runs.run_page import run_page
from apps.dashboard.runs.run_rows import PERIOD, WHOLE_RUN, RunRow, figure_rows, run_rows
from apps.dashboard.runs.runs_page import runs_by_id, runs_page, table_query
from apps.dashboard.runs.saved_views import ALL_RUNS, default_query, saved_views
from apps.runs.selectors import run_of
from labcarbon import __version__

CHUNK = 500


@page("GET", "POST")
def runs(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List runs. Filters, order, columns and group are in the query string. Without one, the
    default view opens. POST saves or deletes a view.
    """
    if request.method == "POST":
        visitor.require_role(WRITERS)
    elif not request.GET and (query := default_query(visitor)):
        return HttpResponseRedirect(f"{reverse('runs')}?{query}")
    forms = PageForms(request, visitor, VIEW_FORMS)
    if forms.submitted and forms.submitted.submit():
        messages.success(request, forms.submitted.message)
        query = forms.submitted.cleaned_data.get("query") or ALL_RUNS
        return HttpResponseRedirect(f"{reverse('runs')}?{query}")
    if is_days_form(request):
        return days_redirect(request)
    visibility = visibility_for(visitor.lab, visitor.user)
    runs_list = runs_page(
        lab=visitor.lab, params=request.GET, now=visitor.now, visibility=visibility
    )
    context = {
        "page": runs_list,
        "menu": optional_period_menu(request, runs_list.period, visitor.now),
        "saved": saved_views(visitor, runs_list.query),
        "form": forms.submitted,
        "all_runs": ALL_RUNS,
    }
    return render(request, "dashboard/runs/runs.html", context, status=forms.status)


def _line(row: RunRow, clip: Clip | None) -> tuple[Any, ...]:
    run, energy, emission = row.run, row.energy_mj, row.emission_ug
    hours = (clip.from_hour, clip.to_hour) if clip else (None, None)
    return (
        run.uuid,
        run.name,
        run.charged_project.slug if run.charged_project else None,
        run.state,
        row.who,
        run.host,
        utc(run.started_us).isoformat(),
        utc(run.ended_us).isoformat() if run.ended_us is not None else None,
        run.exit_code,
        energy,
        None if energy is None else energy / MJ_PER_KWH,
        emission,
        None if emission is None else emission / UG_PER_KG,
        row.cost.query.currency if row.cost else None,
        row.cost_ucurrency,
        row.without_price_mj,
        row.apart_text,
        PERIOD if clip else WHOLE_RUN,
        *(None if hour is None else iso_hour(hour) for hour in hours),
        row.energy_state.value,
    )


@page()
def runs_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the filtered runs. An empty value: see ``energy_state``, or no factor, or
    no price. ``cost_ucurrency`` is the cost in ``currency``, without the energy
    ``without_price_mj``; ``other_costs_ucurrency`` has costs in other currencies.
    ``energy_of`` is ``run`` for the energy of the whole run, or ``period`` for that within the
    hours beside it.
    """
    if is_days_form(request):
        return days_redirect(request)
    visibility = visibility_for(visitor.lab, visitor.user)
    filtered_runs, filters = runs_filtered(visitor.lab, request.GET.dict(), visibility, visitor.now)
    columns = metric_columns(filters["columns"])
    clip = clip_of(visitor.lab, filters, visitor.now)

    query = replace(
        table_query(table_view(request.GET), clip, visitor.now, visibility),
        with_sums=False, with_costs=True,
    )  # fmt: skip

    def lines() -> Iterator[tuple[Any, ...]]:
        table_rows = run_table(visitor.lab, filtered_runs, query).rows
        for start in range(0, len(table_rows), CHUNK):
            part = table_rows[start : start + CHUNK]
            by_id = {row.run_id: row for row in part}
            listed = runs_by_id(by_id)
            for row in figure_rows(
                visitor.lab, listed, by_id, visitor.now, visibility, columns, clip
            )[0]:
                yield (*_line(row, clip), *row.cells)

    head = (
        "run",
        "name",
        "project",
        "state",
        "os_user",
        "host",
        "started_utc",
        "ended_utc",
        "exit_code",
        "energy_mj",
        "energy_kwh",
        "emission_ug_co2e",
        "emission_kg_co2e",
        "currency",
        "cost_ucurrency",
        "without_price_mj",
        "other_costs_ucurrency",
        "energy_of",
        "period_from_utc",
        "period_to_utc",
        "energy_state",
        *columns,
    )
    return csv_response(f"{visitor.lab.slug}-runs", head, lines())


@page()
def compare(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Compare the runs of the query string."""
    selected = runs_from_uuids(visitor.lab, request.GET.getlist("run"))
    visibility = visibility_for(visitor.lab, visitor.user)
    comparison = compare_page(
        lab=visitor.lab, runs=selected, now=visitor.now, visibility=visibility
    )
    return render(request, "dashboard/runs/comparison.html", {"page": comparison})


@page()
def compare_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download a comparison: one row per figure, metric and part, one column per run."""
    selected = runs_from_uuids(visitor.lab, request.GET.getlist("run"))
    head = ("part", "name", "alike", *(str(run.uuid) for run in selected))
    visibility = visibility_for(visitor.lab, visitor.user)
    rows, _ = run_rows(visitor.lab, selected, visitor.now, visibility)
    return csv_response(f"{visitor.lab.slug}-runs-compared", head, compare_rows(rows))


@page("GET", "POST")
def run(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show one run; POST changes its tags or comments."""
    record = or_not_found(run_of(visitor.lab, uuid), "run", reverse("runs"))
    if request.method == "POST":
        visitor.require_role(WRITERS)
    forms = PageForms(request, visitor, RUN_FORMS, run=record) if request.method == "POST" else None
    submitted = forms.submitted if forms else None
    if submitted and submitted.submit():
        messages.success(request, submitted.message)
        return HttpResponseRedirect(f"{reverse('run', args=[uuid])}#notes")
    visibility = visibility_for(visitor.lab, visitor.user)
    run_details = run_page(
        lab=visitor.lab,
        run=record,
        zone=visitor.zone,
        now=visitor.now,
        visibility=visibility,
        metric=request.GET.get("metric", ""),
        version=__version__,
    )
    context = {
        "page": run_details,
        "holds": holds_on_subject(visitor.lab, visitor.now, run=record),
        "comments": record.comments.select_related("author").order_by("created_us", "pk"),
        "form": submitted,
        "address": request.build_absolute_uri(request.path),
    }
    return render(
        request, "dashboard/runs/run.html", context, status=submitted.status if submitted else 200
    )
