"""Registration of assets with their first events, and changes of their facts."""

from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.assets import lifecycle
from apps.assets.choices import OPENING, EventKind
from apps.assets.models import Asset, AssetMeter, LifecycleEvent
from apps.assets.services.charges import as_event, recharge
from apps.assets.services.events import note_act, refresh
from apps.assets.services.validation import (
    Draft,
    Entry,
    Facts,
    checked_entry,
    checked_facts,
    event_row,
)
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue


def drafted_rows(
    lab: Lab, draft: Draft, by: User | None, now: int
) -> tuple[Asset, list[LifecycleEvent], AssetMeter | None]:
    """Return the unsaved rows of a draft. Raises InvalidInput, Conflict."""
    facts = checked_facts(lab, draft.facts)
    texts = {name: getattr(facts, name) for name in Facts.__dataclass_fields__}
    asset = Asset(lab=lab, added_by=by, added_us=now, **texts)
    if draft.opening.kind not in OPENING:
        raise InvalidInput(
            "The first event must be a purchase.", field="kind", hint="Use purchase or second_hand."
        )
    entries = [draft.opening]
    if draft.deployed_us is not None:  # before an end of the same hour
        entries.append(Entry(EventKind.DEPLOY, draft.deployed_us))
    entries.extend(draft.entries)
    rows = [event_row(asset, checked_entry(lab, entry, now), by, now) for entry in entries]
    rows.sort(key=lambda row: row.hour)  # stable: events of one hour keep their order
    reason = lifecycle.wrong([replace(as_event(row)[0], id=i) for i, row in enumerate(rows)])
    if reason:
        raise Conflict(reason)
    for place in (draft.device, draft.node):
        if place is not None and place.lab_id != lab.pk:
            raise InvalidInput(
                "No such meter in this lab.",
                field="meter",
                hint="Use a device or node of this lab.",
            )
    meter = None
    if draft.device is not None or draft.node is not None:
        device = draft.device
        node = None if device else draft.node
        meter = AssetMeter(
            asset=asset,
            device=device,
            node=node,
            from_hour=rows[0].hour,
            recorded_us=now,
            recorded_by=by,
        )
    refresh(asset, rows)
    return asset, rows, meter


def check_tags(lab: Lab, assets: Sequence[Asset]) -> None:
    tags = [asset.tag for asset in assets if asset.tag]
    double = (
        next((tag for i, tag in enumerate(tags) if tag in set(tags[:i])), None)
        if len(set(tags)) < len(tags)
        else None
    )
    duplicate = (
        double or Asset.objects.filter(lab=lab, tag__in=tags).values_list("tag", flat=True).first()
    )
    if duplicate:
        raise Conflict(
            f"The inventory number {duplicate!r} is in use.",
            field="tag",
            hint="Enter another number or leave the field empty.",
        )


@transaction.atomic
def register(*, lab: Lab, draft: Draft, by: User | None, now: int) -> Asset:
    """Register an asset with its first events.

    Raises InvalidInput naming the field, Conflict for impossible events.
    """
    asset = write_drafts(lab, [draft], by, now)[0]
    audit.record(
        lab=lab,
        by=by,
        action=Act.ASSET_ADDED,
        subject=asset.name,
        details={"asset": asset.pk, "kind": asset.kind},
        now=now,
    )
    recharge(lab=lab, asset_ids=[asset.pk])
    return asset


@transaction.atomic
def register_many(*, lab: Lab, drafts: Sequence[Draft], by: User | None, now: int) -> list[Asset]:
    """Register many assets, all or none. A job charges them."""
    assets = write_drafts(lab, drafts, by, now)
    audit.record(
        lab=lab,
        by=by,
        action=Act.ASSETS_IMPORTED,
        subject=f"{len(assets)} assets",
        details={"assets": len(assets)},
        now=now,
    )
    enqueue(kind="assets.charge", key=str(lab.pk))
    return assets


def write_drafts(lab: Lab, drafts: Sequence[Draft], by: User | None, now: int) -> list[Asset]:
    """Write assets in the caller's transaction, without charges and audit records."""
    rows = [drafted_rows(lab, draft, by, now) for draft in drafts]
    check_tags(lab, [asset for asset, _, _ in rows])
    first_meter = not AssetMeter.objects.filter(asset__lab=lab).exists()
    assets = Asset.objects.bulk_create([asset for asset, _, _ in rows], batch_size=500)
    LifecycleEvent.objects.bulk_create(
        [event for _, events, _ in rows for event in events], batch_size=500
    )
    meters = [meter for _, _, meter in rows if meter is not None]
    AssetMeter.objects.bulk_create(meters, batch_size=500)
    if meters and first_meter:
        enqueue(kind="assets.use_all", key=str(lab.pk))
    return list(assets)


@transaction.atomic
def describe(*, asset: Asset, facts: Facts, by: User | None, now: int) -> Asset:
    """Change the facts about an asset. Its events and charges do not change."""
    facts = checked_facts(asset.lab, facts)
    changed = sorted(
        name for name in Facts.__dataclass_fields__ if getattr(facts, name) != getattr(asset, name)
    )
    if "tag" in changed:
        check_tags(asset.lab, [Asset(tag=facts.tag)])
    for name in changed:
        setattr(asset, name, getattr(facts, name))
    if changed:
        asset.save(update_fields=changed)
        note_act(asset, by, Act.ASSET_CHANGED, {"changed": changed}, now)
    return asset
