"""The Celery app. Celery carries a single message, "run due jobs".

The queue of record is the Job table (apps/core/jobs.py).
"""

import logging
import os
import socket

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")

log = logging.getLogger(__name__)
app = Celery("labcarbon")  # type: ignore[no-untyped-call]
app.config_from_object("django.conf:settings", namespace="CELERY")  # type: ignore[no-untyped-call]


@app.task(name="labcarbon.work_on_jobs")  # type: ignore[no-untyped-call]
def work_on_jobs() -> int:
    """Run all due jobs. Returns the number of completed jobs."""
    from django.db import Error

    from apps.core.database.health import unavailability_of
    from apps.core.jobs import enqueue_periodic_jobs, run_until_idle

    try:
        enqueue_periodic_jobs()
        return run_until_idle(worker=f"{socket.gethostname()}:{os.getpid()}"[:64])
    except Error as error:
        reason = unavailability_of(error)
        if reason is None:
            raise
        log.error("%s", reason.explain())
        return 0
