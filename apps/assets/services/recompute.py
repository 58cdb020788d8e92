"""Recompute the values stored with assets from their events and charges."""

from collections.abc import Sequence

from django.db import transaction

from apps.accounts.models import Lab
from apps.assets.lifecycle_summary import SUMMARY_FIELDS, summarise_lifecycle
from apps.assets.models import Asset
from apps.assets.services.charges import CHUNK, events_of
from apps.assets.services.settled_totals import settled_sums


def differing(*, lab: Lab, repair: bool) -> list[int]:
    """Return the assets whose stored values differ from their events and charges.

    ``repair``: write the correct values.
    """
    ids = list(Asset.objects.filter(lab=lab).order_by("pk").values_list("pk", flat=True))
    parts = (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
    return [pk for part in parts for pk in _differing(part, repair)]


@transaction.atomic
def _differing(asset_ids: Sequence[int], repair: bool) -> list[int]:
    locked_assets = list(
        Asset.objects.select_for_update(no_key=True).filter(pk__in=asset_ids).order_by("pk")
    )
    events, settled = (
        events_of([asset.pk for asset in locked_assets]),
        settled_sums([asset.pk for asset in locked_assets]),
    )
    wrong = []
    for asset in locked_assets:
        charged_ug, off_ug = settled.get(asset.pk, (0, 0))
        expected_values = {
            **vars(summarise_lifecycle(events[asset.pk])),
            "settled_ug": charged_ug,
            "written_off_to_date_ug": off_ug,
        }
        if any(getattr(asset, name) != value for name, value in expected_values.items()):
            wrong.append(asset)
            for name, value in expected_values.items():
                setattr(asset, name, value)
    if repair:
        Asset.objects.bulk_update(wrong, [*SUMMARY_FIELDS, "settled_ug", "written_off_to_date_ug"])
    return [asset.pk for asset in wrong]
