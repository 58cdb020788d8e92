"""Reads of the shares that a period has in the purchase prices of assets."""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Q

from apps.accounts.models import Lab
from apps.assets.amortisation import Metered, Use
from apps.assets.choices import Amortisation
from apps.assets.lifecycle import Event, active_events
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.price_amortisation import PriceShare, price_share
from apps.assets.services.charges import as_event, uses_of

CHUNK = 1_000


@dataclass(frozen=True)
class AssetShare:
    """The share of a period in the price of an asset."""

    asset: Asset
    share: PriceShare


def price_shares(lab: Lab, from_hour: int, to_hour: int) -> list[AssetShare]:
    """Return the shares of the lab's assets that are charged in a period, by name. Two queries,
    and a fixed number more for each thousand assets that are charged by use.
    """
    held = Q(bought_hour__lt=to_hour) & (Q(disposed_hour=None) | Q(disposed_hour__gte=from_hour))
    assets = Asset.objects.filter(held, lab=lab)
    rows: dict[int, list[tuple[Event, int | None]]] = defaultdict(list)
    for row in LifecycleEvent.objects.filter(asset__in=assets):
        rows[row.asset_id].append(as_event(row))
    events = {asset_id: active_events(listed) for asset_id, listed in rows.items()}
    by_use = [
        asset_id
        for asset_id, listed in events.items()
        if any(event.amortisation == Amortisation.SCI for event in listed)
    ]
    uses: dict[int, list[Use]] = {}
    metered: dict[int, list[Metered]] = {}
    for start in range(0, len(by_use), CHUNK):  # use has no effect on what others are charged
        of_assets, spans = uses_of(lab, by_use[start : start + CHUNK])
        uses |= of_assets
        metered |= spans
    shares = []
    for asset in assets.order_by("name", "pk"):
        share = price_share(
            events.get(asset.pk, []),
            asset.price_ucurrency,
            from_hour,
            to_hour,
            uses.get(asset.pk, ()),
            metered.get(asset.pk, ()),
        )
        if share is not None:
            shares.append(AssetShare(asset, share))
    return shares
