"""Jobs of activities."""

from uuid import UUID

from apps.activity.services import activity_files
from apps.core.clock import now_us
from apps.core.jobs import enqueue, job

TURN_US = 20_000_000  # of one run, so that other jobs have their turn


@job(activity_files.CHECK)
def check_file_job(key: str) -> None:
    """Check the rows of file ``key``. Nothing is recorded."""
    activity_files.check_rows(uuid=UUID(key), now=now_us())


@job(activity_files.RECORD)
def record_file_job(key: str) -> None:
    """Record the rows of file ``key`` in batches, from the first that is not recorded."""
    turn_end_us = now_us() + TURN_US
    for _ in activity_files.record_batches(uuid=UUID(key), now=now_us()):
        if now_us() >= turn_end_us:
            enqueue(kind=activity_files.RECORD, key=key)
            return
