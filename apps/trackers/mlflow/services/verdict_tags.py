"""Verdicts written to MLflow as tags of its runs, with retries."""

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.urls import reverse

from apps.core.clock import now_us
from apps.core.jobs import enqueue
from apps.core.units import US_PER_S
from apps.runs.models import Run
from apps.trackers.mlflow.client import MlflowError, OutOfTime, Server
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from apps.trackers.mlflow.parsing import LINK, VERDICT
from apps.trackers.mlflow.services.servers import server_of

WRITE_TAGS = "trackers.mlflow_tell"
NO_VERDICT = "none"  # replaces a written verdict that is no longer valid
FIRST_WAIT_US, MAX_WAIT_US = 60 * US_PER_S, 6 * 3600 * US_PER_S
_BATCH_SIZE = 50


def publishes_verdict(run: Run) -> bool:
    """Return whether a verdict of this run is written to a server. One query."""
    runs = MlflowRun.objects.filter(
        run=run, quiet=False, source__writes_verdicts=True, source__removed_us=None
    )
    return runs.exists()


@transaction.atomic
def queue_verdict_tag(*, run: Run, text: str) -> None:
    """Queue ``text`` as the verdict tag of a run; '' removes it. Idempotent."""
    runs = MlflowRun.objects.filter(
        run=run, quiet=False, source__writes_verdicts=True, source__removed_us=None
    )
    for tracked_run in runs.select_for_update(of=("self",)):
        verdict = text[:500] or (NO_VERDICT if tracked_run.written_verdict else "")
        if tracked_run.verdict != verdict:
            tracked_run.verdict, tracked_run.tries, tracked_run.due_us = verdict, 0, 0
            tracked_run.save(update_fields=["verdict", "tries", "due_us"])
            enqueue(kind=WRITE_TAGS, key=str(tracked_run.source_id))


def write_verdict_tags(*, source: MlflowSource, server: Server | None = None) -> int:
    """Write queued tags; return their number.

    A failed one is retried later, and its page shows the problem.
    """
    waiting = (
        source.runs.filter(due_us__lte=now_us())
        .exclude(verdict=F("written_verdict"))
        .select_related("run")
    )
    written = 0
    for tracked_run in (
        waiting.order_by("due_us", "pk")[:_BATCH_SIZE]
        if source.enabled and source.writes_verdicts
        else ()
    ):
        try:
            server = server or server_of(source, seconds=12.0)
            written += _write(server, tracked_run)
        except OutOfTime:
            break
        except MlflowError as problem:
            _postpone(tracked_run, problem)
            if not problem.is_single:
                break  # the next write would most likely fail too
    return written


def _write(server: Server, tracked_run: MlflowRun) -> bool:
    if tracked_run.run is None:
        return False
    server.set_tag(
        tracked_run.mlflow_id,
        LINK,
        f"{settings.SITE_URL}{reverse('run', args=[tracked_run.run.uuid])}",
    )
    server.set_tag(tracked_run.mlflow_id, VERDICT, tracked_run.verdict)
    # A verdict that changed meanwhile is written again.
    MlflowRun.objects.filter(pk=tracked_run.pk).update(
        written_verdict=tracked_run.verdict, verdict_problem="", tries=0, due_us=0
    )
    return True


def _postpone(tracked_run: MlflowRun, problem: MlflowError) -> None:
    wait_us = min(FIRST_WAIT_US << min(tracked_run.tries, 12), MAX_WAIT_US)
    if problem.wait_s:
        wait_us = max(wait_us, problem.wait_s * US_PER_S)
    MlflowRun.objects.filter(pk=tracked_run.pk).update(
        verdict_problem=problem.message[:300],
        tries=tracked_run.tries + 1,
        due_us=now_us() + wait_us,
    )
