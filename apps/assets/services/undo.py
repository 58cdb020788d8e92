"""Undo of an import, removal of assets registered by mistake, and undo of both.

Nothing is deleted: each event is reversed by another one (ADR 39). All in one transaction.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.assets import lifecycle
from apps.assets.choices import ChangeKind, EventKind, ImportState
from apps.assets.models import (
    Asset,
    AssetMeter,
    LifecycleEvent,
    RegisterChange,
    RegisterImport,
    StoredVolume,
)
from apps.assets.services.charges import CHUNK, as_event, recharge
from apps.assets.services.events import refresh
from apps.assets.services.register_changes import DERIVED, stored_facts
from apps.core.clock import utc
from apps.core.errors import Conflict
from apps.core.units import US_PER_HOUR
from apps.fleet.models import ACTIVE

T = TypeVar("T")
_BATCH = 500
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
    is_redo: bool = False

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
            hint=f"Leave out: {', '.join(str(step.asset.pk) for step in refused)}.",
        )
        self.refused = refused


def plan_undo(row: RegisterImport, leave_out: Collection[int] = ()) -> UndoPlan:
    """Return what the undo of an import does, without the assets to leave out."""
    changes = row.changes.filter(undone_us=None).exclude(asset_id__in=leave_out)
    return _plan(list(changes.order_by("-pk")), is_redo=False)


def plan_redo(row: RegisterImport, leave_out: Collection[int] = ()) -> UndoPlan:
    """Return what the undo of the last undo of an import does."""
    undone = row.changes.filter(undone_us__isnull=False)
    last = undone.order_by("-undone_us").values_list("undone_us", flat=True).first()
    changes = undone.filter(undone_us=last).exclude(asset_id__in=leave_out)
    return _plan(list(changes.order_by("pk")), is_redo=True)


@transaction.atomic
def undo_import(
    *, row: RegisterImport, leave_out: Collection[int], by: User | None, now: int
) -> UndoPlan:
    """Undo an import as a whole, without the assets in ``leave_out``. Raises UndoRefused."""
    _lock(row)
    plan = plan_undo(row, leave_out)
    _execute(row.lab, plan, by, now)
    _note_import(row, Act.IMPORT_UNDONE, plan, len(leave_out), by, now)
    return plan


@transaction.atomic
def redo_import(
    *, row: RegisterImport, leave_out: Collection[int], by: User | None, now: int
) -> UndoPlan:
    """Undo the last undo of an import. Raises UndoRefused."""
    _lock(row)
    plan = plan_redo(row, leave_out)
    _execute(row.lab, plan, by, now)
    _note_import(row, Act.IMPORT_RESTORED, plan, len(leave_out), by, now)
    return plan


def plan_removal(asset: Asset) -> UndoStep:
    """Return whether an asset can be removed."""
    change = asset.changes.filter(kind=ChangeKind.REGISTERED, undone_us=None).first()
    return _plan([change or _registration(asset)], is_redo=False).steps[0]


@transaction.atomic
def remove_asset(*, asset: Asset, by: User | None, now: int) -> RegisterChange:
    """Remove an asset that was registered by mistake. Raises UndoRefused."""
    asset = Asset.objects.select_for_update().select_related("lab").get(pk=asset.pk)
    change = asset.changes.filter(kind=ChangeKind.REGISTERED).first()
    if change is None:
        change = _registration(asset)
        change.save()
    _execute(asset.lab, _plan([change], is_redo=False), by, now)
    details = {"asset": asset.pk, "embodied_ug": asset.embodied_total_ug}
    audit.record(
        lab=asset.lab,
        by=by,
        action=Act.ASSET_REMOVED,
        subject=asset.name,
        details=details,
        now=now,
    )
    return change


@transaction.atomic
def restore_asset(*, asset: Asset, by: User | None, now: int) -> None:
    """Restore a removed asset. Raises Conflict, UndoRefused."""
    locked = Asset.with_removed.select_for_update().select_related("lab").get(pk=asset.pk)
    change = locked.changes.filter(kind=ChangeKind.REGISTERED, undone_us__isnull=False).first()
    if change is None:
        raise Conflict("This asset is in the register.", hint="Reload the page.")
    _execute(locked.lab, _plan([change], is_redo=True), by, now)
    audit.record(
        lab=locked.lab,
        by=by,
        action=Act.ASSET_RESTORED,
        subject=locked.name,
        details={"asset": locked.pk},
        now=now,
    )


def _registration(asset: Asset) -> RegisterChange:
    """Return the unsaved registration of an asset that no import registered."""
    events = asset.events.filter(recorded_us=asset.added_us).exclude(kind=EventKind.REVERSAL)
    return RegisterChange(
        lab=asset.lab,
        asset=asset,
        kind=ChangeKind.REGISTERED,
        events=list(events.order_by("pk").values_list("pk", flat=True)),
        recorded_us=asset.added_us,
    )


def _lock(row: RegisterImport) -> None:
    RegisterImport.objects.select_for_update().get(pk=row.pk)
    ids = row.changes.values("asset_id")
    list(Asset.with_removed.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk"))


def _note_import(
    row: RegisterImport, act: Act, plan: UndoPlan, left_out: int, by: User | None, now: int
) -> None:
    removals = sum(step.is_removal for step in plan.steps)
    details = {
        "import": str(row.uuid),
        "file": row.file_name,
        "registered": removals,
        "changed": len(plan.steps) - removals,
        "left_out": left_out,
    }
    audit.record(lab=row.lab, by=by, action=act, subject=row.file_name, details=details, now=now)


@dataclass
class _Records:
    """The rows of the assets of a plan, read in batches."""

    assets: dict[int, Asset]
    events: dict[int, dict[int, LifecycleEvent]]
    reversed_by: dict[int, int] = field(default_factory=dict)
    meters: dict[int, list[AssetMeter]] = field(default_factory=lambda: defaultdict(list))
    volumes: set[int] = field(default_factory=set)
    children: dict[int, list[Asset]] = field(default_factory=lambda: defaultdict(list))
    tags: dict[str, Asset] = field(default_factory=dict)
    serials: dict[str, Asset] = field(default_factory=dict)
    import_of_event: dict[int, str] = field(default_factory=dict)

    def active(self, asset_id: int) -> list[LifecycleEvent]:
        rows = self.events[asset_id]
        return [rows[e.id] for e in lifecycle.active_events([as_event(r) for r in rows.values()])]

    def tail(self, event_id: int) -> int:
        """Return the last event in the chain of reversals of an event."""
        while event_id in self.reversed_by:
            event_id = self.reversed_by[event_id]
        return event_id

    def is_active(self, event_id: int) -> bool:
        reversal = self.reversed_by.get(event_id)
        return reversal is None or not self.is_active(reversal)

    def add(self, event: LifecycleEvent) -> None:
        self.events[event.asset_id][event.pk] = event
        if event.reverses_id is not None:
            self.reversed_by[event.reverses_id] = event.pk


def _load(changes: Sequence[RegisterChange]) -> _Records:
    ids = [change.asset_id for change in changes]
    records = _Records({}, {pk: {} for pk in ids})
    for part in _batches(ids):
        assets = Asset.with_removed.select_related("lab", "model", "parent").filter(pk__in=part)
        records.assets.update({asset.pk: asset for asset in assets})
        events = LifecycleEvent.objects.filter(asset_id__in=part)
        for event in events.select_related("project", "parent", "site", "figure").order_by("pk"):
            records.add(event)
        for meter in AssetMeter.objects.filter(asset_id__in=part):
            records.meters[meter.asset_id].append(meter)
        volumes = StoredVolume.objects.filter(ACTIVE, asset_id__in=part)
        records.volumes.update(volumes.values_list("asset_id", flat=True))
        later = RegisterChange.objects.filter(
            asset_id__in=part, kind=ChangeKind.CHANGED, undone_us=None
        )
        for pks, name in later.values_list("events", "register_import__file_name"):
            records.import_of_event.update(dict.fromkeys(pks, name))
        for child in Asset.objects.filter(parent_id__in=part).order_by("pk"):
            records.children[child.parent_id or 0].append(child)
    labs = {asset.lab_id for asset in records.assets.values()}
    for name, owners in (("tag", records.tags), ("serial", records.serials)):
        texts = {getattr(asset, name) for asset in records.assets.values()} - {""}
        for part in _batches(sorted(texts)):
            for asset in Asset.objects.filter(lab__in=labs, **{f"{name}__in": part}):
                owners[getattr(asset, name)] = asset
    return records


def _plan(changes: list[RegisterChange], *, is_redo: bool) -> UndoPlan:
    records = _load(changes)
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
    return UndoPlan(steps, is_redo)


def _undo_reason(change: RegisterChange, records: _Records) -> str:
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
        return f"it has later events: {_events_text(later, asset.lab)}"
    changed = [pk for pk in own if not records.is_active(pk)]
    if changed:
        event = records.events[asset.pk][min(changed)]
        return f"it was corrected later: {_events_text([event], asset.lab)}"
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


def _redo_reason(change: RegisterChange, records: _Records, restored: Collection[int]) -> str:
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
    records: _Records,
    removed: Collection[int],
    *,
    is_redo: bool,
) -> None:
    """Refuse assets whose parts or machine do not follow, until nothing changes."""
    by_asset = {change.asset_id: change for change in changes}
    found = True
    while found:
        found = False
        for pk in [pk for pk, reason in reasons.items() if not reason]:
            reason = (
                _missing_machine(by_asset[pk], reasons, records, removed)
                if is_redo or pk not in removed
                else _remaining_part(pk, reasons, records, removed, by_asset)
            )
            if reason:
                reasons[pk], found = reason, True


def _remaining_part(
    pk: int,
    reasons: Mapping[int, str],
    records: _Records,
    removed: Collection[int],
    by_asset: Mapping[int, RegisterChange],
) -> str:
    moved_back = {
        asset_id
        for asset_id, change in by_asset.items()
        if any(each["field"] == "parent" for each in change.differences)
    }
    remaining = [
        child.name
        for child in records.children[pk]
        if child.pk not in {*removed, *moved_back} or reasons.get(child.pk, "-")
    ]
    more = f" and {len(remaining) - 3} more" if len(remaining) > 3 else ""
    return f"it contains {', '.join(remaining[:3])}{more}" if remaining else ""


def _missing_machine(
    change: RegisterChange,
    reasons: Mapping[int, str],
    records: _Records,
    restored: Collection[int],
) -> str:
    """Return which machine is missing for the events that become active again."""
    events = records.events[change.asset_id]
    returning = [events[events[pk].reverses_id or pk] for pk in change.events]
    for event in returning:
        parent = event.parent
        if parent is None or parent.removed_us is None:
            continue
        if parent.pk not in restored or reasons.get(parent.pk, "-"):
            return f"its machine {parent.name} is removed"
    return ""


def _execute(lab: Lab, plan: UndoPlan, by: User | None, now: int) -> None:
    """Reverse the events of a plan and derive everything again. Raises UndoRefused, Conflict."""
    if plan.refused:
        raise UndoRefused(plan.refused)
    if not plan.steps:
        raise Conflict("There is nothing to undo.", hint="Reload the page.")
    changes = [step.change for step in plan.steps]
    records = _load(changes)
    for part in _batches(changes):
        _reverse(part, records, by, now)
    wrong: list[UndoStep] = []
    for change in changes:
        asset = records.assets[change.asset_id]
        _restore_columns(asset, change.after if plan.is_redo else change.before)
        rows = records.active(asset.pk)
        reason = lifecycle.wrong([as_event(row)[0] for row in rows])
        if reason and (rows or plan.is_redo or change.kind == ChangeKind.CHANGED):
            wrong.append(UndoStep(change, asset, reason))
        refresh(asset, rows)
    if wrong:
        raise UndoRefused(wrong)
    assets = list({change.asset_id: records.assets[change.asset_id] for change in changes}.values())
    ids = sorted(asset.pk for asset in assets)
    columns = sorted({name for change in changes for name in change.after})
    if plan.is_redo:
        _set_removed(changes, None)
    Asset.with_removed.bulk_update(assets, [*DERIVED, *columns], batch_size=_BATCH)
    _switch_meters(changes, records, plan, by, now)
    for start in range(0, len(ids), CHUNK):
        recharge(lab=lab, asset_ids=ids[start : start + CHUNK])
    if not plan.is_redo:
        _set_removed(changes, now)
    for pks in _batches([change.pk for change in changes]):
        RegisterChange.objects.filter(pk__in=pks).update(
            undone_us=None if plan.is_redo else now, undone_by=None if plan.is_redo else by
        )


def _reverse(
    changes: Sequence[RegisterChange], records: _Records, by: User | None, now: int
) -> None:
    """Reverse the last event in the chain of each event: active ones end, reversed ones return."""
    reversals = []
    for change in changes:
        for pk in change.events:
            tail = records.events[change.asset_id][records.tail(pk)]
            reversals.append(
                LifecycleEvent(
                    asset_id=change.asset_id,
                    kind=EventKind.REVERSAL,
                    hour=tail.hour,
                    reverses=tail,
                    recorded_us=now,
                    recorded_by=by,
                )
            )
    for event in LifecycleEvent.objects.bulk_create(reversals, batch_size=_BATCH):
        records.add(event)


def _restore_columns(asset: Asset, columns: Mapping[str, Any]) -> None:
    for name, value in columns.items():
        is_date = name == "warranty_until" and value
        setattr(asset, name, date.fromisoformat(value) if is_date else value)


def _set_removed(changes: Sequence[RegisterChange], removed_us: int | None) -> None:
    ids = [change.asset_id for change in changes if change.kind == ChangeKind.REGISTERED]
    for part in _batches(ids):
        Asset.with_removed.filter(pk__in=part).update(removed_us=removed_us)


def _switch_meters(
    changes: Sequence[RegisterChange], records: _Records, plan: UndoPlan, by: User | None, now: int
) -> None:
    """Withdraw the meters of removed assets, or restore those that their removal withdrew."""
    for change in changes:
        if change.kind != ChangeKind.REGISTERED:
            continue
        for meter in records.meters[change.asset_id]:
            if plan.is_redo and meter.withdrawn_us == change.undone_us:
                meter.withdrawn_us = meter.withdrawn_by = None
            elif not plan.is_redo and meter.withdrawn_us is None:
                meter.withdrawn_us, meter.withdrawn_by = now, by
            else:
                continue
            meter.save(update_fields=["withdrawn_us", "withdrawn_by"])


def _events_text(events: Sequence[LifecycleEvent], lab: Lab) -> str:
    zone = ZoneInfo(lab.time_zone)
    listed = [
        f"{event.get_kind_display().lower()} on "
        f"{utc(event.hour * US_PER_HOUR).astimezone(zone):%Y-%m-%d}"
        for event in events[:3]
    ]
    more = [f"{len(events) - 3} more"] if len(events) > 3 else []
    return ", ".join([*listed, *more])


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    listed = list(values)
    yield from (listed[start : start + _BATCH] for start in range(0, len(listed), _BATCH))


def finished_imports(lab: Lab) -> list[RegisterImport]:
    """Return the registered imports of a lab, newest first."""
    imports = RegisterImport.objects.filter(lab=lab, state=ImportState.DONE)
    return list(imports.select_related("created_by").order_by("-created_us", "-pk"))
