"""Page objects: the list of projects, whose rows sum to the lab, and one project."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.attribution.precedence import user_and_program
from apps.carbon.coverage import device_times
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import ALLOCATION, FigureQuery
from apps.carbon.figures.visibility import Visibility
from apps.dashboard.budgets.budgets_page import BudgetRow, status_rows
from apps.dashboard.charts import Chart
from apps.dashboard.explain.citation import citation, known_share
from apps.dashboard.explain.pricing import Pricing
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Quantity,
    Units,
    column_units,
    cost_quantity,
    energy_and_emissions,
    percent_quantity,
    total,
)
from apps.dashboard.formatting import format_value, unit_for
from apps.dashboard.overview.energy_use import (
    Charge,
    DataTable,
    Use,
    charges,
    chart_summary,
    merge_charges,
    priced_use,
    use_chart,
    use_data_table,
    use_of,
)
from apps.dashboard.overview.use_and_hardware import (
    CombinedEmissions,
    Hardware,
    all_charges,
    by_kind,
    combined_emissions,
    hardware_of,
)
from apps.dashboard.periods import Period, lab_query
from apps.dashboard.statements.closed_figures import ClosedFigures, closed_figures
from apps.runs.models import Run

MAX_RUNS = 50
MAX_PEOPLE = 30


@dataclass(frozen=True)
class ProjectRow:
    """A row of the list. ``figures`` is None for a project without energy in the period."""

    name: str
    slug: str
    href: str
    colour: str
    note: str
    figures: EnergyAndEmissions | None
    share: Quantity | None
    combined_emissions: CombinedEmissions | None


@dataclass(frozen=True)
class ProjectsPage:
    """The list of projects. ``hardware`` None: the lab has no asset."""

    period: Period
    units: Units
    rows: list[ProjectRow]
    totals: EnergyAndEmissions | None
    hardware: Hardware | None


def projects_page(*, lab: Lab, period: Period, now: int) -> ProjectsPage:
    """Return all projects and energy without a project. The rows sum to the lab. A fixed number
    of queries.
    """
    use = use_of(lab, lab_query(lab, period), period.time_group)
    whole = use.whole
    units = column_units([whole])
    hardware = hardware_of(lab, use.query, whole, now)
    listed = all_charges(lab, hardware, charges(lab, use, period), period)
    rows = [_row(charge, units, whole.energy_mj, hardware) for charge in listed]
    used_slugs = {charge.key for charge in listed}
    unused = [
        ProjectRow(
            project.name,
            project.slug,
            reverse("project", args=[project.slug]),
            "",
            "",
            None,
            None,
            None,
        )
        for project in lab.projects.all()
        if project.slug not in used_slugs
    ]
    measured = [row for row in rows if row.slug]
    special = [row for row in rows if not row.slug]
    totals = energy_and_emissions(use.query, whole, units) if use.parts else None
    return ProjectsPage(period, units, [*measured, *unused, *special], totals, hardware)


def _row(charge: Charge, units: Units, whole_mj: int, hardware: Hardware | None) -> ProjectRow:
    slug = "" if charge.key.startswith("~") else charge.key
    used = bool(charge.figure.entries)
    return ProjectRow(
        charge.name,
        slug,
        charge.href,
        charge.colour,
        charge.note,
        energy_and_emissions(charge.query, charge.figure, units) if used else None,
        percent_quantity(charge.query, charge.figure.energy_mj, whole_mj) if used else None,
        combined_emissions(hardware, charge) if hardware else None,
    )


@dataclass(frozen=True)
class PersonUse:
    """An OS user and their energy in the project. ``os_user`` '': unknown or hidden users."""

    os_user: str
    figures: EnergyAndEmissions | None


@dataclass(frozen=True)
class RunUse:
    """A run of the project with its energy in the period."""

    run: Run | None
    name: str
    href: str
    figures: EnergyAndEmissions


@dataclass(frozen=True)
class ProjectPage:
    """One project over a period."""

    project: Project
    period: Period
    measured: bool
    figures: EnergyAndEmissions
    figures_column: EnergyAndEmissions
    cost: Quantity | None
    share: Quantity | None
    pricing: Pricing
    qualities: list[tuple[str, Quantity]]
    chart: Chart | None
    units: Units
    runs: list[RunUse]
    more: int
    people: list[PersonUse]
    hardware: Hardware | None
    kinds: list[tuple[str, Quantity]]
    kinds_total: Quantity | None
    citation: str
    closed: ClosedFigures | None
    budgets: list[BudgetRow]


def project_use(
    lab: Lab, project: Project, period: Period, time_group: str = "hour"
) -> tuple[Use, Charge]:
    """Return the use of a project by hour or by ``Period.time_group``, as one charge. One query."""
    query = lab_query(lab, period).replace(subject_kind="project", subject_key=project.slug)
    use = merge_charges(use_of(lab, query, time_group), "project")
    return use, Charge("project", project.name, "s1", "", "", query, use.whole)


def project_page(
    *,
    lab: Lab,
    project: Project,
    period: Period,
    visibility: Visibility,
    now: int,
    version: str,
) -> ProjectPage:
    """Return one project. The number of queries does not depend on the number of rows."""
    query = lab_query(lab, period).replace(subject_kind="project", subject_key=project.slug)
    detailed_use, pricing = priced_use(lab, query, period.time_group)
    use = merge_charges(detailed_use, "project")
    whole = use.whole
    charge = Charge("project", project.name, "s1", "", "", query, whole)
    units = column_units([whole])
    parts, people = _parts(lab, query)
    runs, more = _lines(lab, query, parts, units, visibility)
    lab_whole = total(figures_by(lab, lab_query(lab, period), ["quality"]).values())
    no_unknown: list[float | None] = [None] * len(period.buckets())
    hardware = hardware_of(lab, query, whole, now)
    figures = energy_and_emissions(query, whole)
    cost = cost_quantity(lab, query, whole)
    return ProjectPage(
        project=project,
        period=period,
        measured=bool(use.parts),
        figures=figures,
        figures_column=energy_and_emissions(query, whole, units),
        cost=cost,
        share=percent_quantity(query, whole.energy_mj, lab_whole.energy_mj)
        if lab_whole.energy_mj
        else None,
        pricing=pricing,
        qualities=[
            (
                name.lower(),
                percent_quantity(query.replace(quality=name), part.energy_mj, whole.energy_mj),
            )
            for name, part in use.by_quality().items()
        ],
        chart=use_chart(
            "project-use", use, [charge], period, no_unknown, chart_summary(use, [charge], period)
        )
        if use.parts
        else None,
        units=units,
        runs=runs,
        more=more,
        people=_people(query, people, units, visibility),
        hardware=hardware,
        kinds=by_kind(lab, query, now) if hardware else [],
        kinds_total=_in_column(hardware.headline.hardware) if hardware else None,
        citation=citation(
            project.name,
            query.replace(metric="emission_ug"),
            period,
            pricing,
            None,
            figures.emission,
            known_share(device_times(lab, *query.hours, now)),
            version,
            [*_known_text(cost), _number_of_runs(parts)],
            "".join(
                f"hardware {text}, amortised over use"
                for text in _known_text(hardware.headline.hardware if hardware else None)
            ),
        ),
        closed=closed_figures(lab, period, whole, f"project:{project.slug}"),
        budgets=status_rows(lab, project, now),
    )


def _parts(
    lab: Lab, query: FigureQuery
) -> tuple[dict[tuple[str | None, str], Figure], dict[str, Figure]]:
    """Return the figures by run and consumer, and by OS user. One query."""
    by_use: dict[tuple[str | None, str], list[Figure]] = defaultdict(list)
    by_user: dict[str, list[Figure]] = defaultdict(list)
    for (run, consumer, user), part in figures_by(
        lab, query, ["run", "consumer", "os_user"]
    ).items():
        by_use[run, consumer].append(part)
        by_user[user].append(part)
    return (
        {key: total(parts) for key, parts in by_use.items()},
        {user: total(parts) for user, parts in by_user.items()},
    )


def _known_text(amount: Quantity | None) -> list[str]:
    """Return an amount as text, nothing for an unknown one."""
    return [amount.text] if amount and not amount.missing else []


def _number_of_runs(parts: dict[tuple[Any, ...], Figure]) -> str:
    """Return the number of runs with energy in the period."""
    number = len({run for run, _ in parts if run is not None})
    return f"{number} run{'' if number == 1 else 's'}"


def _in_column(whole: Quantity | None) -> Quantity | None:
    """Return a total of embodied carbon in the unit of its parts."""
    if whole is None:
        return None
    unit = unit_for(ALLOCATION, [whole.value], column=True)
    return replace(whole, number=format_value(whole.value, unit), unit=unit.name)


def _lines(
    lab: Lab,
    query: FigureQuery,
    parts: dict[tuple[Any, ...], Figure],
    units: Units,
    visibility: Visibility,
) -> tuple[list[RunUse], int]:
    """Return the largest runs and other uses of a project, and the number of the others."""
    order = sorted(parts.items(), key=lambda item: (-item[1].energy_mj, str(item[0])))
    listed = order[:MAX_RUNS]
    uuids = [run for (run, _), _ in listed if run is not None]
    runs = {
        str(run.uuid): run
        for run in Run.objects.filter(lab=lab, uuid__in=uuids).select_related("node")
    }
    lines = [
        _run_use(query, run, runs.get(run), part, units)
        if run
        else _other_use(query, consumer, part, units, visibility)
        for (run, consumer), part in listed
    ]
    return lines, len(order) - len(listed)


def _run_use(query: FigureQuery, key: str, run: Run | None, part: Figure, units: Units) -> RunUse:
    own = query.replace(subject_kind="run", subject_key=key)
    return RunUse(
        run,
        run.name if run else key,
        reverse("run", args=[key]),
        energy_and_emissions(own, part, units),
    )


def _other_use(
    query: FigureQuery, consumer: str, part: Figure, units: Units, visibility: Visibility
) -> RunUse:
    """Return a use without a run: a program that a rule or a claim attributed, or the share of
    idle energy.
    """
    if consumer == "idle":
        return RunUse(
            None,
            "Share of idle energy",
            reverse("idle-policy"),
            energy_and_emissions(query.replace(consumer="idle_share"), part, units),
        )
    user, program = user_and_program(consumer)
    name = f"{program} by {user}" if visibility.of_os_user(user) and user else program or consumer
    return RunUse(None, name, "", energy_and_emissions(query.replace(use=consumer), part, units))


def _people(
    query: FigureQuery, figures: dict[str, Figure], units: Units, visibility: Visibility
) -> list[PersonUse]:
    """Return the energy of each OS user of a project that the visitor may see, and one row for
    all others.
    """
    visible = [
        (user, part) for user, part in figures.items() if user and visibility.of_os_user(user)
    ]
    hidden = [part for user, part in figures.items() if not user or not visibility.of_os_user(user)]
    visible.sort(key=lambda item: -item[1].energy_mj)
    lines = [
        PersonUse(user, energy_and_emissions(query.replace(os_user=user), part, units))
        for user, part in visible[:MAX_PEOPLE]
    ]
    return [*lines, PersonUse("", None)] if hidden else lines


def project_data_table(*, lab: Lab, project: Project, period: Period) -> DataTable:
    """Return the data table of a project's chart."""
    use, charge = project_use(lab, project, period, period.time_group)
    return use_data_table(use, [charge], period, [None] * len(period.buckets()))
