"""A lifecycle event for many assets with its effect on their books."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import User
from apps.assets.amortisation import Account
from apps.assets.balances import accounts_of, through
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services.events import record_many
from apps.assets.services.validation import Entry


@dataclass(frozen=True)
class BulkEffect:
    """Recorded events, and the sums of the books of the assets and their parts around them."""

    events: list[LifecycleEvent]
    before: Account
    after: Account


@transaction.atomic
def record_with_effect(
    *, assets: Sequence[Asset], entry: Entry, by: User | None, now: int, is_preview: bool
) -> BulkEffect:
    """Record an event for each asset, or with ``is_preview`` only return its effect."""
    selected = [asset.pk for asset in assets]
    inside = Asset.objects.filter(Q(pk__in=selected) | Q(parent_id__in=selected))
    ids = list(inside.values_list("pk", flat=True))
    before = _sum(ids, through(now))
    events = record_many(assets=assets, entry=entry, by=by, now=now)
    effect = BulkEffect(events, before, _sum(ids, through(now)))
    if is_preview:
        transaction.set_rollback(True)
        return replace(effect, events=[])
    return effect


def _sum(asset_ids: Sequence[int], hour: int) -> Account:
    accounts = accounts_of(asset_ids, hour).values()
    return Account(
        sum(account.total_ug for account in accounts),
        sum(account.charged_ug for account in accounts),
        sum(account.written_off_ug for account in accounts),
    )
