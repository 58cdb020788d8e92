"""The job queue: enqueue, acquire, run, retry. Jobs are idempotent; an expired lease is taken
over.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import F, QuerySet

from apps.core.clock import now_us
from apps.core.models import Job

log = logging.getLogger(__name__)

Handler = Callable[[str], None]
_HANDLERS: dict[str, Handler] = {}
_PERIODIC: set[str] = set()
_BATCH: ContextVar[dict[tuple[str, str], int] | None] = ContextVar("job batch", default=None)
_RUNNING: ContextVar["_RunningJob | None"] = ContextVar("running", default=None)
LEASE_US = 120_000_000
DAY_US = 86_400_000_000
RETRY_US = 5_000_000
RETRY_MAX_US = 600_000_000
CLEAR_CHUNK = 500


@dataclass
class _RunningJob:
    """The job that this context runs. ``rerun_due_us``: when it enqueued itself again."""

    row: Job
    job: tuple[str, str]
    rerun_due_us: int | None = None


def job(kind: str) -> Callable[[Handler], Handler]:
    """Register the decorated function as the handler of jobs of ``kind``. It gets the job's key."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[kind] = handler
        return handler

    return register


def periodic_job(kind: str) -> Callable[[Callable[[], int]], Callable[[], int]]:
    """Register the decorated function as a job that always waits for its next time, which the
    function returns.
    """

    def register(function: Callable[[], int]) -> Callable[[], int]:
        _PERIODIC.add(kind)

        @job(kind)
        def run(key: str) -> None:
            enqueue(kind=kind, key=key, due_us=function())

        return function

    return register


def enqueue_periodic_jobs() -> None:
    """Enqueue the periodic jobs that do not wait. Worker processes call it at their start."""
    waiting = Job.objects.filter(kind__in=_PERIODIC, done__lt=F("requested"))
    for kind in sorted(_PERIODIC - set(waiting.values_list("kind", flat=True))):
        enqueue(kind=kind, key="")


def clear_done_jobs() -> int:
    """Delete jobs that are done: a later request inserts the job again. Returns their number."""
    deleted = 0
    while True:
        done = Job.objects.filter(done=F("requested"), leased_until_us__lte=now_us())
        pks = list(done.values_list("pk", flat=True)[:CLEAR_CHUNK])
        if not pks:
            return deleted
        # with the conditions again: others can enqueue these jobs meanwhile
        deleted += done.filter(pk__in=pks).delete()[0]


def enqueue(*, kind: str, key: str, due_us: int = 0) -> None:
    """Enqueue a job in the caller's transaction. A job that waits or runs already runs once more.

    ``due_us`` applies to a job that is not waiting. For a job that enqueues itself it applies
    unless others enqueued it meanwhile.
    """
    batch = _BATCH.get()
    if batch is None:
        _insert_requests({(kind, key): due_us})
    else:
        batch[kind, key] = min(due_us, batch.get((kind, key), due_us))


@contextmanager
def enqueue_batch() -> Iterator[None]:
    """Collect all ``enqueue`` calls of the context and insert them at its end in one statement;
    insert none after an error.

    Use it inside the transaction, so that the insert is part of it.
    """
    requests: dict[tuple[str, str], int] = {}
    token = _BATCH.set(requests)
    try:
        yield
    finally:
        _BATCH.reset(token)
    if requests:
        _insert_requests(requests)


def _insert_requests(requests: Mapping[tuple[str, str], int]) -> None:
    running = _RUNNING.get()
    running_job = running.job if running else None
    # Its row is still due, so it would start again immediately.
    if running and running_job in requests:
        due_us = requests[running.job]
        running.rerun_due_us = (
            due_us if running.rerun_due_us is None else min(due_us, running.rerun_due_us)
        )
    # always lock rows in the same order
    rows = sorted((*job, due_us) for job, due_us in requests.items() if job != running_job)
    if not rows:
        return
    marks = ", ".join(["(%s, %s, 1, 0, %s, 0, '', 0, '')"] * len(rows))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_job (kind, key, requested, done, due_us, leased_until_us, "
            "leased_by, attempts, last_error)"
            f" VALUES {marks}"
            " ON CONFLICT (kind, key) DO UPDATE SET requested = core_job.requested + 1,"
            " due_us = CASE WHEN core_job.done = core_job.requested THEN EXCLUDED.due_us ELSE "
            "core_job.due_us END",
            [value for row in rows for value in row],
        )


def acquire_next(*, worker: str, now: int) -> Job | None:
    """Lease the oldest due job that is not leased, or return None."""
    with transaction.atomic():
        waiting = Job.objects.filter(
            done__lt=F("requested"), due_us__lte=now, leased_until_us__lte=now
        ).order_by("due_us", "id")
        if connection.features.has_select_for_update_skip_locked:
            waiting = waiting.select_for_update(skip_locked=True)
        job = waiting.first()
        if job is None:
            return None
        job.leased_until_us = now + LEASE_US
        job.leased_by = worker
        job.attempts += 1
        job.save(update_fields=["leased_until_us", "leased_by", "attempts"])
        return job


def release_dead_leases(*, host: str, is_alive: Callable[[int], bool]) -> int:
    """Release leases of this host's workers (``host:pid``) that no longer exist. Returns their
    number.

    Otherwise the job of a killed worker would wait until its lease expires. Jobs are idempotent, so
    a wrong release costs only time.
    """
    released = 0
    for job in Job.objects.filter(leased_until_us__gt=now_us(), leased_by__startswith=f"{host}:"):
        pid = job.leased_by.rpartition(":")[2]
        if pid.isdecimal() and not is_alive(int(pid)):
            released += Job.objects.filter(pk=job.pk, leased_by=job.leased_by).update(
                leased_until_us=0
            )
    return released


class LeaseLost(Exception):
    """Another worker took the job over."""


def renew_lease() -> None:
    """Keep the lease of the running job, for jobs that read longer than a lease. Call it often: it
    writes at most every quarter of a lease. Raises LeaseLost.
    """
    running = _RUNNING.get()
    if running is None or running.row.leased_until_us - now_us() > LEASE_US * 3 // 4:
        return
    until_us = now_us() + LEASE_US
    if not _leased_row(running.row).update(leased_until_us=until_us):
        raise LeaseLost(str(running.row))
    running.row.leased_until_us = until_us


def _leased_row(job: Job) -> QuerySet[Job]:
    """Return the job's row if this worker still holds the lease. A slow worker's lease may have
    been taken over.
    """
    return Job.objects.filter(
        pk=job.pk, leased_by=job.leased_by, leased_until_us=job.leased_until_us
    )


def run_job(job: Job) -> bool:
    """Run a leased job. A failure is recorded and retried later. Returns whether it succeeded."""
    running = _RunningJob(job, (job.kind, job.key))
    token = _RUNNING.set(running)
    try:
        _HANDLERS[job.kind](job.key)
    except Exception as error:
        reason = _database_problem(error)
        if reason:
            log.error("job %s failed (attempt %d): %s", job, job.attempts, reason)
        else:
            log.exception("job %s failed (attempt %d)", job, job.attempts)
        delay_us = min(RETRY_US * 2 ** min(job.attempts - 1, 10), RETRY_MAX_US)
        _leased_row(job).update(
            due_us=now_us() + delay_us,
            leased_until_us=0,
            last_error=f"{type(error).__name__}: {error}"[:2000],
        )
        return False
    finally:
        _RUNNING.reset(token)
    if running.rerun_due_us is not None:
        _leased_row(job).filter(requested=job.requested).update(
            requested=F("requested") + 1, due_us=running.rerun_due_us
        )
    # Requests made during the run have a higher number than the leased one, so the job stays due.
    _leased_row(job).update(done=job.requested, leased_until_us=0, attempts=0, last_error="")
    return True


def _database_problem(error: Exception) -> str:
    """Return what is wrong with the database and what to do, or ''."""
    from apps.core.database.health import unavailability_of  # it enqueues checks itself

    reason = unavailability_of(error)
    return reason.explain() if reason else ""


def run_until_idle(*, worker: str, limit: int = 1000) -> int:
    """Acquire and run jobs until none is due (or ``limit`` were run). Returns the number of
    successful jobs.
    """
    succeeded = 0
    for _ in range(limit):
        job = acquire_next(worker=worker, now=now_us())
        if job is None:
            break
        succeeded += run_job(job)
    return succeeded
