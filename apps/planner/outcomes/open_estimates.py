"""Estimates of runs that have not started."""

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.planner.models import Estimate


def open_estimates(lab: Lab, now: int) -> QuerySet[Estimate]:
    """Return the estimates of a lab that have no run yet and have not expired."""
    return Estimate.objects.filter(
        lab=lab, run__isnull=True, attached_us__isnull=True, expires_us__gt=now
    )
