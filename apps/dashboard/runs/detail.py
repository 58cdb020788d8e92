"""One run: its figures, its power over time, who and where, what it did."""

from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.artifacts.choices import LineageRole
from apps.artifacts.models import Artifact, LineageEdge
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.query import FigureQuery
from apps.carbon.figures.visibility import Sight
from apps.core.clock import utc
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.dashboard.charts import Chart, power
from apps.dashboard.explain.pricing import Pricing
from apps.dashboard.figures import Fig, Pair, WouldBe, pair, percent_fig
from apps.dashboard.formatting import duration, exact, shown, size, unit_for
from apps.dashboard.overview.energy_use import Charge, Twin, merged, priced_use, use_twin
from apps.dashboard.periods import Period
from apps.dashboard.runs.facts import RunFacts, run_facts
from apps.dashboard.runs.list import run_hours, took
from apps.ingest.choices import EnergyQuality
from apps.ingest.selectors import run_windows
from apps.preflight.finding_selectors import finding_of_run
from apps.preflight.models import DuplicateFinding
from apps.runs.models import Run
from apps.trackers.codecarbon.selectors import shared_machines_of_run, codecarbon_figures
from apps.trackers.mlflow.selectors import mlflow_figures
from apps.trackers.models import MlflowRun

MOST = 20


@dataclass(frozen=True)
class RunArtifact:
    """An artifact of a run: what it was to it, and how that is known ('' where the run told)."""

    artifact: Artifact
    role: str
    known: str
    size: str


@dataclass(frozen=True)
class RunArtifacts:
    """The latest MOST of ``number``, what it made first."""

    rows: list[RunArtifact]
    number: int


def run_artifacts(run: Run) -> RunArtifacts:
    """Return what a run made and read. At most three queries."""
    edges = LineageEdge.objects.filter(run=run).select_related("artifact").order_by("-artifact__registered_us", "-pk")
    listed = list(edges.filter(role=LineageRole.PRODUCED)[:MOST])
    listed += edges.exclude(role=LineageRole.PRODUCED)[: MOST - len(listed)] if len(listed) < MOST else []
    number = edges.count() if len(listed) == MOST else len(listed)
    return RunArtifacts([_shown(edge) for edge in listed], number)


def _shown(edge: LineageEdge) -> RunArtifact:
    known = "" if edge.source == "told" else edge.get_source_display()
    return RunArtifact(edge.artifact, edge.get_role_display(), known, size(edge.artifact.bytes))


@dataclass(frozen=True)
class Twice:
    """Another run that most likely measured the same machine at the same time."""

    run: Run
    energy: WouldBe


@dataclass(frozen=True)
class CodeCarbonTold:
    """As it was told, PUE divided out: not the ledger's figures, so without explanation. ``superseded`` None: nothing gave
    way to a collector; ``carbon`` None: it told none. ``bound``: its token names the machine."""

    energy: WouldBe
    carbon: WouldBe | None
    superseded: WouldBe | None
    not_counted: int
    waiting: int
    bound: bool
    twice: list[Twice]


def codecarbon_told(run: Run) -> CodeCarbonTold | None:
    """Return what CodeCarbon told of a run, or None. A fixed number of queries."""
    told = codecarbon_figures(run)
    if told is None:
        return None
    return CodeCarbonTold(
        energy=_codecarbon_rows("energy_mj", told.energy_mj),
        carbon=None if told.client_ug is None else _codecarbon_rows("emission_ug", told.client_ug),
        superseded=_codecarbon_rows("energy_mj", told.superseded_mj) if told.superseded_mj else None,
        not_counted=told.not_counted,
        waiting=told.waiting,
        bound=told.bound,
        twice=[
            Twice(other, _codecarbon_rows("energy_mj", pair.energy_mj))
            for pair in shared_machines_of_run(run)
            if (other := pair.again.run if pair.first.run_id == run.pk else pair.first.run) is not None
        ],
    )


def _codecarbon_rows(metric: str, value: int) -> WouldBe:
    unit = unit_for(metric, [value])
    return WouldBe(shown(value, unit), unit.name, exact(value, metric), "", False)


@dataclass(frozen=True)
class MlflowTold:
    """``energy`` as MLflow's watts make it, None where it told none; ``superseded`` None: nothing gave way to a collector.
    ``bound``: the machine is known."""

    told: MlflowRun
    energy: WouldBe | None
    superseded: WouldBe | None
    cards: int
    bound: bool


def mlflow_told(run: Run) -> MlflowTold | None:
    """Return what MLflow told of a run, or None. A fixed number of queries."""
    found = mlflow_figures(run)
    if found is None:
        return None
    return MlflowTold(
        told=found.told,
        energy=_mlflow_rows(found.energy_mj) if found.cards else None,
        superseded=_mlflow_rows(found.superseded_mj) if found.superseded_mj else None,
        cards=found.cards,
        bound=found.told.source.bound or found.told.node_uuid is not None or found.told.is_linked,
    )


def _mlflow_rows(energy_mj: int) -> WouldBe:
    unit = unit_for("energy_mj", [energy_mj])
    return WouldBe(shown(energy_mj, unit), unit.name, exact(energy_mj, "energy_mj"), "", False)


MAX_CURVE_POINTS = 500
GAP_US = 150 * US_PER_S  # more than two missed windows of a minute


@dataclass(frozen=True)
class RunDevice:
    """A device a run used: how its energy was measured, for how long."""

    name: str
    quality: str
    known: str
    util: str


@dataclass(frozen=True)
class RunPage:
    """One run."""

    run: Run
    who: str
    account: str
    period: Period
    took: str
    figures: Pair
    measured: bool
    pricing: Pricing
    qualities: list[tuple[str, Fig]]
    idle: Fig | None
    idle_of: str
    devices: list[RunDevice]
    chart: Chart | None
    twin: Twin | None
    facts: RunFacts
    codecarbon: CodeCarbonTold | None
    mlflow: MlflowTold | None
    finding: DuplicateFinding | None
    artifacts: RunArtifacts
    command: str


def _merged_points(windows: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Return at most MOST_POINTS (start, end, mJ), neighbours added up."""
    step = -(-len(windows) // MAX_CURVE_POINTS)
    points = []
    for i in range(0, len(windows), step):
        part = windows[i : i + step]
        points.append((part[0]["start_us"], part[-1]["end_us"], sum(window["energy_mj"] for window in part)))
    return points


def _curve(windows: list[dict[str, Any]], period: Period) -> tuple[list[str], list[float | None]]:
    """Return times (lab's zone) and W of one device; a gap in the windows is a None."""
    times: list[str] = []
    watts: list[float | None] = []
    last_end = 0

    def at(time_us: int) -> str:
        return utc(time_us).astimezone(period.zone).strftime("%Y-%m-%dT%H:%M:%S")

    for start, end, energy_mj in _merged_points(windows):
        if last_end and start - last_end > GAP_US:
            times.append(at(last_end))
            watts.append(None)
        value = round(energy_mj / 1000 / ((end - start) / US_PER_S), 3)
        times += [at(start), at(end)]
        watts += [value, value]
        last_end = end
    return times, watts


def _device(name: str, windows: list[dict[str, Any]]) -> RunDevice:
    known_us = sum(window["end_us"] - window["start_us"] for window in windows)
    worst = max(window["energy_quality"] for window in windows)
    used = [(w["util_mean_pm"], w["end_us"] - w["start_us"]) for w in windows if w["util_mean_pm"] is not None]
    weight = sum(length for _, length in used)
    util = f"{sum(value * length for value, length in used) / weight / 10:.0f} %" if weight else "not told"
    return RunDevice(name, EnergyQuality(worst).name.lower(), duration(known_us), util)


def _idle(lab: Lab, run: Run, query: FigureQuery) -> Fig | None:
    """Return the idle share of the run's node in the hours of the run."""
    if run.node is None:
        return None
    node = query.but(subject_kind="node", subject_key=str(run.node.uuid))
    found = figures_by(lab, node, ["charge"])
    whole = sum(part.energy_mj for part in found.values())
    idle = found.get(("~idle",), Figure())
    return percent_fig(node.but(consumer="idle"), idle.energy_mj, whole) if whole else None


def run_page(*, lab: Lab, run: Run, zone: Any, now: int, sight: Sight, metric: str = "") -> RunPage:
    """Return one run, with the curve of ``metric``."""
    by_device: dict[str, list[dict[str, Any]]] = {}
    for window in run_windows(lab, run.uuid):
        by_device.setdefault(window["device_name"] or window["device"], []).append(window)
    start, end = run_hours(run, now)
    listed = [window for windows in by_device.values() for window in windows]
    if listed:
        start = min(start, min(window["start_us"] for window in listed) // US_PER_HOUR)
        end = max(end, -(-max(window["end_us"] for window in listed) // US_PER_HOUR))
    period = Period(start, end, zone)
    query = FigureQuery(
        metric="energy_mj", from_hour=start, to_hour=end, subject_kind="run", subject_key=str(run.uuid), basis=lab.basis
    )
    found_use, pricing = priced_use(lab, query, period.stretch)
    use = merged(found_use, "run")
    whole = use.whole
    curves = [(name, *_curve(windows, period)) for name, windows in by_device.items()]
    summary = f"Power of {run.name} over time, per device, in W. Gaps are times nobody measured."
    charge = Charge("run", "This run", "s1", "", "", query, whole)
    return RunPage(
        run=run,
        who=sight.user_of(run),
        account=run.user.get_username() if run.user and sight.of_person(run.user_id) else "",
        period=period,
        took=took(run, now),
        figures=pair(query, whole),
        measured=bool(use.parts),
        pricing=pricing,
        qualities=[
            (name.lower(), percent_fig(query.but(quality=name), part.energy_mj, whole.energy_mj))
            for name, part in use.by_quality().items()
        ],
        idle=_idle(lab, run, query),
        idle_of=run.node.hostname if run.node else "",
        devices=[_device(name, windows) for name, windows in by_device.items()],
        chart=power(name="run-power", summary=summary, devices=curves) if curves else None,
        twin=use_twin(use, [charge], period, [None] * len(period.buckets())) if use.parts else None,
        facts=run_facts(run, metric),
        codecarbon=codecarbon_told(run),
        mlflow=mlflow_told(run),
        finding=finding_of_run(run),
        artifacts=run_artifacts(run),
        command=" ".join(str(word) for word in run.command),
    )
