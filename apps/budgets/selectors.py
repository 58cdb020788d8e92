"""Reads of budgets."""

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.budgets.models import Budget


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
