"""Decisions about rows of an asset source: update the asset, dismiss, ignore."""

from dataclasses import replace

from django.db import transaction

from apps.accounts.models import User
from apps.assets.models import Asset
from apps.assets.services import Facts, describe
from apps.assets.spreadsheets.formats import Header
from apps.assets.spreadsheets.rows import Drafter, Options
from apps.core.errors import LabCarbonError
from apps.pollers.differences import FACTS_OF_CELL, differences
from apps.pollers.models import AssetSource, PolledRow


def update_asset(*, source: AssetSource, row: PolledRow, by: User | None, now: int) -> bool:
    """Update the details of an asset that changed in its row, and no other. Return whether that
    worked; a problem is saved with the row.
    """
    asset = row.asset
    assert asset is not None
    changed = [each for each in differences(row.accepted, row.cells) if each.is_fact]
    try:
        with transaction.atomic():
            describe(asset=asset, facts=_new_facts(source, row, asset, now), by=by, now=now)
    except LabCarbonError as error:
        row.problem = f"{error.message} {error.hint}".strip()[:400]
        row.save(update_fields=["problem"])
        return False
    accepted = dict(row.accepted)
    for difference in changed:
        accepted.pop(difference.cell, None)
        if difference.after:
            accepted[difference.cell] = difference.after
    row.accepted, row.problem = accepted, ""
    row.save(update_fields=["accepted", "problem"])
    return True


def _new_facts(source: AssetSource, row: PolledRow, asset: Asset, now: int) -> Facts:
    """Return the facts of an asset with the changed cells, read as the import reads them."""
    options = Options(source.currency, source.bought_on)
    header = Header(source.get_system_display(), fields=(), ignored=())
    draft = Drafter(source.lab, options, header, now).drafted(row.cells).draft
    present = {name: getattr(asset, name) for name in Facts.__dataclass_fields__}
    updated = {
        name: getattr(draft.facts, name)
        for difference in differences(row.accepted, row.cells)
        for name in FACTS_OF_CELL.get(difference.cell, ())
    }
    return replace(Facts(**present), **updated)


def dismiss_changes(*, source: AssetSource, rows: list[PolledRow]) -> None:
    """Accept changed rows without a change of their assets."""
    for row in rows:
        row.accepted, row.problem = row.cells, ""
    PolledRow.objects.bulk_update(rows, ["accepted", "problem"], batch_size=500)


def ignore_rows(*, source: AssetSource, rows: list[PolledRow], ignored: bool) -> None:
    """Exclude rows from proposals, or include them again."""
    source.rows.filter(pk__in=[row.pk for row in rows]).update(ignored=ignored)


def forget_rows(*, source: AssetSource, rows: list[PolledRow]) -> None:
    """Delete vanished rows from the list. Their assets stay as they are."""
    source.rows.filter(pk__in=[row.pk for row in rows], vanished_us__isnull=False).delete()
