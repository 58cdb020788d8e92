"""The job table is the queue of record: nothing asked for is lost, nothing runs twice at once."""

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
import time_machine
from django.db import close_old_connections, connection, transaction
from django.db.models import F
from django.db.utils import IntegrityError
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_django.fixtures import DjangoAssertNumQueries

from apps.core import jobs
from apps.core.clock import now_us
from apps.core.jobs import (
    LEASE_US,
    RETRY_MAX_US,
    RETRY_US,
    acquire_next,
    enqueue,
    enqueue_batch,
    run_job,
    run_until_idle,
)
from apps.core.models import Job
from tests.builders import T0
from tests.properties.histories import undone

SECOND = 1_000_000
Handle = Callable[[Callable[[str], None]], None]


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    """Register what does jobs of the kind 'test'."""
    monkeypatch.setattr(jobs, "_HANDLERS", dict(jobs._HANDLERS))
    return lambda handler: jobs._HANDLERS.__setitem__("test", handler)


@pytest.mark.django_db
def test_an_enqueued_job_runs_one_time(handle: Handle) -> None:
    done: list[str] = []
    handle(done.append)
    enqueue(kind="test", key="a")
    enqueue(kind="test", key="b")
    assert run_until_idle(worker="w") == 2
    assert run_until_idle(worker="w") == 0
    assert sorted(done) == ["a", "b"]


@pytest.mark.django_db
def test_repeated_requests_of_a_waiting_job_run_one_time(handle: Handle) -> None:
    done: list[str] = []
    handle(done.append)
    for _ in range(5):
        enqueue(kind="test", key="a")
    run_until_idle(worker="w")
    assert done == ["a"]


@pytest.mark.django_db
def test_a_batch_is_inserted_in_one_statement(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    enqueue(kind="test", key="a", due_us=3)
    with django_assert_num_queries(1):
        with enqueue_batch():
            enqueue(kind="test", key="b", due_us=7)
            enqueue(kind="test", key="a")
            enqueue(kind="test", key="b", due_us=5)
    rows = Job.objects.order_by("key").values_list("key", "requested", "due_us")
    assert list(rows) == [("a", 2, 3), ("b", 1, 5)]
    with django_assert_num_queries(0), enqueue_batch():
        pass


@pytest.mark.django_db
def test_a_failed_batch_enqueues_nothing() -> None:
    @enqueue_batch()
    def fails() -> None:
        enqueue(kind="test", key="a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not Job.objects.exists()
    enqueue(kind="test", key="b")
    assert Job.objects.get().key == "b"


@pytest.mark.django_db
def test_a_request_during_the_run_repeats_the_job(handle: Handle) -> None:
    done: list[str] = []

    def work(key: str) -> None:
        done.append(key)
        if len(done) < 3:
            enqueue(kind="test", key=key)

    handle(work)
    enqueue(kind="test", key="a")
    assert run_until_idle(worker="w") == 3
    assert done == ["a"] * 3


@pytest.mark.django_db
def test_a_job_that_enqueues_itself_waits_until_due(handle: Handle) -> None:
    done: list[int] = []

    def work(key: str) -> None:
        done.append(now_us())
        enqueue(kind="test", key=key, due_us=now_us() + 6 * SECOND)
        with enqueue_batch():
            enqueue(kind="test", key=key, due_us=now_us() + 5 * SECOND)
            enqueue(kind="test", key="other", due_us=T0 + 99 * SECOND)

    handle(work)
    enqueue(kind="test", key="a")
    for later in (0, 4, 5, 9, 10):
        with time_machine.travel((T0 + later * SECOND) / 1e6, tick=False):
            run_until_idle(worker="w")
    assert done == [T0, T0 + 5 * SECOND, T0 + 10 * SECOND]
    assert dict(Job.objects.values_list("key", "due_us")) == {
        "a": T0 + 15 * SECOND,
        "other": T0 + 99 * SECOND,
    }


@pytest.mark.django_db
def test_a_request_of_others_is_not_delayed(handle: Handle) -> None:
    done: list[str] = []

    def work(key: str) -> None:
        done.append(key)
        if len(done) < 2:
            Job.objects.filter(key=key).update(
                requested=F("requested") + 1
            )  # as another process asks
            enqueue(kind="test", key=key, due_us=now_us() + 10**9)

    handle(work)
    enqueue(kind="test", key="a")
    run_until_idle(worker="w")
    assert done == ["a", "a"]


@pytest.mark.django_db
def test_a_failed_job_waits_for_its_retry(handle: Handle) -> None:
    def work(key: str) -> None:
        enqueue(kind="test", key=key)
        raise ValueError(key)

    handle(work)
    enqueue(kind="test", key="a")
    with time_machine.travel(T0 / 1e6, tick=False):
        assert run_until_idle(worker="w") == 0
    assert Job.objects.get().due_us == T0 + RETRY_US


@pytest.mark.django_db
def test_a_rollback_discards_the_request(handle: Handle) -> None:
    handle(lambda key: None)

    with transaction.atomic():
        enqueue(kind="test", key="a")
        transaction.set_rollback(True)
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_a_failing_job_is_tried_again_later_each_time_later(handle: Handle) -> None:
    def fail(key: str) -> None:
        raise ValueError(f"no {key}")

    handle(fail)
    enqueue(kind="test", key="a")
    now, waits = T0, []
    for attempt in range(1, 13):
        with time_machine.travel(now / 1e6, tick=False):
            assert run_until_idle(worker="w") == 0
            job = Job.objects.get()
            assert (job.attempts, job.last_error, job.leased_until_us) == (
                attempt,
                "ValueError: no a",
                0,
            )
            waits.append(job.due_us - now)
            assert acquire_next(worker="w", now=job.due_us - 1) is None
            now = job.due_us
    assert waits[0] == RETRY_US
    assert all(one <= other <= RETRY_MAX_US for one, other in itertools.pairwise(waits))
    assert waits[-1] == RETRY_MAX_US
    handle(lambda key: None)
    with time_machine.travel(now / 1e6, tick=False):
        assert run_until_idle(worker="w") == 1
    job = Job.objects.get()
    assert (job.attempts, job.last_error, job.done) == (0, "", job.requested)


@pytest.mark.django_db
def test_one_failing_job_does_not_hold_up_the_others(handle: Handle) -> None:
    done: list[str] = []

    def work(key: str) -> None:
        if key == "bad":
            raise ValueError(key)
        done.append(key)

    handle(work)
    for key in ("bad", "one", "two"):
        enqueue(kind="test", key=key)
    assert run_until_idle(worker="w") == 2
    assert done == ["one", "two"]


@pytest.mark.django_db
def test_an_unknown_kind_fails_with_a_message() -> None:
    enqueue(kind="no-such-kind", key="a")
    assert run_until_idle(worker="w") == 0
    assert "no-such-kind" in Job.objects.get().last_error


@pytest.mark.django_db
def test_a_lease_excludes_others_until_it_expires(handle: Handle) -> None:
    handle(lambda key: None)
    enqueue(kind="test", key="a")
    first = acquire_next(worker="dead", now=T0)
    assert first is not None
    assert acquire_next(worker="w", now=T0 + LEASE_US - 1) is None
    second = acquire_next(worker="w", now=T0 + LEASE_US)
    assert second is not None
    assert second.leased_by == "w"
    assert run_job(second)
    assert Job.objects.get().done == 1


@pytest.mark.django_db
def test_a_worker_that_comes_back_late_does_not_free_anothers_lease(handle: Handle) -> None:
    """The slow worker's failure must not make the job of the one that took over look free."""
    handle(lambda key: None)
    enqueue(kind="test", key="a")
    slow = acquire_next(worker="slow", now=T0)
    other = acquire_next(worker="other", now=T0 + LEASE_US)
    assert slow is not None
    assert other is not None

    def fail(key: str) -> None:
        raise ValueError(key)

    handle(fail)
    assert not run_job(slow)
    assert Job.objects.get().leased_until_us == T0 + 2 * LEASE_US
    handle(lambda key: None)
    assert run_job(slow)
    assert Job.objects.get().leased_until_us == T0 + 2 * LEASE_US, "the other one is still at work"


@pytest.mark.django_db
def test_a_constraint_bounds_completed_by_requested() -> None:
    enqueue(kind="test", key="a")
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.update(done=2)


@pytest.mark.django_db
def test_any_sequence_of_requests_runs_and_failures_processes_the_last_request(
    handle: Handle,
) -> None:
    @settings(max_examples=60)
    @given(st.lists(st.sampled_from(("ask", "work", "fail", "die")), max_size=12))
    def check(steps: list[str]) -> None:
        with undone():
            seen = state = 0
            now = T0

            def work(key: str) -> None:
                nonlocal seen
                seen = state

            def fail(key: str) -> None:
                raise ValueError(key)

            for step in [*steps, "work"]:
                now += RETRY_MAX_US + LEASE_US
                if step == "ask":
                    state += 1
                    enqueue(kind="test", key="a")
                elif step == "die":
                    acquire_next(worker="dead", now=now)
                else:
                    handle(work if step == "work" else fail)
                    with time_machine.travel(now / 1e6, tick=False):
                        run_until_idle(worker="w")
            assert seen == state

    check()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_workers_run_each_job_one_time(handle: Handle) -> None:
    done: list[str] = []
    lock = threading.Lock()

    def work(key: str) -> None:
        with lock:
            done.append(key)

    handle(work)
    for i in range(60):
        enqueue(kind="test", key=str(i))

    def worker(name: str) -> None:
        try:
            run_until_idle(worker=name)
        finally:
            close_old_connections()
            connection.close()

    threads = [threading.Thread(target=worker, args=(f"w{i}",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(done, key=int) == [str(i) for i in range(60)]
    assert not Job.objects.exclude(done=1).exists()
