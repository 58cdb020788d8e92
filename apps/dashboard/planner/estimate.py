"""The estimate of time, energy, emissions and cost on the page Planner."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from apps.core.errors import InvalidInput
from apps.dashboard.figures import estimated
from apps.dashboard.formatting import duration, unit_for
from apps.dashboard.planner.basis_facts import basis_facts
from apps.dashboard.planner.forms import PlannerForm
from apps.dashboard.planner.range_cells import RangeCell, range_cell, shown_time
from apps.planner.choices import Basis
from apps.planner.evidence import Evidence
from apps.planner.formulas.ranges import Range
from apps.planner.job_input import JobInput
from apps.planner.services import ComputedEstimate, estimate_from

NO_MODEL_OF_CARD = "Choose a GPU of a node: a memory size has no rated power."


@dataclass(frozen=True)
class EstimateCard:
    """The estimate. Without a basis it has no rows, and ``missing`` states what it would take.
    ``facts``: what it rests on, as a sentence.
    """

    basis: Basis
    rows: Sequence[RangeCell]
    reserve: str
    reserve_us: int | None
    missing: Sequence[str]
    facts: str = ""

    @property
    def is_order_of_magnitude(self) -> bool:
        """Whether it rests on rated figures only."""
        return self.basis == Basis.CATALOGUE


def compute_or_refuse(evidence: Evidence, job: JobInput) -> tuple[ComputedEstimate | None, str]:
    """Return the estimate of a training, or why it has none: more work than a figure can hold."""
    try:
        return estimate_from(evidence, job), ""
    except InvalidInput as error:
        return None, str(error)


def estimate_card(
    form: PlannerForm, computed: ComputedEstimate | None, refusal: str
) -> EstimateCard:
    """Return the estimate of a valid form."""
    if computed is None:
        return EstimateCard(Basis.NONE, [], "", None, [refusal])
    figures = computed.figures
    if figures is None:
        missing = list(computed.missing)
        if form.cleaned_data["place"].startswith("any-"):
            missing.append(NO_MODEL_OF_CARD)
        return EstimateCard(Basis.NONE, [], "", None, missing)
    return EstimateCard(
        computed.basis,
        [
            time_cell(figures.time_us),
            figure_cell("gpu_energy", "Energy of the GPUs", "energy_mj", figures.gpu_energy_mj),
            figure_cell("energy", "Energy of the run", "energy_mj", figures.node_energy_mj),
            _emission_row(computed),
            _cost_row(computed),
        ],
        duration(figures.reserve_us),
        figures.reserve_us,
        [],
        basis_facts(computed.basis, figures.facts),
    )


def time_cell(time_us: Range | None) -> RangeCell:
    """Return the time of a training."""
    return range_cell("time", "Time", "us", time_us, shown_time)


def figure_cell(
    key: str, label: str, metric: str, figure: Range | None, missing: str = "", currency: str = ""
) -> RangeCell:
    """Return a figure in the unit that suits it. ``missing``: why it is unknown."""
    unit = unit_for(metric, [figure.likely], currency=currency) if figure else None
    show = partial(estimated, metric=metric, unit=unit, currency=currency)
    return range_cell(key, label, metric.rsplit("_", 1)[1], figure, show, missing)


def _emission_row(computed: ComputedEstimate) -> RangeCell:
    reason = computed.conditions.factor_missing
    return figure_cell("emission", "Emissions", "emission_ug", computed.emission_ug, reason)


def _cost_row(computed: ComputedEstimate) -> RangeCell:
    price = computed.conditions.price
    reason = computed.conditions.price_missing or "The mean price of the coming days is below 0."
    currency = price.currency if price else ""
    return figure_cell("cost", "Cost", "cost_ucurrency", computed.cost_ucurrency, reason, currency)
