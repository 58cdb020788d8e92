"""Jobs of runs."""

from apps.accounts.models import Lab, Project
from apps.core.clock import now_us
from apps.core.jobs import handles, request_job
from apps.runs.services.ignored_params import RECOUNT, REKEY, recount, rekey
from apps.runs.services.lost_runs import LOOK_EVERY_US, look_for_lost
from apps.runs.services.updates import WATCH

WAIT = "runs.watch_again"


@handles(WATCH)
def watch_job(key: str) -> None:
    """Look for lost runs of lab ``key``, now and again in a while."""
    now = now_us()
    look_for_lost(lab=Lab.objects.get(pk=int(key)), now=now)
    request_job(kind=WAIT, key=key, due_us=now + LOOK_EVERY_US)


@handles(WAIT)
def wait_job(key: str) -> None:
    """Ask for the next look. A kind of its own, since it waits: what is asked for now does not wait with it."""
    request_job(kind=WATCH, key=key)


@handles(RECOUNT)
def recount_job(key: str) -> None:
    """Compute the recipes and keys of the runs of project ``key`` again."""
    recount(project=Project.objects.get(pk=int(key)))


@handles(REKEY)
def rekey_job(key: str) -> None:
    """Make keys of lab ``key`` that an older rule made anew, and ask for the next job where more wait."""
    if rekey(lab=Lab.objects.get(pk=int(key))):
        request_job(kind=REKEY, key=key)
