"""Enqueue charges of assets when the ledger or attribution changes, only in labs with a meter."""

from collections.abc import Iterable
from typing import Any

from django.dispatch import receiver

from apps.accounts.models import Lab
from apps.assets.models import AssetMeter
from apps.attribution.signals import attribution_changed
from apps.core.clock import now_us
from apps.core.jobs import enqueue
from apps.energy import signals

DELAY_US = 60_000_000  # assets are charged a minute after the ledger is settled


def _metered(lab: Lab) -> bool:
    return AssetMeter.objects.filter(asset__lab=lab).exists()


@receiver(signals.settled, dispatch_uid="assets.use")
def ask_for_use(*, lab: Lab, hours: Iterable[int], **_: Any) -> None:
    """Enqueue the recomputation of device use in the UTC days of ``hours``, with a delay."""
    days = sorted({hour // 24 for hour in hours}) if _metered(lab) else []
    for day in days:
        enqueue(kind="assets.use", key=f"{lab.pk}:{day}", due_us=now_us() + DELAY_US)


@receiver(attribution_changed, dispatch_uid="assets.use_all")
def ask_for_all_use(*, lab: Lab, **_: Any) -> None:
    """Enqueue the recomputation of all device use.

    A rule derives its pairs in batches. The job runs once, after the last batch.
    """
    if _metered(lab):
        enqueue(kind="assets.use_all", key=str(lab.pk))


@receiver(signals.idle_spread, dispatch_uid="assets.charge")
def ask_for_charges(*, lab: Lab, **_: Any) -> None:
    """Enqueue new charges of all assets: their idle time follows the spread of idle energy."""
    if _metered(lab):
        enqueue(kind="assets.charge", key=str(lab.pk))
