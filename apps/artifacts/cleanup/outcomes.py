"""Outcomes reported by ``apply-plan``: trashed, restored, purged and refused items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from apps.accounts.models import User
from apps.artifacts.choices import (
    ArtifactState,
    AuditAction,
    CopyState,
    Form,
    ItemOutcome,
    PlanState,
)
from apps.artifacts.cleanup.plans import close_if_complete, lock_plan, record_action, restore_state
from apps.artifacts.models import Artifact, CleanupItem, CleanupPlan, Copy
from apps.core.errors import InvalidInput

_BATCH_SIZE = 500
_COPY_AFTER = {
    ItemOutcome.TRASHED: CopyState.TRASHED,
    ItemOutcome.RESTORED: CopyState.PRESENT,
    ItemOutcome.DELETED: CopyState.DELETED,
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of an item on the machine."""

    line: int
    outcome: ItemOutcome
    message: str = ""


@transaction.atomic
def record_outcomes(
    *, plan: CleanupPlan, outcomes: Sequence[Outcome], by: User | None, now: int
) -> int:
    """Record the outcomes of ``apply-plan``; return the number of changed items. Idempotent.

    The contents of a folder are trashed, restored and purged with it. The plan is closed once no
    eligible item is left, also if no outcome is reported. Raises Conflict if the plan was not
    approved, InvalidInput for items that are not selected in it.
    """
    plan = lock_plan(plan, PlanState.APPROVED, PlanState.APPLIED)
    outcomes_by_item = {outcome.line: outcome for outcome in outcomes}
    items = list(
        plan.items.select_for_update(of=("self",))
        .select_related("copy", "artifact")
        .filter(pk__in=outcomes_by_item)
        .order_by("pk")
    )
    if len(items) != len(outcomes_by_item) or any(
        not item.selected and item.outcome == "" for item in items
    ):
        raise InvalidInput(
            "An item is not selected in this plan.", field="lines", hint="Load the plan again."
        )
    changed = [item for item in items if _is_change(item, outcomes_by_item[item.pk])]
    for item in changed:
        _apply(item, outcomes_by_item[item.pk], now)
    contents = _apply_to_contents(plan, changed, now)
    _save([*changed, *contents])
    ineligible = close_if_complete(plan, now)
    if changed or ineligible is not None:
        record_action(
            plan,
            AuditAction.PLAN_EXECUTED,
            by,
            now,
            {**_counts([*changed, *contents]), **({"stay": ineligible} if ineligible else {})},
        )
    return len(changed)


def _is_change(item: CleanupItem, outcome: Outcome) -> bool:
    """Return whether an outcome changes an item. An item trashed with its folder follows that
    folder.
    """
    if item.parent_item_id is not None and item.outcome != ItemOutcome.RESTORED:
        return outcome.outcome != ItemOutcome.REFUSED and item.outcome != outcome.outcome
    return item.outcome != outcome.outcome


def _apply(item: CleanupItem, outcome: Outcome, now: int) -> None:
    item.outcome, item.message, item.outcome_us = outcome.outcome, outcome.message[:300], now


def _apply_to_contents(
    plan: CleanupPlan, changed: Sequence[CleanupItem], now: int
) -> list[CleanupItem]:
    """Apply the outcomes of folders to the items inside them; return these items."""
    folders = {
        item.copy.path: item
        for item in changed
        if item.artifact.form == Form.FOLDER and item.outcome in _COPY_AFTER
    }
    if not folders:
        return []
    changed_items = {item.pk: item for item in changed}
    contents = []
    selected_items = plan.items.select_for_update(of=("self",)).select_related("copy", "artifact")
    for item in (
        changed_items.get(row.pk, row)
        for row in selected_items.filter(selected=True).order_by("pk")
    ):
        folder = _enclosing_folder(item.copy.path, folders)
        if folder is None or not _follows_folder(item, folder):
            continue
        _apply(
            item,
            Outcome(item.pk, ItemOutcome(folder.outcome), f"with its folder {folder.copy.path}"),
            now,
        )
        item.parent_item = folder
        contents += [] if item.pk in changed_items else [item]
    return contents


def _follows_folder(item: CleanupItem, folder: CleanupItem) -> bool:
    """Return whether an item follows its folder. Items trashed, restored or purged on their own do
    not.
    """
    if folder.outcome == ItemOutcome.TRASHED:
        return item.outcome in ("", ItemOutcome.REFUSED) or item.parent_item_id == folder.pk
    return item.parent_item_id == folder.pk


def _enclosing_folder(path: str, folders: Mapping[str, CleanupItem]) -> CleanupItem | None:
    """Return the outermost of ``folders`` that contains a path: its outcome applies to all
    others.
    """
    parts = path.split("/")
    above = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return next((folders[folder] for folder in above if folder in folders), None)


def _save(items: Sequence[CleanupItem]) -> None:
    for batch in _batches(items):
        _update_copies(batch)
        CleanupItem.objects.bulk_update(batch, ["outcome", "message", "outcome_us", "parent_item"])
    for batch in _batches(items):
        _update_artifacts(batch)


def _batches(items: Sequence[CleanupItem]) -> Iterator[Sequence[CleanupItem]]:
    yield from (items[start : start + _BATCH_SIZE] for start in range(0, len(items), _BATCH_SIZE))


def _update_copies(items: Sequence[CleanupItem]) -> None:
    """Update the states of copies.

    A copy is a location. It is not updated if it contains other content by now, or the same content
    again since it was trashed. ``items`` have the new outcomes, the database has the old ones.
    """
    new_outcomes = {item.pk: ItemOutcome(item.outcome) for item in items}
    rows = (
        CleanupItem.objects.select_for_update(of=("copy",))
        .select_related("copy")
        .filter(pk__in=new_outcomes)
    )
    changed_copies = []
    for row in rows.order_by("copy_id"):
        new_state = _COPY_AFTER.get(new_outcomes[row.pk])
        is_replaced = row.outcome == ItemOutcome.TRASHED and row.copy.state != CopyState.TRASHED
        if (
            new_state is not None
            and row.copy.artifact_id == row.artifact_id
            and not (is_replaced and new_state == CopyState.DELETED)
        ):
            row.copy.state = new_state
            changed_copies.append(row.copy)
    Copy.objects.bulk_update(changed_copies, ["state"])


def _update_artifacts(items: Sequence[CleanupItem]) -> None:
    """Update the states of artifacts: without copies an artifact is a tombstone, otherwise it
    returns to its previous state.
    """
    deleted = {item.artifact_id for item in items if item.outcome == ItemOutcome.DELETED}
    remaining_copies = Copy.objects.filter(
        artifact__in=deleted, state__in=(CopyState.PRESENT, CopyState.TRASHED)
    )
    with_copies = set(remaining_copies.values_list("artifact", flat=True))
    Artifact.objects.filter(pk__in=deleted - with_copies).update(state=ArtifactState.TOMBSTONE)
    returned = (ItemOutcome.REFUSED, ItemOutcome.RESTORED)
    restore_state(
        [item for item in items if item.outcome in returned or item.artifact_id in with_copies]
    )


def _counts(items: Sequence[CleanupItem]) -> dict[str, int | str]:
    names = sorted({str(item.outcome) for item in items})
    counts: dict[str, int | str] = {
        name: sum(item.outcome == name for item in items) for name in names
    }
    with_folder = sum(item.parent_item_id is not None for item in items)
    return {**counts, **({"with_folder": with_folder} if with_folder else {})}
