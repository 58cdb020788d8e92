"""Choices of budgets."""

from django.db.models import TextChoices


class BudgetMetric(TextChoices):
    """Metrics of figures that a budget can limit."""

    ENERGY = "energy_mj", "Energy"
    EMISSION = "emission_ug", "Emissions"
    COST = "cost_ucurrency", "Cost"


class PeriodKind(TextChoices):
    """Calendar units of the lab's time zone."""

    MONTH = "month", "Month"
    QUARTER = "quarter", "Quarter"
    YEAR = "year", "Year"


class BudgetState(TextChoices):
    OVER = "over", "over"
    NEAR = "near", "near"
    WITHIN = "within", "within"
    UNKNOWN = "unknown", "unknown"


class NoForecast(TextChoices):
    """Reasons why a period has no forecast."""

    EARLY = "early"
    UNKNOWN = "unknown"


class NoRange(TextChoices):
    """Reasons why a forecast has no range."""

    FEW_PERIODS = "few_periods"
    NO_USE = "no_use"


class ForecastScore(TextChoices):
    """Whether the actual use was within the range of a stored forecast, or why that is not known.
    ``RUNNING``: its period is not over. ``UNKNOWN``: the actual use is not known.
    """

    RUNNING = "running", "running"
    UNKNOWN = "unknown", "actual unknown"
    NO_RANGE = "no_range", "no range"
    INSIDE = "inside", "inside"
    OUTSIDE = "outside", "outside"


class BudgetAct(TextChoices):
    """Audit actions on budgets."""

    ADDED = "budget.added", "Budget added"
    CHANGED = "budget.changed", "Budget changed"
    ENDED = "budget.ended", "Budget ended"
