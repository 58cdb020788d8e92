"""Lifecycle events and their reversal. Derived values are updated in the same transaction."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import User
from apps.assets import lifecycle
from apps.assets.choices import OPENING, EventKind, PartsAction
from apps.assets.lifecycle_summary import SUMMARY_FIELDS, summarise_lifecycle
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services.charges import as_event, recharge
from apps.assets.services.validation import Entry, checked_entry, event_row
from apps.core.errors import Conflict, InvalidInput, LabCarbonError

MOST_ASSETS = 1_000  # of one bulk event


def note_act(asset: Asset, by: User | None, action: Act, details: dict[str, Any], now: int) -> None:
    audit.record(
        lab=asset.lab,
        by=by,
        action=action,
        subject=asset.name,
        details={"asset": asset.pk, **details},
        now=now,
    )


def standing_rows(asset: Asset) -> list[LifecycleEvent]:
    """Return the active events of an asset in order of time."""
    rows = {
        row.pk: row
        for row in LifecycleEvent.objects.filter(asset=asset).select_related(
            "project", "parent", "site", "figure"
        )
    }
    return [
        rows[event.id]
        for event in lifecycle.active_events([as_event(row) for row in rows.values()])
    ]


def refresh(asset: Asset, rows: Sequence[LifecycleEvent]) -> None:
    """Set the values derived from active events, in order."""
    events = [as_event(row)[0] for row in rows]
    asset.state = lifecycle.state_of(events)
    for name, value in vars(summarise_lifecycle(events)).items():
        setattr(asset, name, value)
    asset.owner_id = asset.borrower_id = asset.parent_id = asset.site_id = None
    for row in rows:
        if row.kind in (*OPENING, EventKind.TRANSFER):
            asset.owner_id = row.project_id
        if row.kind in (*OPENING, EventKind.DEPLOY, EventKind.MOVE) and (
            row.parent_id or row.site_id or row.kind == "move"
        ):
            asset.parent_id, asset.site_id = row.parent_id, row.site_id
        if row.kind in (EventKind.LEND, EventKind.RETURN):
            asset.borrower_id = row.project_id
        if row.kind == EventKind.DISPOSE:
            asset.parent_id = None


@transaction.atomic
def record(
    *,
    asset: Asset,
    entry: Entry,
    by: User | None,
    now: int,
    cause: LifecycleEvent | None = None,
) -> LifecycleEvent:
    """Record a lifecycle event and charge the asset again.

    A disposal also disposes of the parts of the asset, or takes them out, as ``entry.parts`` says.
    Raises InvalidInput naming the field, Conflict for an event that is impossible at that time.
    """
    asset = locked_asset(asset)
    entry = checked_entry(asset.lab, entry, now)
    parts = list(asset.parts.order_by("pk")) if entry.kind == EventKind.DISPOSE else []
    if parts and not entry.parts:
        raise InvalidInput(
            f"{asset.name} contains {len(parts)} part{'' if len(parts) == 1 else 's'}.",
            field="parts",
            hint="Choose whether to dispose of them or to take them out.",
        )
    if entry.parent is not None and asset.pk in {
        entry.parent.pk,
        *(each.pk for each in _above(entry.parent)),
    }:
        raise InvalidInput(
            "An asset cannot be part of itself.", field="parent", hint="Choose another machine."
        )
    row = event_row(asset, entry, by, now)
    row.cause = cause
    row.save(force_insert=True)
    _follow(asset)
    note_act(asset, by, Act.ASSET_EVENT, {"event": row.pk, "kind": row.kind, "hour": row.hour}, now)
    for part in parts:
        _release_part(part, asset, entry, row, by, now)
    return row


def _release_part(
    part: Asset, machine: Asset, entry: Entry, cause: LifecycleEvent, by: User | None, now: int
) -> None:
    """Dispose of a part together with its machine, or take it out."""
    if entry.parts == PartsAction.DISPOSE:
        own = replace(entry, embodied=None, mass_g=None, note=f"Part of {machine.name}"[:500])
    else:
        note = f"Taken out of {machine.name}"[:500]
        own = Entry(EventKind.MOVE, entry.at_us, site=machine.site, note=note)
    with named_errors(part):
        record(asset=part, entry=own, by=by, now=now, cause=cause)
    if Asset.objects.filter(pk=part.pk, parent=machine).exists():
        raise Conflict(
            f"{part.name} became a part of {machine.name} after that date.",
            hint="Choose a later date, or reverse the move of the part.",
        )


@contextmanager
def named_errors(asset: Asset) -> Iterator[None]:
    """Begin the messages of errors with the name of the asset."""
    try:
        yield
    except LabCarbonError as error:
        error.message = f"{asset.name}: {error.message}"
        raise


@transaction.atomic
def record_many(
    *, assets: Sequence[Asset], entry: Entry, by: User | None, now: int
) -> list[LifecycleEvent]:
    """Record the same event for each asset, all or none: parts before their machines.

    Raises InvalidInput naming the field, Conflict, with the name of the asset.
    """
    if len(assets) > MOST_ASSETS:
        raise InvalidInput(
            f"{len(assets)} assets are selected.",
            field="assets",
            hint=f"Select at most {MOST_ASSETS}.",
        )
    depths = {asset.pk: sum(1 for _ in _above(asset)) for asset in assets}
    rows = []
    for asset in sorted(assets, key=lambda each: (-depths[each.pk], each.pk)):
        with named_errors(asset):
            rows.append(record(asset=asset, entry=entry, by=by, now=now))
    return rows


def _above(asset: Asset) -> Iterable[Asset]:
    seen = {asset.pk}
    while asset.parent is not None and asset.parent.pk not in seen:
        asset = asset.parent
        seen.add(asset.pk)
        yield asset


def locked_asset(asset: Asset) -> Asset:
    return Asset.objects.select_for_update(no_key=True).select_related("lab").get(pk=asset.pk)


def _follow(asset: Asset) -> None:
    """Update the values derived from an asset's events. Raises Conflict if the events are
    inconsistent.
    """
    rows = standing_rows(asset)
    reason = lifecycle.wrong([as_event(row)[0] for row in rows])
    if reason:
        raise Conflict(reason)
    refresh(asset, rows)
    asset.save(update_fields=["state", "owner", "borrower", "parent", "site", *SUMMARY_FIELDS])
    recharge(lab=asset.lab, asset_ids=[asset.pk])


@transaction.atomic
def reverse(*, event: LifecycleEvent, by: User | None, now: int, note: str = "") -> LifecycleEvent:
    """Reverse an event by another one. Reversing a reversal restores the event.

    Events that it caused at parts are reversed or restored with it. The purchase is corrected by
    :func:`correct_opening` instead. Raises Conflict.
    """
    return _reversed(event, None, by, now, note)


def _reversed(
    event: LifecycleEvent, cause: LifecycleEvent | None, by: User | None, now: int, note: str = ""
) -> LifecycleEvent:
    asset = locked_asset(event.asset)
    if LifecycleEvent.objects.filter(reverses=event).exists():
        raise Conflict("This event is already reversed.", hint="Reload the page.")
    row = LifecycleEvent.objects.create(
        asset=asset,
        kind=EventKind.REVERSAL,
        hour=event.hour,
        reverses=event,
        note=note[:500],
        cause=cause,
        recorded_us=now,
        recorded_by=by,
    )
    _follow(asset)
    note_act(
        asset,
        by,
        Act.ASSET_REVERSED,
        {"event": event.pk, "kind": event.kind, "hour": event.hour},
        now,
    )
    for own in event.consequences.filter(reversed_by=None).select_related("asset").order_by("pk"):
        with named_errors(own.asset):
            _reversed(own, row, by, now)
    return row


@transaction.atomic
def correct_opening(*, asset: Asset, entry: Entry, by: User | None, now: int) -> LifecycleEvent:
    """Reverse the purchase of an asset and record it again. All charges are recalculated."""
    asset = locked_asset(asset)
    if entry.kind not in OPENING:
        raise InvalidInput(
            "The first event must be a purchase.", field="kind", hint="Use purchase or second_hand."
        )
    entry = checked_entry(asset.lab, entry, now)
    first = standing_rows(asset)[0]
    reversals = LifecycleEvent.objects.filter(asset=asset, reverses__isnull=False)
    reversed_by = dict(reversals.values_list("reverses_id", "pk"))
    LifecycleEvent.objects.create(
        asset=asset,
        kind=EventKind.REVERSAL,
        hour=first.hour,
        reverses_id=lifecycle.last_of_chain(first.pk, reversed_by),
        recorded_us=now,
        recorded_by=by,
    )
    row = event_row(asset, entry, by, now)
    row.save(force_insert=True)
    _follow(asset)
    note_act(
        asset,
        by,
        Act.ASSET_EVENT,
        {"event": row.pk, "kind": row.kind, "hour": row.hour, "corrects": first.pk},
        now,
    )
    return row
