"""Contents of the list of budgets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.budgets import formulas
from apps.budgets.choices import BudgetState
from apps.budgets.models import Budget
from apps.budgets.periods import BudgetPeriod
from apps.budgets.progress import Progress, progress_of, subject_of
from apps.budgets.selectors import active_budgets, budgets_of
from apps.carbon.figures.figure_query import iso_hour
from apps.dashboard.figures import Projected, Quantity, estimated, quantity
from apps.dashboard.formatting import Unit, percent, unit_for
from apps.dashboard.periods import Period, day_text

CSV_HEADER = (
    "project", "metric", "currency", "period", "from_utc", "to_utc", "amount", "used",
    "without_value_mj", "state", "forecast", "forecast_p10", "forecast_p90", "past_periods",
    "open_estimates", "open_estimates_amount", "open_estimates_unknown",
)  # fmt: skip
_SHOWN_PPM = 5_000  # unknown device time below it is not mentioned
_CSS = {
    BudgetState.OVER: "failed",
    BudgetState.NEAR: "silent",
    BudgetState.WITHIN: "running",
    BudgetState.UNKNOWN: "lost",
}


@dataclass(frozen=True)
class StateBadge:
    """A state in words. ``css``: class of the mark before it."""

    state: BudgetState
    label: str

    @property
    def css(self) -> str:
        return _CSS[self.state]


@dataclass(frozen=True)
class BudgetRow:
    """A budget in its running period as displayed. ``unit``: of all its amounts."""

    progress: Progress
    unit: Unit

    @property
    def budget(self) -> Budget:
        return self.progress.budget

    @property
    def name(self) -> str:
        return budget_name(self.budget)

    @property
    def href(self) -> str:
        return reverse("budget", args=[self.budget.pk])

    @property
    def period_label(self) -> str:
        return period_label(self.progress.period)

    @property
    def used(self) -> Quantity | None:
        """Return the use, None without any entry."""
        progress = self.progress
        return quantity(progress.query, progress.used, self.unit) if progress.used.entries else None

    @property
    def amount(self) -> Projected:
        return self._estimated(self.progress.amount, at_least=False)

    @property
    def share(self) -> str:
        """Return the used part of the budget in percent, '' if the use has no value."""
        used = self.used
        if used is None or used.missing:
            return ""
        return percent(used.value, self.progress.amount)

    @property
    def badge(self) -> StateBadge:
        progress = self.progress
        label = str(progress.state.label)
        used = progress.used.value(self.budget.metric)
        if progress.state == BudgetState.NEAR and not formulas.is_near(used, progress.amount, None):
            label = "forecast over"
        return StateBadge(progress.state, label)

    @property
    def remaining(self) -> Projected:
        """Return the rest of the budget, or the amount above it."""
        used = self.progress.used.value(self.budget.metric)
        return self._estimated(abs(self.progress.amount - used), at_least=False)

    @property
    def forecast(self) -> Projected | None:
        forecast = self.progress.forecast
        return self._estimated(forecast.total) if forecast else None

    @property
    def low(self) -> Projected | None:
        forecast = self.progress.forecast
        return self._estimated(forecast.low) if forecast and forecast.low is not None else None

    @property
    def high(self) -> Projected | None:
        forecast = self.progress.forecast
        return self._estimated(forecast.high) if forecast and forecast.high is not None else None

    @property
    def planned(self) -> Projected | None:
        """Return the likely use of planned runs, None without any."""
        planned = self.progress.planned
        return self._estimated(planned.likely) if planned.number else None

    @property
    def forecast_day(self) -> str:
        return day_text(self.progress.forecast_day)

    @property
    def past_periods(self) -> int:
        return len(self.progress.ratios.values_ppm)

    @property
    def least_periods(self) -> int:
        return formulas.LEAST_PERIODS

    @property
    def unknown_time(self) -> str:
        """Return the share of device time without data in percent, '' for a negligible one."""
        times = self.progress.times
        if times.unknown_us * 1_000_000 <= times.expected_us * _SHOWN_PPM:
            return ""
        return percent(times.unknown_us, times.expected_us)

    def _estimated(self, value: int, *, at_least: bool | None = None) -> Projected:
        """Return an amount. ``at_least``: default as the use."""
        if at_least is None:
            at_least = self.used is not None and self.used.at_least
        metric, currency = self.budget.metric, self.budget.currency
        return estimated(value, metric, self.unit, currency=currency, at_least=at_least)


@dataclass(frozen=True)
class EndedRow:
    """A budget that has ended."""

    budget: Budget
    name: str
    amount: Projected


@dataclass(frozen=True)
class BudgetsPage:
    """The list: budgets in use, and those that have ended."""

    rows: Sequence[BudgetRow]
    ended: Sequence[EndedRow]


def budgets_page(lab: Lab, now: int) -> BudgetsPage:
    """Return the list. The number of queries does not depend on that of budgets."""
    budgets = list(budgets_of(lab))
    active = [each for each in budgets if each.ended_us is None]
    return BudgetsPage(
        [budget_row(each) for each in progress_of(lab, active, now)] if active else [],
        [
            EndedRow(each, budget_name(each), _last_amount(each))
            for each in budgets
            if each.ended_us is not None
        ],
    )


def status_rows(lab: Lab, project: Project | None, now: int) -> list[BudgetRow]:
    """Return the budgets in use of a project, None: of the whole lab. One query without any."""
    budgets = list(active_budgets(lab).filter(project=project))
    return [budget_row(each) for each in progress_of(lab, budgets, now)] if budgets else []


def budget_row(progress: Progress) -> BudgetRow:
    """Return a budget as displayed, in the unit that suits its amount."""
    budget = progress.budget
    return BudgetRow(progress, unit_for(budget.metric, [progress.amount], currency=budget.currency))


def budget_name(budget: Budget) -> str:
    """Return the name of the project, or that it is the lab."""
    return budget.project.name if budget.project else "Whole lab"


def period_label(period: BudgetPeriod) -> str:
    """Return 'November 2026', 'Q4 2026' or '2026'."""
    return Period(period.from_hour, period.to_hour, period.zone).label_of_days


def _last_amount(budget: Budget) -> Projected:
    amount = budget.amount_on(date.max)
    return estimated(amount, budget.metric, currency=budget.currency)


def csv_rows(lab: Lab, now: int) -> Iterator[tuple[object, ...]]:
    """Yield the budgets in use. Amounts are in mJ, µg CO2e or millionths of the currency."""
    budgets = list(active_budgets(lab))
    for each in progress_of(lab, budgets, now) if budgets else []:
        budget, forecast = each.budget, each.forecast
        yield (
            subject_of(budget),
            budget.metric,
            budget.currency,
            budget.period,
            iso_hour(each.period.from_hour),
            iso_hour(each.period.to_hour),
            each.amount,
            each.used.value(budget.metric) if each.has_value else None,
            each.without_value_mj,
            each.state.value,
            forecast.total if forecast else None,
            forecast.low if forecast else None,
            forecast.high if forecast else None,
            len(each.ratios.values_ppm),
            each.planned.number,
            each.planned.likely if each.planned.number else None,
            each.planned.unknown,
        )
