"""Jobs of runs."""

from apps.accounts.models import Lab, Project
from apps.core.clock import now_us
from apps.core.jobs import enqueue, job
from apps.runs.services.ignored_params import (
    REBUILD_KEYS,
    RECOMPUTE_RECIPES,
    rebuild_old_keys,
    recompute_project,
)
from apps.runs.services.lost_runs import CHECK_INTERVAL_US, detect_lost_runs
from apps.runs.services.updates import LOST_CHECK

LOST_CHECK_TIMER = "runs.watch_again"


@job(LOST_CHECK)
def lost_check_job(key: str) -> None:
    """Check lab ``key`` for lost runs, and schedule the next check."""
    now = now_us()
    detect_lost_runs(lab=Lab.objects.get(pk=int(key)), now=now)
    enqueue(kind=LOST_CHECK_TIMER, key=key, due_us=now + CHECK_INTERVAL_US)


@job(LOST_CHECK_TIMER)
def lost_check_timer_job(key: str) -> None:
    """Enqueue the next check. A separate kind, so that an immediate check does not wait for the
    timer.
    """
    enqueue(kind=LOST_CHECK, key=key)


@job(RECOMPUTE_RECIPES)
def recompute_recipes_job(key: str) -> None:
    """Recompute the recipes and keys of the runs of project ``key``."""
    recompute_project(project=Project.objects.get(pk=int(key)))


@job(REBUILD_KEYS)
def rebuild_keys_job(key: str) -> None:
    """Rebuild keys of lab ``key`` that an older rule made; enqueue the next job while some
    remain.
    """
    if rebuild_old_keys(lab=Lab.objects.get(pk=int(key))):
        enqueue(kind=REBUILD_KEYS, key=key)
