"""Jobs of asset sources."""

from apps.core.jobs import enqueue, job
from apps.pollers.models import AssetSource
from apps.pollers.services.poll import poll_source
from apps.pollers.services.sources import POLL

POLL_AGAIN = "pollers.poll_again"


@job(POLL)
def poll_job(key: str) -> None:
    """Poll source ``key`` and schedule the next poll. A stopped, disabled or removed source is not
    polled.
    """
    source = (
        AssetSource.objects.select_related("lab", "pending_import")
        .filter(pk=int(key), enabled=True, removed_us=None, halted_us=None)
        .first()
    )
    if source is None:
        return
    poll_source(source)
    enqueue(kind=POLL_AGAIN, key=key, due_us=source.due_us)


@job(POLL_AGAIN)
def poll_again_job(key: str) -> None:
    """Enqueue the next poll. A separate kind, so that an immediate poll does not wait for the
    timer.
    """
    enqueue(kind=POLL, key=key)
