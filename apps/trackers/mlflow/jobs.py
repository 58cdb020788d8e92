"""Jobs of MLflow."""

from apps.core.jobs import enqueue, job
from apps.trackers.mlflow.models import MlflowSource
from apps.trackers.mlflow.services.poller import poll_source
from apps.trackers.mlflow.services.servers import POLL
from apps.trackers.mlflow.services.verdict_tags import WRITE_TAGS, write_verdict_tags

POLL_AGAIN = "trackers.mlflow_again"


@job(POLL)
def poll_job(key: str) -> None:
    """Poll server ``key`` and schedule the next poll. A disabled or removed server is not
    polled.
    """
    source = (
        MlflowSource.objects.select_related("lab", "node", "project")
        .filter(pk=int(key), enabled=True)
        .first()
    )
    if source is None or source.removed_us is not None:
        return
    poll_source(source=source)
    enqueue(kind=POLL_AGAIN, key=key, due_us=source.due_us)


@job(POLL_AGAIN)
def poll_again_job(key: str) -> None:
    """Enqueue the next poll. A separate kind, so that an immediate poll does not wait for the
    timer.
    """
    enqueue(kind=POLL, key=key)


@job(WRITE_TAGS)
def write_verdict_tags_job(key: str) -> None:
    """Write waiting verdicts to server ``key``; failures are retried with the next polls."""
    source = MlflowSource.objects.filter(pk=int(key), enabled=True, removed_us=None).first()
    if source is not None:
        write_verdict_tags(source=source)
