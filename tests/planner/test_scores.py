"""Outcomes of estimates: what a run took, and why some are not scored."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core.jobs import enqueue_periodic_jobs, run_until_idle
from apps.core.models import Job
from apps.core.units import US_PER_HOUR
from apps.planner.job_input import JobInput
from apps.planner.models import Estimate
from apps.planner.outcomes.scores import score_estimates
from apps.planner.outcomes.states import (
    FIRST_SCORE_US,
    SCORES_CHANGE_US,
    NotScored,
    Outcome,
    OutcomeState,
    outcome_of,
)
from apps.planner.services import OPEN_US, create_estimate
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab, small_lab
from tests.planner.support import finished
from tests.preflight.support import spend, stored

END = T0 + MINUTE
pytestmark = pytest.mark.django_db


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


def attach(small: SmallLab, run: Run | None) -> Estimate:
    estimate, _ = create_estimate(lab=small.lab, job=JobInput(), person=None, now=T0 - US_PER_HOUR)
    if run is not None:
        Estimate.objects.filter(pk=estimate.pk).update(run=run, attached_us=T0)
    return read(estimate)


def read(estimate: Estimate) -> Estimate:
    return Estimate.objects.select_related("run").get(pk=estimate.pk)


def figures(estimate: Estimate) -> tuple[int | None, ...]:
    row = read(estimate)
    return row.actual_time_us, row.actual_gpu_energy_mj, row.actual_node_energy_mj


def state(estimate: Estimate, now: int) -> OutcomeState:
    return outcome_of(read(estimate), now).state


def test_time_and_energy_of_a_finished_run(small: SmallLab) -> None:
    estimate = attach(small, finished(small, minute=0, gpu_mj=500, cpu_mj=70))
    score_estimates(now=END + FIRST_SCORE_US - 1)
    assert read(estimate).scored_us is None, "windows may be on their way"
    assert state(estimate, END) == OutcomeState.WAITING
    score_estimates(now=END + FIRST_SCORE_US)
    assert figures(estimate) == (MINUTE, 500, 570)
    assert state(estimate, END + FIRST_SCORE_US) == OutcomeState.SCORED


def test_unmeasured_energy_is_unknown_and_no_zero(small: SmallLab) -> None:
    without, by_cpu = finished(small, minute=0), finished(small, minute=5, cpu_mj=70)
    estimate, other = attach(small, without), attach(small, by_cpu)
    now = END + 5 * MINUTE + FIRST_SCORE_US
    score_estimates(now=now)
    assert figures(estimate) == (MINUTE, None, None)
    assert figures(other) == (MINUTE, None, 70)
    assert state(estimate, now) == OutcomeState.WAITING
    assert state(other, now) == OutcomeState.SCORED
    assert state(estimate, END + SCORES_CHANGE_US) == OutcomeState.SCORED


def test_late_windows_change_a_score_for_eight_days(small: SmallLab) -> None:
    run = stored(small)
    estimate = attach(small, run)
    first = END + FIRST_SCORE_US
    score_estimates(now=first)
    spend(small, run, 400)
    score_estimates(now=END + SCORES_CHANGE_US - 1)
    assert figures(estimate) == (MINUTE, 400, 400)
    assert read(estimate).scored_us == END + SCORES_CHANGE_US - 1
    score_estimates(now=END + SCORES_CHANGE_US - 1 + MINUTE)
    spend(small, run, 50, minute=1)
    score_estimates(now=END + SCORES_CHANGE_US)
    assert figures(estimate) == (MINUTE, 400, 400), "never after"


def test_an_unchanged_score_is_not_written(small: SmallLab) -> None:
    estimate = attach(small, finished(small, minute=0, gpu_mj=500))
    for now in (END + FIRST_SCORE_US, END + 2 * FIRST_SCORE_US):
        score_estimates(now=now)
    assert read(estimate).scored_us == END + FIRST_SCORE_US


def test_a_run_that_was_reported_late_is_scored_once(small: SmallLab) -> None:
    estimate = attach(small, finished(small, minute=0, gpu_mj=500))
    score_estimates(now=END + 3 * SCORES_CHANGE_US)
    assert figures(estimate) == (MINUTE, 500, 500)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"state": RunState.RUNNING}, Outcome(OutcomeState.RUNNING)),
        ({"state": RunState.FAILED}, NotScored.FAILED),
        ({"state": RunState.KILLED}, NotScored.KILLED),
        ({"state": RunState.LOST, "ended_us": None}, NotScored.LOST),
        ({"ended_us": None}, NotScored.NO_END),
        ({"intent": Intent.DEBUG}, NotScored.DEBUG),
        ({"intent": Intent.SERVICE}, NotScored.SERVICE),
        ({"intent": Intent.PROBE}, NotScored.PROBE),
        ({"intent": Intent.PROBE, "state": RunState.RUNNING}, NotScored.PROBE),
    ],
    ids=str,
)
def test_other_runs_are_not_scored(
    small: SmallLab, facts: dict[str, Any], outcome: Outcome | NotScored
) -> None:
    run = stored(small, **facts)
    spend(small, run, 400)
    estimate = attach(small, run)
    now = END + 2 * FIRST_SCORE_US
    score_estimates(now=now)
    assert read(estimate).scored_us is None
    assert figures(estimate) == (None, None, None)
    if isinstance(outcome, NotScored):
        outcome = Outcome(OutcomeState.NOT_SCORED, outcome)
    assert outcome_of(read(estimate), now) == outcome


def test_open_and_expired_estimates(small: SmallLab) -> None:
    estimate = attach(small, None)
    expires_us = T0 - US_PER_HOUR + OPEN_US
    assert outcome_of(estimate, expires_us - 1) == Outcome(OutcomeState.OPEN)
    assert outcome_of(estimate, expires_us) == Outcome(OutcomeState.EXPIRED)


def test_a_score_is_withdrawn_with_the_end_of_its_run(small: SmallLab) -> None:
    """A requeued job of a scheduler runs again."""
    run = finished(small, minute=0, gpu_mj=500)
    estimate = attach(small, run)
    score_estimates(now=END + FIRST_SCORE_US)
    Run.objects.filter(pk=run.pk).update(state=RunState.RUNNING, ended_us=None)
    score_estimates(now=END + 2 * FIRST_SCORE_US)
    assert figures(estimate) == (None, None, None)
    assert state(estimate, END + 2 * FIRST_SCORE_US) == OutcomeState.RUNNING


def test_a_deleted_run_leaves_its_score(small: SmallLab) -> None:
    scored = attach(small, finished(small, minute=0, gpu_mj=500))
    score_estimates(now=END + FIRST_SCORE_US)
    unscored = attach(small, stored(small))
    Run.objects.all().delete()
    score_estimates(now=END + 2 * FIRST_SCORE_US)
    assert figures(scored) == (MINUTE, 500, 500)
    assert state(scored, END) == OutcomeState.SCORED
    assert outcome_of(read(unscored), END) == Outcome(OutcomeState.NOT_SCORED, NotScored.DELETED)


def test_runs_of_two_labs_with_the_same_uuid(small: SmallLab) -> None:
    other = small_lab(name="Elsewhere")
    run, same = finished(small, minute=0, gpu_mj=500), stored(other)
    Run.objects.filter(pk=same.pk).update(uuid=run.uuid)
    ours, theirs = attach(small, run), attach(other, same)
    score_estimates(now=END + FIRST_SCORE_US)
    assert figures(ours) == (MINUTE, 500, 500)
    assert figures(theirs) == (MINUTE, None, None)


def test_the_number_of_queries_does_not_grow_with_the_runs(small: SmallLab) -> None:
    def count(now: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            score_estimates(now=now)
        return len(captured)

    attach(small, finished(small, minute=0, gpu_mj=500))
    few = count(END + FIRST_SCORE_US)
    for minute in range(2, 12):
        attach(small, finished(small, minute=minute, gpu_mj=500))
    assert count(END + FIRST_SCORE_US + 20 * MINUTE) == few
    assert Estimate.objects.filter(scored_us__isnull=False).count() == 11


def test_the_job_scores_every_hour(small: SmallLab) -> None:
    estimate = attach(small, finished(small, minute=0, gpu_mj=500))
    enqueue_periodic_jobs()
    run_until_idle(worker="w")
    assert figures(estimate) == (MINUTE, 500, 500)
    assert Job.objects.filter(kind="planner.score", due_us__gt=0).count() == 1
