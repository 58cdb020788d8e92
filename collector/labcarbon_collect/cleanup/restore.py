"""Bringing back what lies in the trash: read again, and never over what lies there now."""

from __future__ import annotations

import shlex
from typing import Collection, List

from labcarbon_collect.cleanup.client import CleanupItem
from labcarbon_collect.cleanup.journal import (
    DELETED,
    DELETING,
    REFUSED,
    RESTORED,
    RESTORING,
    STRANDED,
    TRASHED,
    remove_listing,
)
from labcarbon_collect.cleanup.safe_paths import ItemBlocked, exists, open_parent, rename_exclusive, split_path, sync_folder
from labcarbon_collect.cleanup.session import Session, verify_content
from labcarbon_collect.cleanup.trash import (
    open_trash,
    remove_if_empty,
    remove_sidecars,
    remove_tombstone,
    slot_path,
    tombstone_content,
)


def items_to_restore(work: Session, numbers: Collection[int]) -> List[CleanupItem]:
    """The lines of these numbers, by default all that lie in the trash; what lies there in its folder comes back with that.

    Raises ValueError for a number of no line.
    """
    numbers_in_plan = {item.number for item in work.plan.items}
    for number in numbers:
        if number not in numbers_in_plan:
            raise ValueError(f"line {number} is not in this plan")
    in_trash_states = (TRASHED, STRANDED, RESTORING, DELETING)
    return [
        item for item in work.plan.items
        if (item.number in numbers if numbers else _is_in_trash(work, item, in_trash_states))
    ]  # fmt: skip


def _is_in_trash(work: Session, item: CleanupItem, in_trash_states: Collection[str]) -> bool:
    """The server says of what went in a folder that it lies in the trash: it has no place of its own there."""
    if work.journal.state(item.number):
        return work.journal.state(item.number) in in_trash_states
    enclosing_items = list(work.plan.enclosing_items(item.path))
    return item.outcome in in_trash_states and not any(
        work.journal.state(enclosing.number) or enclosing.outcome in in_trash_states for enclosing in enclosing_items
    )


def restore_items(work: Session, lines: List[CleanupItem]) -> None:
    """Bring lines back. Raises OSError for the journal."""
    for item in lines:
        restore_item(work, item)


def restore_item(work: Session, item: CleanupItem) -> None:
    """Bring one line back, or say why not: then it lies where it lay. Raises OSError for the journal."""
    try:
        parent = work.parent_in_trash(item)
        if parent is not None:
            raise ItemBlocked(f"it went with {parent.path}: --restore {parent.number} brings both back")
        with open_parent(item.path) as folder:
            with open_trash(folder, work.plan.uuid) as trash:
                _restore(work, item, folder, trash)
            if not work.dry_run:
                remove_if_empty(folder, work.plan.uuid)
        work.results.done.append((item, ""))
    except ItemBlocked as reason:
        work.results.refused.append((item, str(reason)))


def finish_restore(work: Session, item: CleanupItem, folder: int, *, was_stranded: bool) -> None:
    """It lies in its place again: its tombstone goes, and that is noted. Raises OSError for the journal."""
    remove_tombstone(folder, tombstone_content(work.plan, item, by=work.by, page=work.server.page, moved_us=0))
    message = "what lay in the trash was not what was approved, and is back" if was_stranded else ""
    state = REFUSED if was_stranded else RESTORED
    work.journal.append(item.number, state, at_us=work.now(), path=item.path, word=message, by=work.by)


def manual_restore_command(work: Session, item: CleanupItem) -> str:
    """The command for a shell that brings a line back as it lies in the trash, over nothing that lies in its place."""
    trash_path = slot_path(item.path, work.plan.uuid, item.number)
    return f"mv -nT -- {shlex.quote(trash_path)} {shlex.quote(item.path)}"


def _restore(work: Session, item: CleanupItem, folder: int, trash: int) -> None:
    slot, name, state = str(item.number), split_path(item.path)[-1], work.journal.state(item.number)
    if trash < 0 or not exists(trash, slot):
        raise ItemBlocked("it was deleted" if state == DELETED else "it is not in the trash")
    if state == DELETING:
        trash_path = slot_path(item.path, work.plan.uuid, item.number)
        raise ItemBlocked(f"its deletion was begun, what is left of it lies at {trash_path}")
    if state != STRANDED:
        try:
            verify_content(work.on_block, trash, slot, item, may_be_busy=True)
        except ItemBlocked as reason:
            raise ItemBlocked(f"{reason}; to have it back as it is now: {manual_restore_command(work, item)}") from reason
    if exists(folder, name):
        raise ItemBlocked("something else lies in its place now: move that away first")
    if work.dry_run:
        return
    since_us, was_stranded = work.journal.at_us(item.number), state == STRANDED
    work.journal.append(
        item.number, RESTORING, at_us=work.now(), path=item.path, since_us=since_us, was_held=was_stranded, by=work.by
    )
    try:
        rename_exclusive(trash, slot, folder, name)
    except OSError as error:
        previous_state = STRANDED if was_stranded else TRASHED
        work.journal.append(item.number, previous_state, at_us=since_us, path=item.path, is_marked=True)
        raise ItemBlocked(f"it cannot be brought back: {error.strerror}") from error
    remove_sidecars(trash, item.number)
    remove_listing(work.journal, item.number)
    sync_folder(folder)
    sync_folder(trash)
    finish_restore(work, item, folder, was_stranded=was_stranded)
