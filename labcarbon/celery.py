"""The Celery app. Celery carries two messages: "run due jobs", "enqueue daily jobs".

The queue of record is the Job table (apps/core/jobs.py).
"""

import os
import socket

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")

app = Celery("labcarbon")  # type: ignore[no-untyped-call]
app.config_from_object("django.conf:settings", namespace="CELERY")  # type: ignore[no-untyped-call]


@app.task(name="labcarbon.work_on_jobs")  # type: ignore[no-untyped-call]
def work_on_jobs() -> int:
    """Run all due jobs. Returns the number of completed jobs."""
    from apps.core.jobs import run_until_idle

    return run_until_idle(worker=f"{socket.gethostname()}:{os.getpid()}"[:64])


@app.task(name="labcarbon.enqueue_daily_jobs")  # type: ignore[no-untyped-call]
def enqueue_daily_jobs() -> None:
    """Enqueue the daily jobs that are due."""
    from apps.core import jobs
    from apps.core.clock import now_us

    jobs.enqueue_daily_jobs(now=now_us())
