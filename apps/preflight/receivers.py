"""What preflight listens to: a run's fingerprint became better known, or the run ended."""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from apps.core.jobs import enqueue
from apps.runs.choices import RunState
from apps.runs.models import Fingerprint, Run


@receiver(post_save, sender=Fingerprint)
def judge_what_is_known(instance: Fingerprint, **_: Any) -> None:
    """Judge a run once more of its work is known; the job is asked for in the transaction that wrote it."""
    enqueue(kind="preflight.judge", key=str(instance.run_id))


@receiver(post_save, sender=Run)
def judge_what_ended(instance: Run, created: bool, **_: Any) -> None:
    """Judge a run again once it ended: it may have gone otherwise than those it repeats."""
    if not created and instance.state != RunState.RUNNING:
        enqueue(kind="preflight.judge", key=str(instance.pk))
