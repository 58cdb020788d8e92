"""Footprint of a model: all runs of its lineage, each once, and their sum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Lab
from apps.artifacts.selectors import Lineage
from apps.carbon.figures.energy import Figure, spans_of_runs
from apps.carbon.figures.figure_query import MOST_RUNS, FigureQuery
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Projected,
    Units,
    column_units,
    energy_and_emissions,
    projected,
    total,
)
from apps.dashboard.formatting import unit_for
from apps.runs.models import Run

Spans = Mapping[UUID, tuple[Figure, int, int]]


@dataclass(frozen=True)
class FootprintRow:
    """A run of the lineage. ``figures`` is None if it was not measured."""

    run: Run
    is_producer: bool
    figures: EnergyAndEmissions | None


@dataclass(frozen=True)
class ProjectedPair:
    """Energy and emissions of more runs than one explanation covers."""

    energy: Projected
    emission: Projected


@dataclass(frozen=True)
class Footprint:
    """``total``: sum of all runs if one explanation covers them, else ``summed``. ``rest``: runs
    outside ``rows``.

    ``is_cut``: the lineage is longer than the part that was read.
    """

    rows: list[FootprintRow]
    units: Units
    runs: int
    unmeasured: int
    more: int
    total: EnergyAndEmissions | None
    summed: ProjectedPair | None
    rest: ProjectedPair | None
    is_cut: bool


def run_query(lab: Lab, uuid: UUID, span: tuple[Figure, int, int]) -> FigureQuery:
    """Return the figure query of a run's total use."""
    _, start, end = span
    key = str(uuid)
    return FigureQuery(
        "energy_mj", start, end, subject_kind="run", subject_key=key, basis=lab.basis
    )


def lineage_footprint(lab: Lab, lineage: Lineage, own: set[int], spans: Spans) -> Footprint:
    """Return the footprint of an artifact that runs ``own`` produced."""
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
        total=energy_and_emissions(
            joint_query(lab, measured, spans), total(_figures(measured, spans))
        )
        if measured and fits_one_query
        else None,
        summed=None if fits_one_query else _sum_pair(measured, spans),
        rest=_sum_pair(rest, spans, units) if rest else None,
        is_cut=lineage.is_cut,
    )


def load_spans(lab: Lab, runs: Sequence[Run]) -> Spans:
    """Return figure and hours of each run: one query for each 500 runs, plus one."""
    return spans_of_runs(lab, [run.uuid for run in runs])


def _figures(runs: Sequence[Run], spans: Spans) -> list[Figure]:
    return [spans[run.uuid][0] for run in runs]


def _row(lab: Lab, run: Run, is_producer: bool, spans: Spans, units: Units) -> FootprintRow:
    span = spans.get(run.uuid)
    return FootprintRow(
        run,
        is_producer,
        energy_and_emissions(run_query(lab, run.uuid, span), span[0], units) if span else None,
    )


def joint_query(lab: Lab, runs: Sequence[Run], spans: Spans) -> FigureQuery:
    """Return the figure query of up to MOST_RUNS measured runs."""
    run_spans = [spans[run.uuid] for run in runs]
    start, end = min(start for _, start, _ in run_spans), max(end for _, _, end in run_spans)
    key = ",".join(sorted(str(run.uuid) for run in runs))
    return FigureQuery(
        "energy_mj", start, end, subject_kind="runs", subject_key=key, basis=lab.basis
    )


def _sum_pair(runs: Sequence[Run], spans: Spans, units: Units | None = None) -> ProjectedPair:
    whole = total(_figures(runs, spans))
    query = FigureQuery("energy_mj", 0, 1)
    energy = units.energy if units else unit_for("energy_mj", [whole.energy_mj])
    emission = units.emission if units else unit_for("emission_ug", [whole.emission_ug])
    return ProjectedPair(
        projected(query, whole, energy),
        projected(query.replace(metric="emission_ug"), whole, emission),
    )
