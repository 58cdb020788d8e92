"""Totals of past charges, stored with each asset. A book adds only later charges.

``settled_ug`` and ``written_off_to_date_ug`` of an asset are the sums of its charges that end by
its ``settled_hour``, the written-off ones separately. They are exact at all times: every writer of
charges calls :func:`settle` in the same transaction.
"""

from collections.abc import Collection, Mapping, Sequence

from django.db import connection

from apps.assets.amortisation import Charge
from apps.assets.choices import ChargeKind
from apps.assets.models import Asset
from apps.core.clock import now_us
from apps.core.sql import as_int, fetch_rows
from apps.core.units import hour_of

EVERY_HOURS = 24  # settled_hour advances once a day: few charges end in between
_UPDATE = (
    "UPDATE assets_asset SET settled_ug = %s, settled_off_ug = %s, settled_hour = %s WHERE id = %s"
)

Turned = Mapping[int, tuple[Collection[Charge], Collection[Charge]]]


def settle(locked_assets: Sequence[Asset], turned: Turned) -> None:
    """Update the totals of locked assets. At most three statements.

    ``turned`` holds the removed and the new charges of each asset.
    """
    changed = {asset.pk: asset for asset in locked_assets if _turn(asset, *turned[asset.pk])}
    hour = hour_of(now_us())
    behind = {
        asset.pk: asset for asset in locked_assets if hour >= asset.settled_hour + EVERY_HOURS
    }
    for pk, charged_ug, off_ug in _ended(behind, hour):
        behind[pk].settled_ug += charged_ug
        behind[pk].written_off_to_date_ug += off_ug
        changed[pk] = behind[pk]
    for asset in behind.values():
        asset.settled_hour = hour
    still = behind.keys() - changed.keys()
    if still:
        Asset.objects.filter(pk__in=still).update(settled_hour=hour)
    if changed:
        totals = [
            (asset.settled_ug, asset.written_off_to_date_ug, asset.settled_hour, asset.pk)
            for asset in changed.values()
        ]
        with connection.cursor() as cursor:
            cursor.executemany(_UPDATE, totals)


def _turn(asset: Asset, removed: Collection[Charge], new: Collection[Charge]) -> bool:
    """Subtract removed charges from the totals and add new ones. Return whether a total changed."""
    over = [(charge, sign) for charges, sign in ((removed, -1), (new, 1)) for charge in charges]
    over = [(charge, sign) for charge, sign in over if charge.to_hour <= asset.settled_hour]
    for charge, sign in over:
        if charge.kind == ChargeKind.WRITTEN_OFF:
            asset.written_off_to_date_ug += sign * charge.amount_ug
        else:
            asset.settled_ug += sign * charge.amount_ug
    return bool(over)


def _ended(behind: Collection[int], hour: int) -> list[tuple[int, int, int]]:
    """Return (asset, charged, written off) of unsettled charges that end by ``hour``."""
    return _sums(behind, f"c.to_hour > a.settled_hour AND c.to_hour <= {int(hour)}")


def settled_sums(asset_ids: Collection[int]) -> dict[int, tuple[int, int]]:
    """Return (charged, written off) of charges that end by the settled hours: the expected totals.

    Assets without such charges are left out. One query.
    """
    return {
        pk: (charged, off) for pk, charged, off in _sums(asset_ids, "c.to_hour <= a.settled_hour")
    }


def _sums(asset_ids: Collection[int], which: str) -> list[tuple[int, int, int]]:
    if not asset_ids:
        return []
    ids = ", ".join(str(int(pk)) for pk in asset_ids)
    rows = fetch_rows(
        "SELECT c.asset_id, SUM(CASE WHEN c.kind = 'written_off' THEN 0 ELSE c.amount_ug END) AS "
        "charged_ug, "
        "SUM(CASE WHEN c.kind = 'written_off' THEN c.amount_ug ELSE 0 END) AS off_ug "
        "FROM assets_embodiedcharge c JOIN assets_asset a ON a.id = c.asset_id "
        f"WHERE a.id IN ({ids}) AND {which} GROUP BY c.asset_id",
        [],
    )
    return [(row["asset_id"], as_int(row["charged_ug"]), as_int(row["off_ug"])) for row in rows]
