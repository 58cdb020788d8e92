"""What a killed worker leaves behind is taken up as soon as a worker starts on the same machine."""

from __future__ import annotations

import logging
import os
import signal
import socket

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.db.models import F

from apps.core.clock import now_us
from apps.core.jobs import acquire_next, enqueue, release_dead_leases, run_until_idle
from apps.core.models import Job
from tests.builders import small_lab

pytestmark = pytest.mark.django_db


def _leased_by(worker: str) -> Job:
    enqueue(kind="energy.settle", key="1")
    job = acquire_next(worker=worker, now=now_us())
    assert job is not None
    return job


@pytest.mark.parametrize(
    ("worker", "taken"),
    [
        ("here:41", 1),
        ("here:42", 0),
        ("there:41", 0),
        ("here.too:41", 0),
        ("celery", 0),
        ("here:x", 0),
    ],
)
def test_only_the_leases_of_this_hosts_dead_end(worker: str, taken: int) -> None:
    _leased_by(worker)
    assert release_dead_leases(host="here", is_alive=lambda pid: pid == 42) == taken
    again = acquire_next(worker="here:43", now=now_us())
    assert (again is not None) == bool(taken)


def test_a_worker_that_starts_finishes_what_a_killed_one_began() -> None:
    small = small_lab()
    Job.objects.all().delete()
    enqueue(kind="energy.settle", key=str(small.node.pk))
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    assert acquire_next(worker=f"{socket.gethostname()[:48]}:{dead}", now=now_us()) is not None
    call_command("worker", "--once")
    (job,) = Job.objects.filter(kind="energy.settle")
    assert job.done == job.requested


def _run_until_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the worker in this process until it gets SIGTERM."""
    monkeypatch.setattr("apps.core.management.commands.worker._DATABASE_PAUSE_S", 0.0)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        call_command("worker", pause=0.0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.django_db(transaction=True)  # the worker closes its connection
def test_a_worker_outlives_its_databases_absence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def work(**options: object) -> int:
        calls.append(options)
        if len(calls) == 1:
            raise OperationalError("the database system is in recovery mode\nDETAIL: later")
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    monkeypatch.setattr("apps.core.management.commands.worker.run_until_idle", work)
    with caplog.at_level(logging.WARNING):
        _run_until_stopped(monkeypatch)
    assert len(calls) == 2
    assert "the database system is in recovery mode" in caplog.text
    assert "can be used again" in caplog.text


@pytest.mark.django_db(transaction=True)  # the worker closes its connection
def test_a_worker_releases_its_own_leases_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends under a job: the lease stays in the database, and its holder lives."""
    small = small_lab()
    Job.objects.all().delete()
    enqueue(kind="energy.settle", key=str(small.node.pk))
    calls = []

    def work(*, worker: str, limit: int) -> int:
        calls.append(worker)
        if len(calls) == 1:
            assert acquire_next(worker=worker, now=now_us()) is not None
            raise OperationalError("server closed the connection unexpectedly")
        os.kill(os.getpid(), signal.SIGTERM)
        return run_until_idle(worker=worker, limit=limit)

    monkeypatch.setattr("apps.core.management.commands.worker.run_until_idle", work)
    _run_until_stopped(monkeypatch)
    # a job that is done can be deleted already
    assert not Job.objects.filter(kind="energy.settle", done__lt=F("requested")).exists()
