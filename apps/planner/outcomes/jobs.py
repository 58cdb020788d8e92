"""Jobs of outcomes."""

from apps.core.clock import now_us
from apps.core.jobs import periodic_job
from apps.core.units import US_PER_HOUR
from apps.planner.outcomes.scores import score_estimates


@periodic_job("planner.score")
def score_job() -> int:
    """Score the estimates of finished runs, every hour."""
    score_estimates(now=now_us())
    return now_us() + US_PER_HOUR
