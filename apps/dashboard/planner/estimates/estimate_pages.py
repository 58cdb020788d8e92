"""Content of the pages of saved estimates."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.accounts.models import Lab
from apps.core.units import PPM
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import percent, pue, unit_for
from apps.dashboard.planner.basis_facts import basis_facts
from apps.dashboard.planner.estimate import figure_cell, time_cell
from apps.dashboard.planner.range_cells import RangeCell, shown_time
from apps.planner.calibrations import calibrations_of
from apps.planner.choices import Basis
from apps.planner.formulas.calibration import Calibration
from apps.planner.formulas.ranges import Range
from apps.planner.models import Estimate
from apps.planner.outcomes.states import Outcome, OutcomeState, outcome_of

MAX_LISTED = 100
_QUANTITIES = {
    "time": "Time",
    "gpu_energy": "Energy of the GPUs",
    "node_energy": "Energy of the run",
}
# Figures of an estimate: key, label, columns and unit, metric of formatting.
_FIGURES = (
    ("gpu_energy", "Energy of the GPUs", "gpu_energy", "mj", "energy_mj"),
    ("energy", "Energy of the run", "node_energy", "mj", "energy_mj"),
    ("emission", "Emissions", "emission", "ug", "emission_ug"),
    ("cost", "Cost", "cost", "ucurrency", "cost_ucurrency"),
)


@dataclass(frozen=True)
class ActualRow:
    """A figure of the estimate and its outcome. ``actual`` None: unknown. ``place``: inside, below
    or above the range; '' unknown.
    """

    row: RangeCell
    actual: Projected | None = None
    place: str = ""


@dataclass(frozen=True)
class SavedEstimate:
    """A saved estimate."""

    estimate: Estimate
    outcome: Outcome
    rows: Sequence[ActualRow]

    @property
    def name(self) -> str:
        """Return the name of the planned training: of its model, else of the run it is like."""
        model = self.estimate.input.get("model")
        return str(model["name"]) if model else "Plan like a run"

    @property
    def basis(self) -> Basis:
        """Return what the estimate rests on."""
        return Basis(self.estimate.basis)

    @property
    def facts(self) -> str:
        """Return what the estimate rests on, in sentences."""
        return basis_facts(self.estimate.basis, self.estimate.facts)

    @property
    def command(self) -> str:
        """Return the command that starts the run with this estimate."""
        return f"labcarbon-collect run --estimate {self.estimate.uuid} -- python train.py"

    @property
    def query(self) -> str:
        """Return the query of the page Planner with this plan, '' for one of the API."""
        return str(self.estimate.input.get("query") or "")

    @property
    def factor(self) -> str:
        """Return the name of the emission factor, '' unknown."""
        factor = self.estimate.conditions.get("factor")
        return str(factor["name"]) if factor else ""

    @property
    def pue(self) -> str:
        """Return the PUE of the place, '' unknown."""
        pue_ppm = self.estimate.conditions.get("pue_ppm")
        return pue(pue_ppm) if pue_ppm else ""

    @property
    def is_open(self) -> bool:
        """Whether a run can still get this estimate."""
        return self.outcome.state == OutcomeState.OPEN

    @property
    def has_outcome(self) -> bool:
        """Whether the run was compared with the estimate."""
        return self.estimate.scored_us is not None


@dataclass(frozen=True)
class CalibrationRow:
    """How the estimates of one basis came out in one quantity. ``bias``: in words."""

    basis: Basis
    label: str
    calibration: Calibration
    inside: str
    bias: str
    widening: str


def calibration_rows(lab: Lab) -> list[CalibrationRow]:
    """Return the calibration of each basis and quantity with outcomes. One query."""
    found = calibrations_of(lab)
    return [
        CalibrationRow(
            basis,
            label,
            each,
            percent(each.inside, each.number),
            _bias_text(each.bias_ppm),
            f"× {Decimal(each.widening_ppm) / PPM:.2f}" if each.widening_ppm != PPM else "",
        )
        for basis in Basis
        for name, label in _QUANTITIES.items()
        if (each := found.get(basis, {}).get(name)) is not None
    ]


def _bias_text(bias_ppm: int | None) -> str:
    if bias_ppm is None:
        return "unknown"
    difference = abs(bias_ppm - PPM)
    if difference < PPM // 100:
        return "as estimated"
    return f"{percent(difference, PPM)} % {'more' if bias_ppm > PPM else 'less'} than estimated"


def saved_list(lab: Lab, now: int) -> list[SavedEstimate]:
    """Return the newest estimates of a lab. One query."""
    rows = _estimates(lab).order_by("-created_us", "-pk")[:MAX_LISTED]
    return [_saved(row, now) for row in rows]


def saved_estimate(lab: Lab, uuid: UUID, now: int) -> SavedEstimate | None:
    """Return an estimate of a lab, None if there is none. One query."""
    row = _estimates(lab).filter(uuid=uuid).first()
    return _saved(row, now) if row else None


def _estimates(lab: Lab) -> Any:
    return Estimate.objects.filter(lab=lab).select_related("run", "project", "person", "node")


def _saved(estimate: Estimate, now: int) -> SavedEstimate:
    rows = []
    time_us = _range(estimate, "time", "us")
    if time_us is not None:
        actual_us = estimate.actual_time_us
        actual = None if actual_us is None else shown_time(actual_us)
        rows.append(ActualRow(time_cell(time_us), actual, _place(time_us, actual_us)))
    for key, label, name, unit, metric in _FIGURES:
        figure = _range(estimate, name, unit)
        row = figure_cell(key, label, metric, figure, "It was unknown.", estimate.currency)
        value = getattr(estimate, f"actual_{name}_{unit}", None)
        rows.append(
            ActualRow(
                row,
                None if value is None else _shown(value, metric, figure),
                _place(figure, value),
            )
        )
    return SavedEstimate(estimate, outcome_of(estimate, now), rows)


def _shown(value: int, metric: str, figure: Range | None) -> Projected:
    return estimated(value, metric, unit_for(metric, [figure.likely if figure else value]))


def _range(estimate: Estimate, name: str, unit: str) -> Range | None:
    low, likely, high = (
        getattr(estimate, f"{name}_{end}_{unit}") for end in ("low", "likely", "high")
    )
    return None if likely is None else Range(low, likely, high)


def _place(figure: Range | None, actual: int | None) -> str:
    if figure is None or actual is None:
        return ""
    return "below" if actual < figure.low else "above" if actual > figure.high else "inside"
