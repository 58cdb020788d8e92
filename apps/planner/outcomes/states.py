"""The outcome of an estimate: open, attached, scored, or why it is not scored."""

from dataclasses import dataclass

from django.db.models import TextChoices

from apps.core.units import US_PER_HOUR
from apps.planner.models import Estimate
from apps.planner.past_runs import EXCLUDED_INTENTS
from apps.runs.choices import RunState

# Windows are uploaded late. An outcome is scored after the first hour, and again for eight days.
FIRST_SCORE_US, SCORES_CHANGE_US = US_PER_HOUR, 8 * 24 * US_PER_HOUR


class OutcomeState(TextChoices):
    """The state of an estimate."""

    OPEN = "open", "Open"
    EXPIRED = "expired", "Expired"
    RUNNING = "running", "Running"
    WAITING = "waiting", "Waiting for energy"
    SCORED = "scored", "Scored"
    NOT_SCORED = "not_scored", "Not scored"


class NotScored(TextChoices):
    """Why an attached estimate is not scored."""

    FAILED = "failed", "The run failed."
    KILLED = "killed", "The run was killed."
    LOST = "lost", "The run is lost."
    DEBUG = "debug", "The run is a debug run."
    SERVICE = "service", "The run is a service."
    PROBE = "probe", "The run is a probe."
    NO_END = "no_end", "The end of the run is unknown."
    DELETED = "deleted", "The run was deleted."


@dataclass(frozen=True)
class Outcome:
    """The state of an estimate. ``reason``: of NOT_SCORED."""

    state: OutcomeState
    reason: NotScored | None = None


def outcome_of(estimate: Estimate, now: int) -> Outcome:
    """Return the outcome of an estimate that was read with its run."""
    run = estimate.run
    if run is None:
        if estimate.attached_us is None:
            is_open = now < estimate.expires_us
            return Outcome(OutcomeState.OPEN if is_open else OutcomeState.EXPIRED)
        if estimate.scored_us is None:
            return Outcome(OutcomeState.NOT_SCORED, NotScored.DELETED)
        return Outcome(OutcomeState.SCORED)
    if run.intent in EXCLUDED_INTENTS:
        return Outcome(OutcomeState.NOT_SCORED, NotScored(run.intent))
    if run.state == RunState.RUNNING:
        return Outcome(OutcomeState.RUNNING)
    if run.state != RunState.FINISHED:
        return Outcome(OutcomeState.NOT_SCORED, NotScored(run.state))
    if run.ended_us is None:
        return Outcome(OutcomeState.NOT_SCORED, NotScored.NO_END)
    may_change = now < run.ended_us + SCORES_CHANGE_US
    is_unmeasured = estimate.actual_node_energy_mj is None
    if estimate.scored_us is None or (is_unmeasured and may_change):
        return Outcome(OutcomeState.WAITING)
    return Outcome(OutcomeState.SCORED)
