"""Budgets of a lab and its projects."""

from datetime import date

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.budgets.choices import BudgetMetric, ForecastScore, PeriodKind
from apps.core.intervals import next_unit


class Budget(models.Model):
    """A limit of energy, emissions or cost of each month, quarter or year.

    - ``project`` null: of the whole lab.
    - ``currency``: of a cost, '' for other metrics.
    - ``ended_us``: null while it is in use.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="budgets")
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets"
    )
    metric = models.CharField(max_length=16, choices=BudgetMetric)
    period = models.CharField(max_length=8, choices=PeriodKind)
    currency = models.CharField(max_length=3, blank=True, default="")
    created_us = models.BigIntegerField()
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    ended_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "project", "metric", "period"],
                condition=Q(ended_us__isnull=True, project__isnull=False),
                name="one_budget_per_project",
            ),
            models.UniqueConstraint(
                fields=["lab", "metric", "period"],
                condition=Q(ended_us__isnull=True, project__isnull=True),
                name="one_budget_per_lab",
            ),
            models.CheckConstraint(
                condition=(Q(metric=BudgetMetric.COST) & ~Q(currency=""))
                | (~Q(metric=BudgetMetric.COST) & Q(currency="")),
                name="budget_of_cost_has_currency",
            ),
        ]

    def __str__(self) -> str:
        name = self.project.slug if self.project else "lab"
        return f"{name}: {self.get_metric_display()} per {self.get_period_display().lower()}"

    @property
    def first_day(self) -> date:
        """Return the first day of the first period."""
        return min(each.first_day for each in self.amounts.all())

    def amount_on(self, first_day: date) -> int:
        """Return the amount of the period that starts on ``first_day``, in the unit of the metric.
        A period before the first one has its amount.
        """
        amounts = sorted((each.first_day, each.amount) for each in self.amounts.all())
        past = [amount for start, amount in amounts if start <= first_day]
        return past[-1] if past else amounts[0][1]


class BudgetAmount(models.Model):
    """The amount of a budget (mJ, µg or millionths of its currency) from the period that starts on
    ``first_day``, until its next amount.
    """

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="amounts")
    first_day = models.DateField()
    amount = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["budget", "first_day"], name="budget_amount_once"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="budget_amount_not_zero"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} from {self.first_day}"


class BudgetForecast(models.Model):
    """The forecast of a period as it was after ``day``, its last complete day.

    - ``first_day``: of the period. ``used``: of its days until ``day``.
    - ``total``, ``low``, ``high``: forecast and range, see :class:`apps.budgets.formulas.Forecast`.
    - ``basis``: of emissions, '' for other metrics.
    - ``actual``: use of the whole period, null until it is known. ``is_inside``: whether it is
      within the range.
    """

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="forecasts")
    first_day = models.DateField()
    day = models.DateField()
    created_us = models.BigIntegerField()
    basis = models.CharField(max_length=16, blank=True, default="")
    used = models.BigIntegerField()
    total = models.BigIntegerField()
    low = models.BigIntegerField(null=True, blank=True)
    high = models.BigIntegerField(null=True, blank=True)
    actual = models.BigIntegerField(null=True, blank=True)
    is_inside = models.BooleanField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "first_day", "day"], name="budget_forecast_once"
            ),
            models.CheckConstraint(
                condition=Q(low__isnull=True, high__isnull=True)
                | Q(low__isnull=False, high__isnull=False, low__lte=F("high")),
                name="budget_forecast_range_is_whole",
            ),
            models.CheckConstraint(
                condition=Q(is_inside__isnull=True, actual__isnull=True)
                | Q(is_inside__isnull=True, low__isnull=True)
                | Q(is_inside__isnull=False, actual__isnull=False, low__isnull=False),
                name="budget_forecast_score_of_range",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.total} after {self.day}"

    def score_on(self, today: date) -> ForecastScore:
        """Return the score as known on ``today``, a day of the lab."""
        if next_unit(self.budget.period, self.first_day) > today:
            return ForecastScore.RUNNING
        if self.actual is None:
            return ForecastScore.UNKNOWN
        if self.is_inside is None:
            return ForecastScore.NO_RANGE
        return ForecastScore.INSIDE if self.is_inside else ForecastScore.OUTSIDE
