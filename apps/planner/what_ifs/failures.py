"""Reads of interrupted runs: how often a kind of node fails."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count, F, Sum
from django.db.models.functions import Coalesce

from apps.accounts.models import Lab
from apps.core.units import US_PER_HOUR
from apps.planner.formulas.checkpoint_interval import mean_between_failures_us
from apps.runs.choices import Failure, RunState
from apps.runs.models import Run

PAST_US = 365 * 24 * US_PER_HOUR
# A checkpoint helps after these. An error of the code or of memory occurs again.
_INTERRUPTIONS = (Failure.NODE, Failure.PREEMPTED)


@dataclass(frozen=True)
class PastFailures:
    """Runs of the last year on a kind of node, and those of them that were interrupted."""

    runs: int
    failures: int
    run_us: int

    @property
    def between_us(self) -> int | None:
        """Return the mean time between failures, None without a failure."""
        return mean_between_failures_us(self.run_us, self.failures)


def past_failures(lab: Lab, node_ids: Collection[int], now: int) -> PastFailures:
    """Return the runs that ended on some nodes. One query."""
    if not node_ids:
        return PastFailures(0, 0, 0)
    ended = Run.objects.filter(
        lab=lab, node__in=list(node_ids), started_us__gte=now - PAST_US
    ).exclude(state=RunState.RUNNING)
    rows = (
        ended.order_by()
        .values("state", "failure")
        .annotate(
            runs=Count("pk"),
            run_us=Sum(Coalesce("ended_us", "last_report_us", "started_us") - F("started_us")),
        )
    )
    runs = failures = run_us = 0
    for row in rows:
        runs += row["runs"]
        run_us += max(0, int(row["run_us"]))
        if row["state"] == RunState.LOST or row["failure"] in _INTERRUPTIONS:
            failures += row["runs"]
    return PastFailures(runs, failures, run_us)
