"""Jobs of trackers."""

from apps.core.jobs import handles
from apps.trackers.codecarbon.services.intake import JOB
from apps.trackers.codecarbon.services.working import QUIET, end_quiet_run_now, work_on_run


@handles(JOB)
def codecarbon_job(key: str) -> None:
    """Work on what CodeCarbon told of run ``key``."""
    work_on_run(pk=int(key))


@handles(QUIET)
def quiet_job(key: str) -> None:
    """Take run ``key`` for over if nothing is heard of it any more."""
    end_quiet_run_now(pk=int(key))
