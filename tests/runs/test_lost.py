"""Runs of which nothing is heard: given up when their node goes on without them, and not before."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core.clock import now_us
from apps.core.jobs import acquire_next, run_job, run_until_idle
from apps.core.models import Job
from apps.runs.choices import RunState, Source
from apps.runs.metric_parsing import as_points
from apps.runs.models import Run
from apps.runs.services.lost_runs import CHECK_INTERVAL_US, SILENT_AFTER_US, detect_lost_runs
from apps.runs.services.metrics import add_points
from apps.runs.services.runs import RunFacts, change_run, put_run
from tests.builders import MINUTE, SmallLab, W, push, small_lab
from tests.shipped_data import T0

pytestmark = pytest.mark.django_db
GPU = "gpu:GPU-1"


def running(small: SmallLab, *, node: bool = True, now: int = T0, reported_by: str = "") -> Run:
    facts = RunFacts(name="train.py", started_us=T0, node_uuid=small.node.uuid if node else None)
    run, _ = put_run(
        lab=small.lab,
        uuid=uuid.uuid4(),
        facts=facts,
        by=None,
        bound_node=None,
        now=now,
        reported_by=reported_by,
    )
    return run


def shown(small: SmallLab, run: Run | None, *minutes: int) -> None:
    """Push windows of minutes in which the run computed (None: nobody did)."""
    consumer = f"run:{run.uuid}" if run else "idle"
    windows = [
        W(
            GPU,
            100,
            start_us=T0 + i * MINUTE,
            end_us=T0 + (i + 1) * MINUTE,
            seq=i,
            shares=((consumer, 100),),
        )
        for i in minutes
    ]
    push(small.node, windows, settle=False)


def state(run: Run) -> str:
    run.refresh_from_db()
    return run.state


def at(minutes: float) -> int:
    return T0 + int(minutes * MINUTE)


def test_a_node_that_goes_on_without_it_loses_it() -> None:
    small = small_lab()
    run = running(small)
    shown(small, run, 0, 1, 2)
    shown(small, None, *range(3, 20))
    detect_lost_runs(lab=small.lab, now=at(17.9))
    assert state(run) == RunState.LOST
    assert run.last_report_us == at(3), "the end of the last window that showed it"
    assert run.ended_us is None
    assert run.active_until_us(at(60)) == at(3)


def test_not_before_fifteen_minutes() -> None:
    small = small_lab()
    run = running(small)
    shown(small, run, 0, 1, 2)
    shown(small, None, *range(3, 17))
    detect_lost_runs(lab=small.lab, now=at(60))
    assert state(run) == RunState.RUNNING
    shown(small, None, 17)
    detect_lost_runs(lab=small.lab, now=at(60))
    assert state(run) == RunState.LOST


def test_one_that_computes_is_running_however_long() -> None:
    small = small_lab()
    run = running(small)
    shown(small, run, *range(60))
    detect_lost_runs(lab=small.lab, now=at(60))
    assert state(run) == RunState.RUNNING
    assert run.last_report_us == at(60)


def test_a_silent_node_loses_no_run() -> None:
    small = small_lab()
    run = running(small)
    detect_lost_runs(lab=small.lab, now=at(60 * 24 * 30))
    assert state(run) == RunState.RUNNING
    shown(small, run, 0, 1)
    detect_lost_runs(lab=small.lab, now=at(60 * 24 * 30))
    assert state(run) == RunState.RUNNING


@pytest.mark.parametrize("source", [Source.API, Source.CODECARBON])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_day_without_any_signal_on_a_silent_node_loses_it(source: Source, earlier: bool) -> None:
    """No collector stores what these clients would report."""
    small = small_lab()
    if earlier:
        shown(small, None, -2, -1)  # the collector of the node stopped before the run began
    run = running(small, reported_by=source)
    detect_lost_runs(lab=small.lab, now=T0 + SILENT_AFTER_US)
    assert state(run) == RunState.RUNNING
    detect_lost_runs(lab=small.lab, now=T0 + SILENT_AFTER_US + 1)
    assert state(run) == RunState.LOST
    shown(small, run, 60 * 24)
    detect_lost_runs(lab=small.lab, now=at(60 * 24 + 2))
    assert state(run) == RunState.RUNNING


def test_a_reported_run_on_a_measuring_node_is_lost_by_its_windows() -> None:
    small = small_lab()
    run = running(small, reported_by=Source.API)
    shown(small, None, *range(20))
    detect_lost_runs(lab=small.lab, now=at(20))
    assert state(run) == RunState.LOST


def test_what_a_node_kept_while_away_is_judged_by_its_own_time() -> None:
    small = small_lab()
    run = running(small)
    shown(small, run, *range(10))  # the first part of two hours, pushed late
    detect_lost_runs(lab=small.lab, now=at(120))
    assert state(run) == RunState.RUNNING


def test_windows_revive_it() -> None:
    small = small_lab()
    run = running(small)
    shown(small, None, *range(20))
    detect_lost_runs(lab=small.lab, now=at(20))
    assert state(run) == RunState.LOST
    shown(small, run, 20, 21)
    detect_lost_runs(lab=small.lab, now=at(22))
    assert state(run) == RunState.RUNNING


@pytest.mark.parametrize("word", ["put", "patch", "metrics"])
def test_any_word_revives_it(word: str) -> None:
    small = small_lab()
    run = running(small)
    Run.objects.filter(pk=run.pk).update(state=RunState.LOST)
    if word == "put":
        facts = RunFacts(name="train.py", started_us=T0)
        put_run(lab=small.lab, uuid=run.uuid, facts=facts, by=None, bound_node=None, now=at(30))
    elif word == "patch":
        change_run(
            lab=small.lab,
            uuid=run.uuid,
            state=RunState.RUNNING,
            ended_us=None,
            exit_code=None,
            reported_energy_mj=None,
            bound_node=None,
            now=at(30),
        )
    else:
        points = {"loss": as_points([(0, T0, 1.0)])}
        add_points(lab=small.lab, uuid=run.uuid, points=points, bound_node=None, now=at(30))
    assert (state(run), run.last_report_us) == (RunState.RUNNING, at(30))


def test_a_late_word_of_its_going_on_does_not_undo_its_end() -> None:
    small = small_lab()
    run = running(small)
    end = {"exit_code": 0, "reported_energy_mj": None, "bound_node": None}
    change_run(
        lab=small.lab, uuid=run.uuid, state=RunState.FINISHED, ended_us=at(5), now=at(5), **end
    )
    change_run(
        lab=small.lab, uuid=run.uuid, state=RunState.RUNNING, ended_us=None, now=at(6), **end
    )
    assert state(run) == RunState.FINISHED


def test_without_a_node_a_day_of_silence_loses_it() -> None:
    small = small_lab()
    run = running(small, node=False)
    detect_lost_runs(lab=small.lab, now=T0 + SILENT_AFTER_US)
    assert state(run) == RunState.RUNNING
    detect_lost_runs(lab=small.lab, now=T0 + SILENT_AFTER_US + 1)
    assert state(run) == RunState.LOST


def test_without_a_node_windows_of_any_node_keep_it() -> None:
    small = small_lab()
    run = running(small, node=False)
    shown(small, run, 600)
    detect_lost_runs(lab=small.lab, now=T0 + SILENT_AFTER_US + 1)
    assert state(run) == RunState.RUNNING


def test_a_record_of_the_past_is_not_watched() -> None:
    small = small_lab()
    put_run(
        lab=small.lab,
        uuid=uuid.uuid4(),
        facts=RunFacts(name="r", started_us=T0),
        by=None,
        bound_node=None,
    )
    assert not Job.objects.filter(kind__startswith="runs.").exists()


def test_the_job_looks_again_and_again_and_not_at_once() -> None:
    begun = now_us()
    running(small_lab(), now=begun)
    assert run_until_idle(worker="test") >= 1
    assert acquire_next(worker="test", now=now_us()) is None
    waiting = Job.objects.get(kind="runs.watch_again")
    assert waiting.due_us >= begun + CHECK_INTERVAL_US
    job = acquire_next(worker="test", now=waiting.due_us)
    assert job is not None
    assert run_job(job)
    looked = Job.objects.get(kind="runs.watch")
    assert (looked.requested, looked.done) == (2, 1)


def test_who_is_watched_already_costs_no_write() -> None:
    small = small_lab()
    for _ in range(3):
        running(small)
    assert Job.objects.get(kind="runs.watch").requested == 1


def test_what_it_costs_does_not_depend_on_the_runs_of_a_node() -> None:
    small = small_lab()

    def statements() -> int:
        Run.objects.update(last_report_us=at(0), state=RunState.RUNNING)
        with CaptureQueriesContext(connection) as counted:
            detect_lost_runs(lab=small.lab, now=at(14.9 + 1))
        return len(counted)

    running(small)
    few = statements()
    for _ in range(10):
        running(small)
    assert statements() == few
