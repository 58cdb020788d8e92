"""Signal receivers of the planner: a registered run gets its estimate, in the same transaction."""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from apps.core.clock import now_us
from apps.planner.outcomes.attachments import attach_by_work, attach_requested
from apps.runs.models import Fingerprint, Run
from apps.runs.signals import estimate_requested


@receiver(estimate_requested)
def on_estimate_requested(run: Run, **_: Any) -> str:
    """Attach the estimate that the registration names. Return a warning, or ''."""
    assert run.requested_estimate is not None
    return attach_requested(run=run, uuid=run.requested_estimate, now=now_us())


@receiver(post_save, sender=Fingerprint)
def on_fingerprint_saved(instance: Fingerprint, **_: Any) -> None:
    """Attach the newest open estimate of the same work to the run."""
    attach_by_work(run=instance.run, row=instance, now=now_us())
