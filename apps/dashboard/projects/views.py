"""Projects: the list with its form, one project, the table twin of its chart."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import slugify

from apps.accounts.models import Project
from apps.accounts.selectors import project_by_slug
from apps.accounts.services.labs import create_project
from apps.artifacts.holds import holds_on_subject
from apps.carbon.figures.query import iso_hour
from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.units import MJ_PER_KWH, UG_PER_KG
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.dashboard.period_menu import period_menu, requested_period
from apps.dashboard.projects.pages import project_data_table, project_page, project_use, projects_page
from apps.ingest.choices import EnergyQuality


@page("GET", "POST")
def projects(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List projects; POST makes one."""
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    error: LabCarbonError | None = None
    name = request.POST.get("name", "").strip()
    slug = request.POST.get("slug", "").strip()
    if request.method == "POST":
        visitor.require_role(WRITERS)
        try:
            created = _create(visitor, name, slug)
            messages.success(request, f"{created.name} is there. Charge work to it with --project {created.slug}.")
            return HttpResponseRedirect(reverse("project", args=[created.slug]))
        except LabCarbonError as wrong:
            error = wrong
    content = projects_page(lab=visitor.lab, period=period, now=visitor.now)
    context = {"page": content, "menu": period_menu(request, period), "error": error, "typed": {"name": name, "slug": slug}}
    return render(request, "dashboard/projects/projects.html", context, status=error.status if error else 200)


def _create(visitor: Visitor, name: str, slug: str) -> Project:
    if not name or len(name) > 200:
        raise InvalidInput("A project needs a name of at most 200 characters.", field="name", hint="For example Cell Atlas.")
    short = slug or slugify(name)[:60].strip("-")
    if len(short) > 60:
        raise InvalidInput("The short name is longer than 60 characters.", field="slug", hint="Shorten it.")
    if not short:
        raise InvalidInput("No short name can be made from this name.", field="slug", hint="Write one, such as cell-atlas.")
    return create_project(lab=visitor.lab, slug=short, name=name, now=visitor.now, by=visitor.user)


@page()
def project(request: HttpRequest, visitor: Visitor, slug: str) -> HttpResponseBase:
    """Show one project."""
    project = or_not_found(project_by_slug(visitor.lab, slug), "project", reverse("projects"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    visibility = visibility_for(visitor.lab, visitor.user)
    content = project_page(lab=visitor.lab, project=project, period=period, visibility=visibility, now=visitor.now)
    holds = holds_on_subject(visitor.lab, visitor.now, project=project)
    return render(
        request, "dashboard/projects/project.html", {"page": content, "holds": holds, "menu": period_menu(request, period)}
    )


@page()
def project_table(request: HttpRequest, visitor: Visitor, slug: str) -> HttpResponseBase:
    """Show the table twin of a project's chart, as a page or as a part of one."""
    project = or_not_found(project_by_slug(visitor.lab, slug), "project", reverse("projects"))
    period = requested_period(request, visitor)
    if isinstance(period, HttpResponseRedirect):
        return period
    data_table = project_data_table(lab=visitor.lab, project=project, period=period)
    template = "components/data_table.html" if request.headers.get("HX-Request") else "components/chart_data_page.html"
    return render(
        request,
        template,
        {"data_table": data_table, "menu": period_menu(request, period), "title": f"Energy of {project.name}"},
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
            iso_hour(hour), EnergyQuality(quality).name, part.energy_mj, part.energy_mj / MJ_PER_KWH, part.emission_ug,
            part.emission_ug / UG_PER_KG, part.without_factor_mj,
        )
        for (hour, _, quality), part in sorted(use.parts.items())
    )  # fmt: skip
    head = (
        "hour_utc", "energy_quality", "energy_mj", "energy_kwh", "emission_ug_co2e", "emission_kg_co2e", "without_factor_mj",
    )  # fmt: skip
    return csv_response(f"{project.slug}-energy", head, lines)
