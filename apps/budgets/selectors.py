"""Reads of budgets."""

from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from apps.accounts.models import Lab
from apps.budgets import formulas
from apps.budgets.models import Budget, BudgetForecast


@dataclass(frozen=True)
class HitRate:
    """How many ranges of forecasts contained the actual use, of those that are scored."""

    inside: int
    scored: int

    @property
    def ppm(self) -> int | None:
        """Return the hit rate in parts per million, None without any."""
        return formulas.hit_rate_ppm(self.inside, self.scored)


def budgets_of(lab: Lab) -> QuerySet[Budget]:
    """Return all budgets of a lab, those of the whole lab first. Two queries."""
    return (
        Budget.objects.filter(lab=lab)
        .select_related("lab", "project", "created_by")
        .prefetch_related("amounts")
        .order_by("project__name", "metric", "period", "pk")
    )


def active_budgets(lab: Lab) -> QuerySet[Budget]:
    """Return the budgets that have not ended."""
    return budgets_of(lab).filter(ended_us=None)


def hit_rate(budget: Budget) -> HitRate:
    """Return the hit rate of a budget's forecasts. One query."""
    scored = budget.forecasts.filter(is_inside__isnull=False)
    return HitRate(
        **scored.aggregate(inside=Count("pk", filter=Q(is_inside=True)), scored=Count("pk"))
    )


def forecasts_of(budget: Budget) -> QuerySet[BudgetForecast]:
    """Return the stored forecasts of a budget, latest first."""
    return budget.forecasts.order_by("-first_day", "-day")
