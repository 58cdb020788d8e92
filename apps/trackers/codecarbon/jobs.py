"""Jobs of CodeCarbon."""

from apps.core.jobs import job
from apps.trackers.codecarbon.services.process import (
    QUIET_CHECK,
    mark_quiet_run_lost_now,
    process_run,
)
from apps.trackers.codecarbon.services.receive import PROCESS


@job(PROCESS)
def process_run_job(key: str) -> None:
    """Process the messages of run ``key``."""
    process_run(pk=int(key))


@job(QUIET_CHECK)
def quiet_check_job(key: str) -> None:
    """Mark run ``key`` as lost if no message arrives any more."""
    mark_quiet_run_lost_now(pk=int(key))
