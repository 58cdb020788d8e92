"""Page object of a run: figures, power over time, facts, artifacts, panels of trackers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab
from apps.artifacts.choices import LineageRole
from apps.artifacts.models import Artifact, LineageEdge
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.figures.visibility import Visibility
from apps.core.units import US_PER_HOUR
from apps.dashboard.charts import Chart
from apps.dashboard.explain.citation import citation
from apps.dashboard.explain.pricing import Pricing
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Projected,
    Quantity,
    cost_quantity,
    energy_and_emissions,
    estimated,
    percent_quantity,
)
from apps.dashboard.formatting import size
from apps.dashboard.overview.energy_use import (
    Charge,
    DataTable,
    merge_charges,
    priced_use,
    use_data_table,
)
from apps.dashboard.periods import Period
from apps.dashboard.runs.run_facts import RunFacts, run_facts
from apps.dashboard.runs.run_rows import run_hours, took
from apps.dashboard.runs.service_rows import ServedRow, serving_rows
from apps.dashboard.runs.timeline import RunDevice, run_device, timeline
from apps.energy.selectors import utilization_of_run
from apps.ingest.archive_files import ArchiveProblem
from apps.ingest.selectors import run_windows
from apps.preflight.finding_roots import first_runs
from apps.preflight.finding_selectors import finding_of_run
from apps.preflight.models import DuplicateFinding
from apps.runs.choices import EnergyState
from apps.runs.models import Run
from apps.runs.selectors import energy_states
from apps.trackers.registry import run_panels
from apps.trackers.tracker import Amount, Page

MOST = 20


@dataclass(frozen=True)
class RunArtifact:
    """An artifact of a run: its role, and the source of this link ('': the run reported it)."""

    artifact: Artifact
    role: str
    source: str
    size: str


@dataclass(frozen=True)
class RunArtifacts:
    """The latest of ``number`` artifacts, outputs first."""

    rows: list[RunArtifact]
    number: int


def run_artifacts(run: Run) -> RunArtifacts:
    """Return outputs and inputs of a run. At most three queries."""
    edges = (
        LineageEdge.objects.filter(run=run)
        .select_related("artifact")
        .order_by("-artifact__registered_us", "-pk")
    )
    listed = list(edges.filter(role=LineageRole.PRODUCED)[:MOST])
    listed += (
        edges.exclude(role=LineageRole.PRODUCED)[: MOST - len(listed)] if len(listed) < MOST else []
    )
    number = edges.count() if len(listed) == MOST else len(listed)
    return RunArtifacts([_artifact_row(edge) for edge in listed], number)


def _artifact_row(edge: LineageEdge) -> RunArtifact:
    source = "" if edge.source == "told" else edge.get_source_display()
    return RunArtifact(edge.artifact, edge.get_role_display(), source, size(edge.artifact.bytes))


@dataclass(frozen=True)
class TrackerRow:
    """A row of a tracker's panel. ``amount``: as the tracker reported it, so without
    explanation.
    """

    label: str
    amount: Projected | None
    text: str
    href: str
    note: str


@dataclass(frozen=True)
class TrackerWarning:
    """A warning of a tracker's panel."""

    kind: str
    text: str
    link_text: str
    href: str
    text_after: str
    amount: Projected | None


@dataclass(frozen=True)
class TrackerPanel:
    """What a tracker reported about a run."""

    name: str
    label: str
    rows: list[TrackerRow]
    warnings: list[TrackerWarning]


def tracker_panels(run: Run) -> list[TrackerPanel]:
    """Return what each tracker reported about a run. A fixed number of queries."""
    return [
        TrackerPanel(
            tracker.name,
            tracker.label,
            [
                TrackerRow(row.label, _reported(row.amount), row.text, _href(row.page), row.note)
                for row in panel.rows
            ],
            [
                TrackerWarning(
                    warning.kind,
                    warning.text,
                    warning.link_text,
                    _href(warning.page),
                    warning.text_after,
                    _reported(warning.amount),
                )
                for warning in panel.warnings
            ],
        )
        for tracker, panel in run_panels(run)
    ]


def _reported(amount: Amount | None) -> Projected | None:
    return estimated(amount.value, amount.metric) if amount else None


def _href(page: Page | None) -> str:
    return reverse(page.url_name, args=page.args) if page else ""


@dataclass(frozen=True)
class RunPage:
    """One run. ``archive_problem``: why its archived windows cannot be shown."""

    run: Run
    who: str
    account: str
    period: Period
    took: str
    figures: EnergyAndEmissions
    cost: Quantity | None
    energy_state: EnergyState
    pricing: Pricing
    qualities: list[tuple[str, Quantity]]
    idle: Quantity | None
    idle_of: str
    devices: list[RunDevice]
    chart: Chart | None
    data_table: DataTable | None
    facts: RunFacts
    trackers: list[TrackerPanel]
    finding: DuplicateFinding | None
    first: Run | None
    artifacts: RunArtifacts
    command: str
    archive_problem: str
    citation: str
    serving: list[ServedRow] | None

    @property
    def chart_class(self) -> str:
        """Return the class of the chart's height."""
        drawing = self.chart.drawing if self.chart else None
        return f"panels-{len(drawing.panels)}" if drawing else ""


def _with_names(by_device: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the windows by the name of their device; equal names are numbered."""
    named: dict[str, list[dict[str, Any]]] = {}
    names = [windows[0]["device_name"] or device for device, windows in by_device.items()]
    for place, (name, windows) in enumerate(zip(names, by_device.values(), strict=True)):
        is_once = names.count(name) == 1
        named[name if is_once else f"{name} #{names[: place + 1].count(name)}"] = windows
    return named


def _idle(lab: Lab, run: Run, query: FigureQuery) -> Quantity | None:
    """Return the idle share of the run's node in the hours of the run."""
    if run.node is None:
        return None
    node = query.replace(subject_kind="node", subject_key=str(run.node.uuid))
    figures = figures_by(lab, node, ["charge"])
    total_mj = sum(part.energy_mj for part in figures.values())
    idle = figures.get(("~idle",), Figure())
    return (
        percent_quantity(node.replace(consumer="idle"), idle.energy_mj, total_mj)
        if total_mj
        else None
    )


def run_page(
    *, lab: Lab, run: Run, zone: Any, now: int, visibility: Visibility, metric: str, version: str
) -> RunPage:
    """Return one run, with the curve of ``metric`` ('': a default)."""
    by_device: dict[str, list[dict[str, Any]]] = {}
    try:
        windows, archive_problem = run_windows(lab, run.uuid), ""
    except ArchiveProblem as problem:
        windows, archive_problem = [], f"{problem.message} {problem.hint}"
    for window in windows:
        by_device.setdefault(window["device"], []).append(window)
    start, end = run_hours(run, now)
    all_windows = [window for windows in by_device.values() for window in windows]
    if all_windows:
        start = min(start, min(window["start_us"] for window in all_windows) // US_PER_HOUR)
        end = max(end, -(-max(window["end_us"] for window in all_windows) // US_PER_HOUR))
    period = Period(start, end, zone)
    query = FigureQuery(
        metric="energy_mj",
        from_hour=start,
        to_hour=end,
        subject_kind="run",
        subject_key=str(run.uuid),
        basis=lab.basis,
    )
    use_by_part, pricing = priced_use(lab, query, period.time_group)
    use = merge_charges(use_by_part, "run")
    whole = use.whole
    utilization = utilization_of_run(lab, run.uuid)
    facts, finding = run_facts(run, metric), finding_of_run(run)
    figures = energy_and_emissions(query, whole)
    charge = Charge("run", "This run", "s1", "", "", query, whole)
    return RunPage(
        run=run,
        who=visibility.user_of(run),
        account=run.user.get_username() if run.user and visibility.of_person(run.user_id) else "",
        period=period,
        took=took(run, now),
        figures=figures,
        cost=cost_quantity(lab, query, whole),
        energy_state=energy_states(lab, [run.uuid], {run.uuid} if use.parts else ())[run.uuid],
        pricing=pricing,
        qualities=[
            (
                name.lower(),
                percent_quantity(query.replace(quality=name), part.energy_mj, whole.energy_mj),
            )
            for name, part in use.by_quality().items()
        ],
        idle=_idle(lab, run, query),
        idle_of=run.node.name if run.node else "",
        devices=[
            run_device(windows, utilization.get(device)) for device, windows in by_device.items()
        ],
        chart=timeline(
            run_name=run.name,
            by_device=_with_names(by_device),
            metric=facts.of_curve,
            points=facts.points,
            period=period,
        ),
        data_table=use_data_table(use, [charge], period, [None] * len(period.buckets()))
        if use.parts
        else None,
        facts=facts,
        trackers=tracker_panels(run),
        finding=finding,
        first=first_runs([finding.original_id]).get(finding.original_id) if finding else None,
        artifacts=run_artifacts(run),
        command=" ".join(str(word) for word in run.command),
        archive_problem=archive_problem,
        citation=citation(
            f"Run {run.name} ({run.uuid})",
            query.replace(metric="emission_ug"),
            period,
            pricing,
            None,
            figures.emission,
            "",
            version,
        ),
        serving=serving_rows(run, facts.metrics, whole, figures),
    )
