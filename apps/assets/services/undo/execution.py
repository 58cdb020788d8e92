"""Undo of an import, removal of assets registered by mistake, and undo of both.

Nothing is deleted: each event is reversed by another one (ADR 39). All in one transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.assets import lifecycle
from apps.assets.choices import REGISTERED, ChangeKind, EventKind, ImportState
from apps.assets.import_progress import Report, ignore
from apps.assets.models import Asset, LifecycleEvent, RegisterChange, RegisterImport
from apps.assets.services.charges import CHUNK, as_event, recharge
from apps.assets.services.events import refresh
from apps.assets.services.register_changes import DERIVED
from apps.assets.services.undo.plan import (
    UndoPlan,
    UndoRefused,
    UndoStep,
    plan_changes,
    plan_redo,
    plan_undo,
    registration,
)
from apps.assets.services.undo.records import BATCH, EventKey, Records, active_rows, batches
from apps.core.database.bulk_writes import update_columns
from apps.core.errors import Conflict


@transaction.atomic
def undo_import(
    *,
    row: RegisterImport,
    leave_out: Collection[int],
    by: User | None,
    now: int,
    report: Report = ignore,
) -> UndoPlan:
    """Undo an import as a whole, without the assets in ``leave_out``. Raises UndoRefused."""
    _lock(row)
    plan = plan_undo(row, leave_out)
    _execute(plan, by, now, report)
    _finish(row, Act.IMPORT_UNDONE, plan, len(leave_out), by, now)
    return plan


@transaction.atomic
def redo_import(
    *,
    row: RegisterImport,
    leave_out: Collection[int],
    by: User | None,
    now: int,
    report: Report = ignore,
) -> UndoPlan:
    """Undo the last undo of an import. Raises UndoRefused."""
    _lock(row)
    plan = plan_redo(row, leave_out)
    _execute(plan, by, now, report)
    _finish(row, Act.IMPORT_RESTORED, plan, len(leave_out), by, now)
    return plan


@transaction.atomic
def remove_asset(*, asset: Asset, by: User | None, now: int) -> RegisterChange:
    """Remove an asset that was registered by mistake. Raises UndoRefused."""
    asset = Asset.objects.select_for_update().select_related("lab").get(pk=asset.pk)
    change = asset.changes.filter(kind=ChangeKind.REGISTERED).first()
    if change is None:
        change = registration(asset)
        change.save()
    _execute(plan_changes(asset.lab, [change], is_redo=False), by, now)
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
    _execute(plan_changes(locked.lab, [change], is_redo=True), by, now)
    audit.record(
        lab=locked.lab,
        by=by,
        action=Act.ASSET_RESTORED,
        subject=locked.name,
        details={"asset": locked.pk},
        now=now,
    )


def _lock(row: RegisterImport) -> None:
    """Lock an import and its assets. Raises Conflict if another job of it is to run."""
    locked_import = RegisterImport.objects.select_for_update().get(pk=row.pk)
    if locked_import.state != row.state:
        raise Conflict(
            f"This import is in state {locked_import.get_state_display().lower()}.",
            hint="Wait until its job has ended, and reload the page.",
        )
    ids = row.changes.values("asset_id")
    locked = Asset.with_removed.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    list(locked.values_list("pk"))


def _finish(
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
    row.state, row.task = ImportState.DONE, {}
    row.save(update_fields=["state", "task"])


def _execute(plan: UndoPlan, by: User | None, now: int, report: Report = ignore) -> None:
    """Reverse the events of a plan and derive everything again. Raises UndoRefused, Conflict."""
    if plan.refused:
        raise UndoRefused(plan.refused)
    if not plan.steps:
        raise Conflict("There is nothing to undo.", hint="Reload the page.")
    changes, records = [step.change for step in plan.steps], plan.records
    report(0, 1, 1)
    _reverse(changes, records, by, now)
    report(1, 1, 2)
    _derive(plan, changes)
    assets = [records.assets[pk] for pk in sorted({change.asset_id for change in changes})]
    columns = sorted({name for change in changes for name in change.after})
    if plan.is_redo:
        _set_removed(changes, None)
    update_columns(assets, [*DERIVED, *columns])
    _switch_meters(changes, plan, by, now)
    for start in range(0, len(assets), CHUNK):
        report(2, start, len(assets))
        recharge(lab=records.lab, asset_ids=[each.pk for each in assets[start : start + CHUNK]])
    if not plan.is_redo:
        _set_removed(changes, now)
    for pks in batches(change.pk for change in changes):
        RegisterChange.objects.filter(pk__in=pks).update(
            undone_us=None if plan.is_redo else now, undone_by=None if plan.is_redo else by
        )


def _derive(plan: UndoPlan, changes: Sequence[RegisterChange]) -> None:
    """Set the columns of the assets after the reversals. Raises UndoRefused for an impossible
    history.
    """
    records = plan.records
    rows_by_asset = active_rows(records, {change.asset_id for change in changes})
    wrong: list[UndoStep] = []
    for change in changes:
        asset, rows = records.assets[change.asset_id], rows_by_asset[change.asset_id]
        _restore_columns(asset, change.after if plan.is_redo else change.before)
        reason = lifecycle.wrong([as_event(row)[0] for row in rows])
        if reason and (rows or plan.is_redo or change.kind == ChangeKind.CHANGED):
            wrong.append(UndoStep(change, asset, reason))
        refresh(asset, rows)
    if wrong:
        raise UndoRefused(wrong)


def _reverse(
    changes: Sequence[RegisterChange], records: Records, by: User | None, now: int
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
                    reverses_id=tail.pk,
                    recorded_us=now,
                    recorded_by=by,
                )
            )
    for event in LifecycleEvent.objects.bulk_create(reversals, batch_size=BATCH):
        records.add(EventKey.of_reversal(event))


def _restore_columns(asset: Asset, columns: Mapping[str, Any]) -> None:
    for name, value in columns.items():
        is_date = name == "warranty_until" and value
        setattr(asset, name, date.fromisoformat(value) if is_date else value)


def _set_removed(changes: Sequence[RegisterChange], removed_us: int | None) -> None:
    ids = [change.asset_id for change in changes if change.kind == ChangeKind.REGISTERED]
    for part in batches(ids):
        Asset.with_removed.filter(pk__in=part).update(removed_us=removed_us)


def _switch_meters(
    changes: Sequence[RegisterChange], plan: UndoPlan, by: User | None, now: int
) -> None:
    """Withdraw the meters of removed assets, or restore those that their removal withdrew."""
    for change in changes:
        if change.kind != ChangeKind.REGISTERED:
            continue
        for meter in plan.records.meters[change.asset_id]:
            if plan.is_redo and meter.withdrawn_us == change.undone_us:
                meter.withdrawn_us = meter.withdrawn_by = None
            elif not plan.is_redo and meter.withdrawn_us is None:
                meter.withdrawn_us, meter.withdrawn_by = now, by
            else:
                continue
            meter.save(update_fields=["withdrawn_us", "withdrawn_by"])


def finished_imports(lab: Lab) -> list[RegisterImport]:
    """Return the registered imports of a lab, newest first."""
    imports = RegisterImport.objects.filter(lab=lab, state__in=REGISTERED)
    return list(imports.select_related("created_by").order_by("-created_us", "-pk"))
