"""Statistics of SQLite's query planner: it reads the rows of a run and not of a lab."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core.clock import now_us
from apps.core.database.statistics import STATISTICS_JOB, update_statistics
from apps.core.jobs import enqueue_periodic_jobs, run_until_idle
from apps.core.models import Job
from apps.ingest.models import Consumer
from tests.builders import small_lab

pytestmark = pytest.mark.django_db


def test_the_rows_of_a_run_are_found_by_the_run() -> None:
    lab = small_lab().lab
    Consumer.objects.bulk_create(
        Consumer(lab=lab, key=f"run:{i}", kind="run", run_uuid=uuid4()) for i in range(200)
    )
    with CaptureQueriesContext(connection) as captured:
        update_statistics()
    if connection.vendor != "sqlite":
        assert not captured.captured_queries
        return
    plan = Consumer.objects.filter(lab=lab, run_uuid=uuid4()).explain()
    assert "INDEX consumer_of_run (run_uuid=?" in plan


def test_they_are_updated_hourly() -> None:
    enqueue_periodic_jobs()
    run_until_idle(worker="w")
    [job] = Job.objects.filter(kind=STATISTICS_JOB)
    assert now_us() < job.due_us <= now_us() + 3_600_000_000
