"""A model's life so far: every run along the lineage that led to it, each once, and their sum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Lab
from apps.artifacts.selectors import Lineage
from apps.carbon.figures.energy import Figure, spans_of_runs
from apps.carbon.figures.query import MOST_RUNS, FigureQuery
from apps.dashboard.figures import Pair, Units, WouldBe, column_units, pair, total, would_be
from apps.dashboard.formatting import unit_for
from apps.runs.models import Run

Spans = Mapping[UUID, tuple[Figure, int, int]]


@dataclass(frozen=True)
class FootprintRow:
    """A run of the lineage. ``figures`` is None where nothing of it was measured."""

    run: Run
    is_producer: bool
    figures: Pair | None


@dataclass(frozen=True)
class ProjectedPair:
    """Energy and emissions of more runs than one explanation takes: the sum of lines that explain themselves."""

    energy: WouldBe
    emission: WouldBe


@dataclass(frozen=True)
class Footprint:
    """``total`` is the sum of all runs, where one explanation takes them; else ``summed``. ``rest``: of the runs that are
    not among ``rows``. ``is_cut``: the lineage is longer than what was read."""

    rows: list[FootprintRow]
    units: Units
    runs: int
    unmeasured: int
    more: int
    total: Pair | None
    summed: ProjectedPair | None
    rest: ProjectedPair | None
    is_cut: bool


def run_query(lab: Lab, uuid: UUID, span: tuple[Figure, int, int]) -> FigureQuery:
    """Return the query that explains what a run ever used."""
    _, start, end = span
    key = str(uuid)
    return FigureQuery("energy_mj", start, end, subject_kind="run", subject_key=key, basis=lab.basis)


def lineage_footprint(lab: Lab, lineage: Lineage, own: set[int], spans: Spans) -> Footprint:
    """Return the life of an artifact that runs ``own`` made."""
    producers = [lineage.runs[number] for number in lineage.producing_runs]
    producers.sort(key=lambda run: (run.pk not in own, -run.started_us, -run.pk))
    measured = [run for run in producers if run.uuid in spans]
    visible = producers[:MOST_RUNS]
    units = column_units(_figures(measured, spans))
    fits_one_query = len(measured) <= MOST_RUNS
    rest = [run for run in producers[MOST_RUNS:] if run.uuid in spans]
    return Footprint(
        rows=[_row(lab, run, run.pk in own, spans, units) for run in visible],
        units=units,
        runs=len(producers),
        unmeasured=len(producers) - len(measured),
        more=len(producers) - len(visible),
        total=pair(joint_query(lab, measured, spans), total(_figures(measured, spans)))
        if measured and fits_one_query
        else None,
        summed=None if fits_one_query else _sum_pair(measured, spans),
        rest=_sum_pair(rest, spans, units) if rest else None,
        is_cut=lineage.is_cut,
    )


def load_spans(lab: Lab, runs: Sequence[Run]) -> Spans:
    """Return what each of ``runs`` ever used and when: one query for 500 of them, and one."""
    return spans_of_runs(lab, [run.uuid for run in runs])


def _figures(runs: Sequence[Run], spans: Spans) -> list[Figure]:
    return [spans[run.uuid][0] for run in runs]


def _row(lab: Lab, run: Run, is_producer: bool, spans: Spans, units: Units) -> FootprintRow:
    span = spans.get(run.uuid)
    return FootprintRow(run, is_producer, pair(run_query(lab, run.uuid, span), span[0], units) if span else None)


def joint_query(lab: Lab, runs: Sequence[Run], spans: Spans) -> FigureQuery:
    """Return the query that explains up to MOST_RUNS measured runs together."""
    run_spans = [spans[run.uuid] for run in runs]
    start, end = min(start for _, start, _ in run_spans), max(end for _, _, end in run_spans)
    key = ",".join(sorted(str(run.uuid) for run in runs))
    return FigureQuery("energy_mj", start, end, subject_kind="runs", subject_key=key, basis=lab.basis)


def _sum_pair(runs: Sequence[Run], spans: Spans, units: Units | None = None) -> ProjectedPair:
    whole = total(_figures(runs, spans))
    query = FigureQuery("energy_mj", 0, 1)
    energy = units.energy if units else unit_for("energy_mj", [whole.energy_mj])
    emission = units.emission if units else unit_for("emission_ug", [whole.emission_ug])
    return ProjectedPair(would_be(query, whole, energy), would_be(query.but(metric="emission_ug"), whole, emission))
