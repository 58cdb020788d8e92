"""What the undo of an import or of an undo, or the removal of one asset, does and refuses."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.assets.choices import ChangeKind, EventKind
from apps.assets.models import Asset, RegisterChange, RegisterImport
from apps.assets.services.register_changes import stored_facts
from apps.assets.services.undo.records import AssetKey, EventKey, Records, load_records
from apps.core.clock import utc
from apps.core.errors import Conflict
from apps.core.units import US_PER_HOUR

_LISTED = 20


@dataclass(frozen=True)
class UndoStep:
    """What an undo does to one asset. ``reason``: why it is refused, '' if it is not."""

    change: RegisterChange
    asset: Asset
    reason: str = ""

    @property
    def is_removal(self) -> bool:
        return self.change.kind == ChangeKind.REGISTERED


@dataclass(frozen=True)
class UndoPlan:
    """The steps of an undo, or of the undo of an undo (``is_redo``)."""

    steps: Sequence[UndoStep]
    is_redo: bool
    records: Records = field(repr=False)

    @property
    def possible(self) -> list[UndoStep]:
        return [step for step in self.steps if not step.reason]

    @property
    def refused(self) -> list[UndoStep]:
        return [step for step in self.steps if step.reason]


class UndoRefused(Conflict):
    """Assets that cannot be undone. Nothing was changed."""

    code = "undo_refused"

    def __init__(self, refused: Sequence[UndoStep]) -> None:
        listed = "; ".join(f"{step.asset.name}: {step.reason}" for step in refused[:_LISTED])
        more = f"; and {len(refused) - _LISTED} more" if len(refused) > _LISTED else ""
        super().__init__(
            f"Nothing was changed. {listed}{more}",
            field="leave_out",
            hint=f"Leave out: {', '.join(str(step.asset.pk) for step in refused[:_LISTED])}{more}.",
        )
        self.refused = refused


def plan_undo(row: RegisterImport, leave_out: Collection[int] = ()) -> UndoPlan:
    """Return what the undo of an import does, without the assets to leave out."""
    changes = _without(row.changes.filter(undone_us=None).order_by("-pk"), leave_out)
    return plan_changes(row.lab, changes, is_redo=False)


def plan_redo(row: RegisterImport, leave_out: Collection[int] = ()) -> UndoPlan:
    """Return what the undo of the last undo of an import does."""
    undone = row.changes.filter(undone_us__isnull=False)
    last = undone.order_by("-undone_us").values_list("undone_us", flat=True).first()
    changes = _without(undone.filter(undone_us=last).order_by("pk"), leave_out)
    return plan_changes(row.lab, changes, is_redo=True)


def _without(changes: QuerySet[RegisterChange], leave_out: Collection[int]) -> list[RegisterChange]:
    kept = set(leave_out)
    return [change for change in changes.defer("values") if change.asset_id not in kept]


def plan_removal(asset: Asset) -> UndoStep:
    """Return whether an asset can be removed."""
    change = asset.changes.filter(kind=ChangeKind.REGISTERED, undone_us=None).first()
    return plan_changes(asset.lab, [change or registration(asset)], is_redo=False).steps[0]


def registration(asset: Asset) -> RegisterChange:
    """Return the unsaved registration of an asset that no import registered."""
    events = asset.events.filter(recorded_us=asset.added_us).exclude(kind=EventKind.REVERSAL)
    return RegisterChange(
        lab=asset.lab,
        asset=asset,
        kind=ChangeKind.REGISTERED,
        events=list(events.order_by("pk").values_list("pk", flat=True)),
        recorded_us=asset.added_us,
    )


def plan_changes(lab: Lab, changes: Sequence[RegisterChange], *, is_redo: bool) -> UndoPlan:
    """Return what undoing or redoing ``changes`` does, and why assets are refused."""
    records = load_records(lab, changes, is_redo=is_redo)
    removed = {change.asset_id for change in changes if change.kind == ChangeKind.REGISTERED}
    reasons = {
        change.asset_id: _redo_reason(change, records, removed)
        if is_redo
        else _undo_reason(change, records)
        for change in changes
    }
    _refuse_relatives(changes, reasons, records, removed, is_redo=is_redo)
    steps = [
        UndoStep(change, records.assets[change.asset_id], reasons[change.asset_id])
        for change in changes
    ]
    return UndoPlan(steps, is_redo, records)


def _undo_reason(change: RegisterChange, records: Records) -> str:
    asset = records.assets[change.asset_id]
    own = set(change.events)
    if change.kind == ChangeKind.REGISTERED:
        later = [event for event in records.active(asset.pk) if event.pk not in own]
    else:
        last = max(own, default=0)
        later = [
            event
            for event in records.active(asset.pk)
            if own and event.pk not in own and event.pk > last
        ]
    imports = sorted(
        {records.import_of_event[e.pk] for e in later if e.pk in records.import_of_event}
    )
    if imports:
        return f"a later import changed it: undo {', '.join(imports)} first"
    if later:
        return f"it has later events: {_events_text(later, records.lab)}"
    changed = [pk for pk in own if not records.is_active(pk)]
    if changed:
        event = records.events[asset.pk][min(changed)]
        return f"it was corrected later: {_events_text([event], records.lab)}"
    if change.kind == ChangeKind.REGISTERED:
        later_meters = [
            meter
            for meter in records.meters[asset.pk]
            if meter.withdrawn_us is None and meter.recorded_us != asset.added_us
        ]
        if later_meters:
            return "its meter was set later: withdraw it first"
        return "projects store data on it" if asset.pk in records.volumes else ""
    return _edited(asset, change.after, change.before)


def _redo_reason(change: RegisterChange, records: Records, restored: Collection[int]) -> str:
    asset = records.assets[change.asset_id]
    if change.kind == ChangeKind.REGISTERED:
        for name, owners in (("tag", records.tags), ("serial", records.serials)):
            other = owners.get(getattr(asset, name)) if getattr(asset, name) else None
            if other is not None and other.pk != asset.pk:
                return f"its {name} is registered again as {other.name}"
    elif asset.removed_us is not None and asset.pk not in restored:
        return "it was removed"
    if any(records.is_active(pk) for pk in change.events):
        return "its events changed later"
    return _edited(asset, change.before, change.after)


def _edited(asset: Asset, present: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the columns that somebody edited since."""
    current = stored_facts(asset, list(present))
    edited = sorted(
        name for name in present if current[name] not in (present[name], wanted.get(name))
    )
    return (
        f"edited later: {', '.join(name.removesuffix('_id') for name in edited)}" if edited else ""
    )


def _refuse_relatives(
    changes: Sequence[RegisterChange],
    reasons: dict[int, str],
    records: Records,
    removed: Collection[int],
    *,
    is_redo: bool,
) -> None:
    """Refuse assets whose parts or machine do not follow, until nothing changes."""
    by_asset = {change.asset_id: change for change in changes}
    leaving = set(removed) | {
        asset_id
        for asset_id, change in by_asset.items()
        if any(each["field"] == "parent" for each in change.differences)
    }
    found = True
    while found:
        found = False
        for pk in [pk for pk, reason in reasons.items() if not reason]:
            reason = (
                _missing_machine(by_asset[pk], reasons, records, removed)
                if is_redo or pk not in removed
                else _remaining_part(records.children[pk], reasons, leaving)
            )
            if reason:
                reasons[pk], found = reason, True


def _remaining_part(
    parts: Sequence[AssetKey], reasons: Mapping[int, str], leaving: Collection[int]
) -> str:
    remaining = [part.name for part in parts if part.pk not in leaving or reasons.get(part.pk, "-")]
    more = f" and {len(remaining) - 3} more" if len(remaining) > 3 else ""
    return f"it contains {', '.join(remaining[:3])}{more}" if remaining else ""


def _missing_machine(
    change: RegisterChange,
    reasons: Mapping[int, str],
    records: Records,
    restored: Collection[int],
) -> str:
    """Return which machine is missing for the events that become active again."""
    events = records.events[change.asset_id]
    returning = [events[events[pk].reverses_id or pk] for pk in change.events]
    for event in returning:
        if event.parent_removed_us is None:
            continue
        parent_id = event.parent_id or 0
        if parent_id not in restored or reasons.get(parent_id, "-"):
            return f"its machine {event.parent_name} is removed"
    return ""


def _events_text(events: Sequence[EventKey], lab: Lab) -> str:
    zone = ZoneInfo(lab.time_zone)
    listed = [
        f"{EventKind(event.kind).label.lower()} on "
        f"{utc(event.hour * US_PER_HOUR).astimezone(zone):%Y-%m-%d}"
        for event in events[:3]
    ]
    more = [f"{len(events) - 3} more"] if len(events) > 3 else []
    return ", ".join([*listed, *more])
