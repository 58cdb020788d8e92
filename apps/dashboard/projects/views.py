"""Projects: the list with its form, one project, and the data table of its chart."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.selectors import project_by_slug
from apps.artifacts.holds import holds_on_subject
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.figures.visibility import visibility_for
from apps.core.units import MJ_PER_KWH, UG_PER_KG
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, or_not_found, page
from apps.dashboard.first_command import compose_first_command
from apps.dashboard.frame.period_menu import period_menu, requested_period
from apps.dashboard.projects.forms import ProjectForm
from apps.dashboard.projects.project_pages import (
    project_data_table,
    project_page,
    project_use,
    projects_page,
)
from apps.ingest.choices import EnergyQuality
from labcarbon import __version__


@page("GET", "POST")
def projects(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List projects; POST creates one."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    form = ProjectForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("project", args=[form.cleaned_data["slug"]]))
    content = projects_page(lab=visitor.lab, period=period, now=visitor.now)
    context = {"page": content, "menu": period_menu(request, period, visitor.now), "form": form}
    return render(request, "dashboard/projects/projects.html", context, status=form.status)


@page()
def project(request: HttpRequest, visitor: Visitor, slug: str) -> HttpResponseBase:
    """Show one project."""
    project = or_not_found(project_by_slug(visitor.lab, slug), "project", reverse("projects"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    visibility = visibility_for(visitor.lab, visitor.user)
    content = project_page(
        lab=visitor.lab,
        project=project,
        period=period,
        visibility=visibility,
        now=visitor.now,
        version=__version__,
    )
    holds = holds_on_subject(visitor.lab, visitor.now, project=project)
    return render(
        request,
        "dashboard/projects/project.html",
        {
            "page": content,
            "holds": holds,
            "menu": period_menu(request, period, visitor.now),
            "first_command": compose_first_command(request, project.slug),
            "address": request.build_absolute_uri(f"{request.path}?{period.fixed_query}"),
        },
    )


@page()
def project_table(request: HttpRequest, visitor: Visitor, slug: str) -> HttpResponseBase:
    """Show the data table of a project's chart, as a page or as a part of one."""
    project = or_not_found(project_by_slug(visitor.lab, slug), "project", reverse("projects"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    data_table = project_data_table(lab=visitor.lab, project=project, period=period)
    template = (
        "components/data_table.html"
        if request.headers.get("HX-Request")
        else "components/chart_data_page.html"
    )
    return render(
        request,
        template,
        {
            "data_table": data_table,
            "menu": period_menu(request, period, visitor.now),
            "title": f"Energy of {project.name}",
        },
    )


@page()
def project_csv(request: HttpRequest, visitor: Visitor, slug: str) -> HttpResponseBase:
    """Download the hours of a project."""
    project = or_not_found(project_by_slug(visitor.lab, slug), "project", reverse("projects"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    use, _ = project_use(visitor.lab, project, period)
    lines = (
        (
            iso_hour(hour),
            EnergyQuality(quality).name,
            part.energy_mj,
            part.energy_mj / MJ_PER_KWH,
            part.emission_ug,
            part.emission_ug / UG_PER_KG,
            part.without_factor_mj,
            visitor.lab.currency,
            None if part.without_price_mj == part.energy_mj else part.cost_ucurrency,
            part.without_price_mj,
        )
        for (hour, _, quality), part in sorted(use.parts.items())
    )
    head = (
        "hour_utc",
        "energy_quality",
        "energy_mj",
        "energy_kwh",
        "emission_ug_co2e",
        "emission_kg_co2e",
        "without_factor_mj",
        "currency",
        "cost_ucurrency",
        "without_price_mj",
    )
    return csv_response(f"{project.slug}-energy", head, lines)
