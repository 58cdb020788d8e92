"""Jobs of activities."""

from uuid import UUID

from apps.activity.services import activity_files, recurring_activities
from apps.core.clock import now_us
from apps.core.jobs import DAY_US, enqueue, job, periodic_job

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


@periodic_job("activity.start_recurring")
def start_recurring_job() -> int:
    """Enqueue the recurring activities with a period that is over."""
    for pk in recurring_activities.due_activities(now=now_us()):
        enqueue(kind=recurring_activities.RECORD, key=str(pk))
    return now_us() + DAY_US


@job(recurring_activities.RECORD)
def record_recurring_job(key: str) -> None:
    """Record the periods of recurring activity ``key`` that are over."""
    turn_end_us = now_us() + TURN_US
    for _ in recurring_activities.record_periods(pk=int(key), now=now_us()):
        if now_us() >= turn_end_us:
            enqueue(kind=recurring_activities.RECORD, key=key)
            return
