"""Enqueue new charges of assets when the ledger, or who is charged, changed: only in labs with a metered asset."""

from collections.abc import Iterable
from typing import Any

from django.dispatch import receiver

from apps.accounts.models import Lab
from apps.assets.models import AssetMeter
from apps.attribution.signals import attribution_changed
from apps.core.clock import now_us
from apps.core.jobs import enqueue
from apps.energy import signals

DELAY_US = 60_000_000  # the charges of a day follow what was settled in it within a minute


def _metered(lab: Lab) -> bool:
    return AssetMeter.objects.filter(asset__lab=lab).exists()


@receiver(signals.settled, dispatch_uid="assets.use")
def ask_for_use(*, lab: Lab, hours: Iterable[int], **_: Any) -> None:
    """Ask for the use of devices in the UTC days of these hours to be summed again, soon."""
    days = sorted({hour // 24 for hour in hours}) if _metered(lab) else []
    for day in days:
        enqueue(kind="assets.use", key=f"{lab.pk}:{day}", due_us=now_us() + DELAY_US)


@receiver(attribution_changed, dispatch_uid="assets.use_all")
def ask_for_all_use(*, lab: Lab, **_: Any) -> None:
    """Ask for the use of all devices to be summed again: a rule derives some pairs at a time, so once after the last."""
    if _metered(lab):
        enqueue(kind="assets.use_all", key=str(lab.pk))


@receiver(signals.idle_spread, dispatch_uid="assets.charge")
def ask_for_charges(*, lab: Lab, **_: Any) -> None:
    """Ask for all assets to be charged again: their idle time goes the way of idle energy."""
    if _metered(lab):
        enqueue(kind="assets.charge", key=str(lab.pk))
