"""Stored forecasts of a budget with their scores: a table of its page, and CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from apps.budgets import formulas
from apps.budgets.choices import ForecastScore
from apps.budgets.models import Budget, BudgetForecast
from apps.budgets.periods import day_at
from apps.budgets.selectors import HitRate, forecasts_of, hit_rate
from apps.core.units import PPM
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import Unit, percent, stored_unit, unit_for
from apps.dashboard.periods import day_text

MAX_FORECASTS = 100
FORECAST_HEADER = (
    "period_first_day", "day", "basis", "used", "forecast", "forecast_p10", "forecast_p90",
    "actual", "error_ppm", "score", "unit",
)  # fmt: skip
_CSS = {
    ForecastScore.RUNNING: "stock",
    ForecastScore.UNKNOWN: "lost",
    ForecastScore.NO_RANGE: "lost",
    ForecastScore.INSIDE: "running",
    ForecastScore.OUTSIDE: "failed",
}


@dataclass(frozen=True)
class ForecastRow:
    """A stored forecast. ``low``, ``high`` None: without a range. ``actual`` None: not known.
    ``error``: in percent with its sign, '' if it is not known.
    """

    label: str
    total: Projected
    low: Projected | None
    high: Projected | None
    actual: Projected | None
    error: str
    score: ForecastScore

    @property
    def css(self) -> str:
        """Return the class of the mark before the score."""
        return _CSS[self.score]


@dataclass(frozen=True)
class StoredForecasts:
    """The latest forecasts in one unit, and the hit rate of all. ``has_more``: older ones are in
    the CSV only.
    """

    rows: Sequence[ForecastRow]
    has_more: bool
    unit: Unit
    hit_rate: HitRate
    first_day: int = formulas.FIRST_DAY


def stored_forecasts(budget: Budget, now: int) -> StoredForecasts:
    """Return the stored forecasts of a budget, latest first. Two queries."""
    stored = list(forecasts_of(budget)[: MAX_FORECASTS + 1])
    listed = stored[:MAX_FORECASTS]
    today = _today(budget, now)
    highest = [budget.amount_on(today), *(each.total for each in listed)]
    unit = unit_for(budget.metric, highest, column=True, currency=budget.currency)
    return StoredForecasts(
        [_row(each, budget, unit, today) for each in listed],
        len(stored) > len(listed),
        unit,
        hit_rate(budget),
    )


def _row(forecast: BudgetForecast, budget: Budget, unit: Unit, today: date) -> ForecastRow:
    def amount(value: int | None) -> Projected | None:
        if value is None:
            return None
        return estimated(value, budget.metric, unit, currency=budget.currency)

    return ForecastRow(
        day_text(forecast.day, year=True),
        estimated(forecast.total, budget.metric, unit, currency=budget.currency),
        amount(forecast.low),
        amount(forecast.high),
        amount(forecast.actual),
        _error_text(_error_ppm(forecast)),
        forecast.score_on(today),
    )


def _error_ppm(forecast: BudgetForecast) -> int | None:
    if forecast.actual is None:
        return None
    return formulas.error_ppm(forecast.total, forecast.actual)


def _error_text(error_ppm: int | None) -> str:
    if error_ppm is None:
        return ""
    return f"{'+' if error_ppm > 0 else ''}{percent(error_ppm, PPM)}"


def _today(budget: Budget, now: int) -> date:
    return day_at(now, ZoneInfo(budget.lab.time_zone))


def forecast_rows(budget: Budget, now: int) -> Iterator[tuple[object, ...]]:
    """Yield all stored forecasts, latest first, in mJ, µg CO2e or millionths of the currency."""
    unit, today = stored_unit(budget.metric, budget.currency), _today(budget, now)
    for each in forecasts_of(budget):
        yield (
            each.first_day.isoformat(),
            each.day.isoformat(),
            each.basis,
            each.used,
            each.total,
            each.low,
            each.high,
            each.actual,
            _error_ppm(each),
            each.score_on(today).value,
            unit,
        )
