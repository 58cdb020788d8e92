"""Planned runs of a budget: open estimates, which are a part of its forecast."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.budgets.choices import BudgetMetric
from apps.budgets.models import Budget
from apps.planner.models import Estimate
from apps.planner.outcomes.open_estimates import open_estimates

_FIELDS = {
    BudgetMetric.ENERGY: ("node_energy", "mj"),
    BudgetMetric.EMISSION: ("emission", "ug"),
    BudgetMetric.COST: ("cost", "ucurrency"),
}


@dataclass(frozen=True)
class PlannedRuns:
    """The sum of open estimates in the metric of a budget. ``number``: of those in the sum.
    ``unknown``: of those without this figure, or in another currency.
    """

    number: int = 0
    unknown: int = 0
    low: int = 0
    likely: int = 0
    high: int = 0


def read_planned_runs(lab: Lab, now: int) -> list[Estimate]:
    """Return the open estimates of a lab. One query."""
    return list(open_estimates(lab, now))


def planned_runs(budget: Budget, estimates: Iterable[Estimate]) -> PlannedRuns:
    """Return the planned runs of a budget: of its project, or of the lab."""
    number, unknown, low, likely, high = 0, 0, 0, 0, 0
    for each in estimates:
        if budget.project_id is not None and each.project_id != budget.project_id:
            continue
        figure = _figure(budget, each)
        if figure is None:
            unknown += 1
            continue
        number += 1
        low, likely, high = low + figure[0], likely + figure[1], high + figure[2]
    return PlannedRuns(number, unknown, low, likely, high)


def _figure(budget: Budget, estimate: Estimate) -> tuple[int, int, int] | None:
    if budget.metric == BudgetMetric.COST:
        currency = budget.currency or budget.lab.currency
        if estimate.currency != currency:
            return None
    name, unit = _FIELDS[BudgetMetric(budget.metric)]
    low, likely, high = (
        getattr(estimate, f"{name}_{end}_{unit}") for end in ("low", "likely", "high")
    )
    return None if likely is None else (low, likely, high)
