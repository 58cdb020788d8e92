"""Jobs of runs."""

from apps.accounts.models import Lab, Project
from apps.core.clock import now_us
from apps.core.jobs import enqueue, job
from apps.runs.services.ignored_params import RECOUNT, REKEY, recount, rekey
from apps.runs.services.lost_runs import LOOK_EVERY_US, look_for_lost
from apps.runs.services.updates import WATCH

WAIT = "runs.watch_again"


@job(WATCH)
def watch_job(key: str) -> None:
    """Look for lost runs of lab ``key``, now and again in a while."""
    now = now_us()
    look_for_lost(lab=Lab.objects.get(pk=int(key)), now=now)
    enqueue(kind=WAIT, key=key, due_us=now + LOOK_EVERY_US)


@job(WAIT)
def wait_job(key: str) -> None:
    """Ask for the next look. A kind of its own, since it waits: what is asked for now does not wait with it."""
    enqueue(kind=WATCH, key=key)


@job(RECOUNT)
def recount_job(key: str) -> None:
    """Compute the recipes and keys of the runs of project ``key`` again."""
    recount(project=Project.objects.get(pk=int(key)))


@job(REKEY)
def rekey_job(key: str) -> None:
    """Make keys of lab ``key`` that an older rule made anew, and ask for the next job where more wait."""
    if rekey(lab=Lab.objects.get(pk=int(key))):
        enqueue(kind=REKEY, key=key)
