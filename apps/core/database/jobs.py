"""Periodic jobs of the database."""

from django.contrib.sessions.models import Session

from apps.core.clock import now_us, utc
from apps.core.database.statistics import HOUR_US, STATISTICS_JOB, update_statistics
from apps.core.database.table_checks import CHECK_JOB, DAY_US, check_due_tables
from apps.core.jobs import CLEAR_CHUNK, clear_done_jobs, periodic_job


@periodic_job(CHECK_JOB)
def check_tables_job() -> int:
    """Check some of the tables that were not checked today."""
    return check_due_tables(now=now_us())


@periodic_job("core.clear_expired")
def clear_expired_job() -> int:
    """Delete expired sessions and completed jobs, once a day."""
    now = now_us()
    clear_sessions(now)
    clear_done_jobs()
    return now + DAY_US


@periodic_job(STATISTICS_JOB)
def statistics_job() -> int:
    """Update the statistics of the query planner, once an hour."""
    update_statistics()
    return now_us() + HOUR_US


def clear_sessions(now: int) -> None:
    """Delete expired sessions in small transactions."""
    expired = Session.objects.filter(expire_date__lt=utc(now))
    while keys := list(expired.values_list("pk", flat=True)[:CLEAR_CHUNK]):
        Session.objects.filter(pk__in=keys).delete()
