"""Projects: the list, whose sum is the lab's, and one project."""

from dataclasses import dataclass

from apps.accounts.models import Lab, Project
from apps.carbon.selectors import figures_by
from apps.dashboard.charts import Chart
from apps.dashboard.contexts.overview import lab_query
from apps.dashboard.contexts.pricing import Pricing
from apps.dashboard.contexts.use import (
    Charge,
    Twin,
    Use,
    charges,
    chart_summary,
    merged,
    priced_use,
    use_chart,
    use_of,
    use_twin,
)
from apps.dashboard.figures import Fig, Pair, Units, column_units, pair, percent_fig, total
from apps.dashboard.periods import Period
from apps.runs.models import Run

MOST_RUNS = 50


@dataclass(frozen=True)
class ProjectRow:
    """A line of the list. ``figures`` is None for a project of which nothing was measured in the period."""

    name: str
    slug: str
    href: str
    colour: str
    note: str
    figures: Pair | None
    share: Fig | None


@dataclass(frozen=True)
class ProjectsPage:
    """The list of projects."""

    period: Period
    units: Units
    rows: list[ProjectRow]
    totals: Pair | None


def projects_page(*, lab: Lab, period: Period) -> ProjectsPage:
    """Return all projects and what is nobody's; the rows add up to the lab. Three queries."""
    use = use_of(lab, lab_query(lab, period))
    whole = use.whole
    units = column_units([whole])
    listed = charges(lab, use, period)
    rows = [_row(charge, units, whole.energy_mj) for charge in listed]
    seen = {charge.key for charge in listed}
    quiet = [
        ProjectRow(project.name, project.slug, f"/projects/{project.slug}/", "", "", None, None)
        for project in lab.projects.all()
        if project.slug not in seen
    ]
    measured = [row for row in rows if row.slug]
    nobody = [row for row in rows if not row.slug]
    return ProjectsPage(period, units, [*measured, *quiet, *nobody], pair(use.query, whole, units) if use.parts else None)


def _row(charge: Charge, units: Units, whole_mj: int) -> ProjectRow:
    slug = "" if charge.key.startswith("~") else charge.key
    share = percent_fig(charge.query, charge.figure.energy_mj, whole_mj)
    return ProjectRow(
        charge.name, slug, charge.href, charge.colour, charge.note, pair(charge.query, charge.figure, units), share
    )


@dataclass(frozen=True)
class Person:
    """An OS user whose runs were charged to the project."""

    os_user: str
    runs: int


@dataclass(frozen=True)
class RunUse:
    """A run of the project and what it used in the period."""

    run: Run | None
    name: str
    href: str
    figures: Pair


@dataclass(frozen=True)
class ProjectPage:
    """One project over a period."""

    project: Project
    period: Period
    measured: bool
    figures: Pair
    figures_column: Pair
    command: str
    share: Fig | None
    pricing: Pricing
    qualities: list[tuple[str, Fig]]
    chart: Chart | None
    units: Units
    runs: list[RunUse]
    more: int
    people: list[Person]


def project_use(lab: Lab, project: Project, period: Period) -> tuple[Use, Charge]:
    """Return a project's use of a period, as one charge. One query."""
    query = lab_query(lab, period).but(subject_kind="project", subject_key=project.slug)
    use = merged(use_of(lab, query), "project")
    return use, Charge("project", project.name, "s1", "", "", query, use.whole)


def project_page(*, lab: Lab, project: Project, period: Period) -> ProjectPage:
    """Return one project. The number of queries does not depend on the number of rows."""
    query = lab_query(lab, period).but(subject_kind="project", subject_key=project.slug)
    found_use, pricing = priced_use(lab, query)
    use = merged(found_use, "project")
    whole = use.whole
    charge = Charge("project", project.name, "s1", "", "", query, whole)
    by_run = figures_by(lab, query, ["run"])
    order = sorted(by_run.items(), key=lambda item: (-item[1].energy_mj, str(item[0])))
    found = {
        str(run.uuid): run
        for run in Run.objects.filter(lab=lab, uuid__in=[key for (key,), _ in order[:MOST_RUNS]]).select_related("node")
    }
    units = column_units([whole])
    runs = [
        RunUse(
            found.get(key),
            found[key].name if key in found else key,
            f"/runs/{key}/",
            pair(query.but(subject_kind="run", subject_key=key), part, units),
        )
        for (key,), part in order[:MOST_RUNS]
    ]
    lab_whole = total(figures_by(lab, lab_query(lab, period), ["quality"]).values())
    blank: list[float | None] = [None] * len(period.buckets())
    return ProjectPage(
        project=project,
        period=period,
        measured=bool(use.parts),
        figures=pair(query, whole),
        figures_column=pair(query, whole, units),
        command=f"labcarbon-collect run --project {project.slug} -- python train.py",
        share=percent_fig(query, whole.energy_mj, lab_whole.energy_mj) if lab_whole.energy_mj else None,
        pricing=pricing,
        qualities=[
            (name.lower(), percent_fig(query.but(quality=name), part.energy_mj, whole.energy_mj))
            for name, part in use.by_quality().items()
        ],
        chart=use_chart("project-use", use, [charge], period, blank, chart_summary(use, [charge], period))
        if use.parts
        else None,
        units=units,
        runs=runs,
        more=max(0, len(order) - MOST_RUNS),
        people=_people(lab, [key for (key,), _ in order]),
    )


def _people(lab: Lab, run_uuids: list[str]) -> list[Person]:
    counts: dict[str, int] = {}
    for start in range(0, len(run_uuids), 500):
        part = run_uuids[start : start + 500]
        for os_user in Run.objects.filter(lab=lab, uuid__in=part).values_list("os_user", flat=True):
            counts[os_user] = counts.get(os_user, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Person(os_user or "not told", runs) for os_user, runs in ordered]


def project_twin(*, lab: Lab, project: Project, period: Period) -> Twin:
    """Return the table twin of a project's chart."""
    use, charge = project_use(lab, project, period)
    return use_twin(use, [charge], period, [None] * len(period.buckets()))
