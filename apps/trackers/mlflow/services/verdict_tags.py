"""Verdicts written back to MLflow as tags of its runs: when they change, and again later where that failed."""

from django.conf import settings
from django.db import transaction
from django.db.models import F

from apps.core.clock import now_us
from apps.core.jobs import enqueue
from apps.core.units import US_PER_S
from apps.runs.models import Run
from apps.trackers.mlflow.client import MlflowProblem, OutOfTime, Server
from apps.trackers.mlflow.parsing import LINK, VERDICT
from apps.trackers.mlflow.services.servers import server_of
from apps.trackers.models import MlflowRun, MlflowSource

TELL = "trackers.mlflow_tell"
NOTHING = "none"  # what is said where something was said before and no longer holds
FIRST_WAIT_US, LONGEST_WAIT_US = 60 * US_PER_S, 6 * 3600 * US_PER_S
_AT_ONCE = 50


def tells_of(run: Run) -> bool:
    """Return whether a verdict of this run would be written anywhere. One query."""
    found = MlflowRun.objects.filter(run=run, quiet=False, source__tells_verdicts=True, source__removed_us=None)
    return found.exists()


@transaction.atomic
def want_verdict(*, run: Run, text: str) -> None:
    """Have MLflow say ``text`` of a run; '': nothing is worth saying. Saying the same again changes nothing."""
    wanted = MlflowRun.objects.filter(run=run, quiet=False, source__tells_verdicts=True, source__removed_us=None)
    for told in wanted.select_for_update(of=("self",)):
        say = text[:500] or (NOTHING if told.told_verdict else "")
        if told.verdict != say:
            told.verdict, told.tries, told.due_us = say, 0, 0
            told.save(update_fields=["verdict", "tries", "due_us"])
            enqueue(kind=TELL, key=str(told.source_id))


def tell_verdicts(*, source: MlflowSource, server: Server | None = None) -> int:
    """Write what waits; return how many were written. One that fails is tried again later, and the page says why."""
    waiting = source.runs.filter(due_us__lte=now_us()).exclude(verdict=F("told_verdict")).select_related("run")
    written = 0
    for told in waiting.order_by("due_us", "pk")[:_AT_ONCE] if source.on and source.tells_verdicts else ():
        try:
            server = server or server_of(source, seconds=12.0)
            written += _write(server, told)
        except OutOfTime:
            break
        except MlflowProblem as problem:
            _put_off(told, problem)
            if not problem.of_one:
                break  # what holds for one most likely holds for the next
    return written


def _write(server: Server, told: MlflowRun) -> bool:
    if told.run is None:
        return False
    server.set_tag(told.mlflow_id, LINK, f"{settings.SITE_URL}/runs/{told.run.uuid}/")
    server.set_tag(told.mlflow_id, VERDICT, told.verdict)
    # It may have changed meanwhile: then it is written again.
    MlflowRun.objects.filter(pk=told.pk).update(told_verdict=told.verdict, tell_problem="", tries=0, due_us=0)
    return True


def _put_off(told: MlflowRun, problem: MlflowProblem) -> None:
    wait_us = min(FIRST_WAIT_US << min(told.tries, 12), LONGEST_WAIT_US)
    if problem.wait_s:
        wait_us = max(wait_us, problem.wait_s * US_PER_S)
    MlflowRun.objects.filter(pk=told.pk).update(
        tell_problem=problem.words[:300], tries=told.tries + 1, due_us=now_us() + wait_us
    )
