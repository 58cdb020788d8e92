"""A run whose fingerprint becomes known is joined with the artifacts it began from or read."""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from apps.artifacts.services.joining import join_run
from apps.core.clock import now_us
from apps.runs.models import Fingerprint


@receiver(post_save, sender=Fingerprint, dispatch_uid="artifacts.fingerprint")
def join(*, instance: Fingerprint, **_: Any) -> None:
    """Join one run."""
    join_run(run=instance.run, fingerprint=instance, now=now_us())
