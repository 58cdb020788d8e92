"""Jobs of trackers."""

from apps.core.jobs import enqueue, job
from apps.trackers.codecarbon.services.process import QUIET, end_quiet_run_now, work_on_run
from apps.trackers.codecarbon.services.receive import JOB
from apps.trackers.mlflow.services.polling import poll_source
from apps.trackers.mlflow.services.servers import POLL
from apps.trackers.mlflow.services.verdict_tags import TELL, tell_verdicts
from apps.trackers.models import MlflowSource

POLL_AGAIN = "trackers.mlflow_again"


@job(JOB)
def codecarbon_job(key: str) -> None:
    """Work on what CodeCarbon told of run ``key``."""
    work_on_run(pk=int(key))


@job(QUIET)
def quiet_job(key: str) -> None:
    """Take run ``key`` for over if nothing is heard of it any more."""
    end_quiet_run_now(pk=int(key))


@job(POLL)
def poll_job(key: str) -> None:
    """Read a slice of MLflow server ``key``, and see to the next one. A server that is off or removed is asked no more."""
    source = MlflowSource.objects.select_related("lab", "node", "project").filter(pk=int(key), on=True).first()
    if source is None or source.removed_us is not None:
        return
    poll_source(source=source)
    enqueue(kind=POLL_AGAIN, key=key, due_us=source.due_us)


@job(POLL_AGAIN)
def poll_again_job(key: str) -> None:
    """Ask for the next slice. A kind of its own, since it waits: what is asked for now does not wait with it."""
    enqueue(kind=POLL, key=key)


@job(TELL)
def tell_job(key: str) -> None:
    """Write the verdicts that wait to MLflow server ``key``; what fails is tried again with the polls that follow."""
    source = MlflowSource.objects.filter(pk=int(key), on=True, removed_us=None).first()
    if source is not None:
        tell_verdicts(source=source)
