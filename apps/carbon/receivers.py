"""Mark daily rollups stale, in the transaction that changes their sources."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Max, Min
from django.dispatch import receiver

from apps.accounts.models import Lab
from apps.assets.signals import charged as assets_charged
from apps.attribution.signals import attribution_changed
from apps.carbon.choices import RollupKind
from apps.carbon.rollups.writer import mark_stale
from apps.core.intervals import merge_intervals
from apps.energy.models import LedgerEntry
from apps.energy.signals import idle_spread, settled


@receiver(settled, dispatch_uid="carbon.settled")
def after_settling(*, lab: Lab, hours: Iterable[int], **_: Any) -> None:
    """Mark rollups stale after the ledger of these UTC hours changed.

    Close hours become one interval.
    """
    for start, end in merge_intervals((hour, hour + 24) for hour in hours):
        mark_stale(lab=lab, what=RollupKind.USE, from_hour=start, to_hour=end - 23)


@receiver(attribution_changed, dispatch_uid="carbon.charged_anew")
def after_charging(
    *, lab: Lab, consumer_ids: Iterable[int], from_hour: int, to_hour: int, **_: Any
) -> None:
    """Mark rollups stale after the attribution of these consumers changed."""
    used = LedgerEntry.objects.filter(consumer_id__in=list(consumer_ids)).aggregate(
        first=Min("hour"), last=Max("hour")
    )
    if used["first"] is not None:
        start, end = max(from_hour, used["first"]), min(to_hour, used["last"] + 1)
        mark_stale(lab=lab, what=RollupKind.USE, from_hour=start, to_hour=end)


@receiver(idle_spread, dispatch_uid="carbon.idle_spread")
def after_spreading(*, lab: Lab, from_hour: int, to_hour: int, **_: Any) -> None:
    """Mark rollups stale after the shares of projects in idle energy changed."""
    mark_stale(lab=lab, what=RollupKind.USE, from_hour=from_hour, to_hour=to_hour)


@receiver(assets_charged, dispatch_uid="carbon.assets_charged")
def after_charging_assets(*, lab: Lab, from_hour: int, to_hour: int, **_: Any) -> None:
    """Mark rollups stale after charges of embodied carbon changed."""
    mark_stale(lab=lab, what=RollupKind.HARDWARE, from_hour=from_hour, to_hour=to_hour)
