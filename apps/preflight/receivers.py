"""Signal receivers of preflight: a changed fingerprint or an ended run is judged again."""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from apps.core.jobs import enqueue
from apps.runs.choices import RunState
from apps.runs.models import Fingerprint, Run


@receiver(post_save, sender=Fingerprint)
def on_fingerprint_saved(instance: Fingerprint, **_: Any) -> None:
    """Enqueue the judgement of a run whose fingerprint changed, in the same transaction."""
    enqueue(kind="preflight.judge", key=str(instance.run_id))


@receiver(post_save, sender=Run)
def on_run_ended(instance: Run, created: bool, **_: Any) -> None:
    """Enqueue the judgement of an ended run: its end may differ from that of the runs it
    matches.
    """
    if not created and instance.state != RunState.RUNNING:
        enqueue(kind="preflight.judge", key=str(instance.pk))
