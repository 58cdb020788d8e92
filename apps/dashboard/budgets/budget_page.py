"""Contents of the page of one budget: burn-down, days, stored forecasts and earlier periods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from apps.budgets.models import Budget
from apps.budgets.periods import day_at
from apps.budgets.progress import PastPeriod, Progress, past_periods, progress_of
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import FigureQuery, iso_hour
from apps.core.errors import NotFound
from apps.core.intervals import midnight_hour
from apps.core.units import hour_of
from apps.dashboard.budgets.budgets_page import (
    BudgetRow,
    StateBadge,
    budget_name,
    budget_row,
    period_label,
)
from apps.dashboard.budgets.burn_down import burn_down
from apps.dashboard.budgets.stored_forecasts import StoredForecasts, stored_forecasts
from apps.dashboard.charts import Chart
from apps.dashboard.figures import Projected, Quantity, estimated, quantity
from apps.dashboard.formatting import percent, stored_unit, unit_for
from apps.dashboard.periods import day_text

DAY_HEADER = ("day", "from_utc", "to_utc", "used", "used_so_far", "remaining", "unit")


@dataclass(frozen=True)
class DayRow:
    """A day of the running period. ``used`` None: no entry. ``is_running``: it is not over."""

    label: str
    used: Quantity | None
    used_so_far: Projected
    remaining: Projected
    is_running: bool


@dataclass(frozen=True)
class PastRow:
    """A period that is over. ``used`` None: no entry."""

    label: str
    used: Quantity | None
    amount: Projected
    share: str
    badge: StateBadge


@dataclass(frozen=True)
class BudgetPage:
    """One budget. ``row`` None: it has ended. ``amount``: of the running or last period."""

    budget: Budget
    name: str
    amount: int
    row: BudgetRow | None
    chart: Chart | None
    days: Sequence[DayRow]
    past: Sequence[PastRow]
    forecasts: StoredForecasts


def budget_page(budget: Budget, now: int) -> BudgetPage:
    """Return the page of a budget."""
    past = [_past_row(budget, each) for each in past_periods(budget, now)]
    name = budget_name(budget)
    forecasts = stored_forecasts(budget, now)
    if budget.ended_us is not None:
        last_day = day_at(budget.ended_us, ZoneInfo(budget.lab.time_zone))
        amount = budget.amount_on(last_day)
        return BudgetPage(budget, name, amount, None, None, [], past, forecasts)
    [progress] = progress_of(budget.lab, [budget], now)
    row = budget_row(progress)
    chart = burn_down(progress, row.unit, now) if row.share else None
    days = [_day_row(each, row) for each in days_of(progress, now)]
    return BudgetPage(budget, name, progress.amount, row, chart, days, past, forecasts)


@dataclass(frozen=True)
class Day:
    """A day until now: hours, use, and the sum of the period."""

    day: date
    query: FigureQuery
    figure: Figure
    used_so_far: int
    remaining: int
    is_running: bool


def days_of(progress: Progress, now: int) -> list[Day]:
    """Return the days of the running period until now. Their uses sum to its use."""
    period, metric = progress.period, progress.budget.metric
    found: list[Day] = []
    used = 0
    for place, figure in enumerate(progress.days):
        day = period.first_day + timedelta(days=place)
        end_hour = midnight_hour(day + timedelta(days=1), period.zone)
        used += figure.value(metric)
        found.append(
            Day(
                day,
                progress.query.replace(
                    from_hour=midnight_hour(day, period.zone),
                    to_hour=min(end_hour, hour_of(now) + 1),
                ),
                figure,
                used,
                progress.amount - used,
                end_hour > hour_of(now),
            )
        )
    return found


def _day_row(day: Day, row: BudgetRow) -> DayRow:
    budget = row.budget
    return DayRow(
        f"{day.day:%a} {day_text(day.day)}",
        quantity(day.query, day.figure, row.unit) if day.figure.entries else None,
        estimated(day.used_so_far, budget.metric, row.unit, currency=budget.currency),
        estimated(day.remaining, budget.metric, row.unit, currency=budget.currency),
        day.is_running,
    )


def _past_row(budget: Budget, past: PastPeriod) -> PastRow:
    unit = unit_for(budget.metric, [past.amount], currency=budget.currency)
    used = quantity(past.query, past.used, unit) if past.used.entries else None
    return PastRow(
        period_label(past.period),
        used,
        estimated(past.amount, budget.metric, unit, currency=budget.currency),
        percent(used.value, past.amount) if used and not used.missing else "",
        StateBadge(past.state, str(past.state.label)),
    )


def day_rows(budget: Budget, now: int) -> Iterator[tuple[object, ...]]:
    """Yield the days of the running period in mJ, µg CO2e or millionths of the currency. Raises
    NotFound for a budget that has ended.
    """
    if budget.ended_us is not None:
        raise NotFound("This budget has ended: it has no running period.")
    [progress] = progress_of(budget.lab, [budget], now)
    unit = stored_unit(budget.metric, budget.currency)
    return (
        (
            each.day.isoformat(),
            iso_hour(each.query.from_hour),
            iso_hour(each.query.to_hour),
            each.figure.value(budget.metric) if each.figure.entries else None,
            each.used_so_far,
            each.remaining,
            unit,
        )
        for each in days_of(progress, now)
    )
