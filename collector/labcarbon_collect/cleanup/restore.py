"""Restores items from the trash. Verifies the content first and never overwrites anything."""

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
from labcarbon_collect.cleanup.safe_paths import (
    ItemBlocked,
    exists,
    open_parent,
    rename_exclusive,
    split_path,
    sync_folder,
)
from labcarbon_collect.cleanup.session import Session, verify_content
from labcarbon_collect.cleanup.trash import (
    open_trash,
    remove_if_empty,
    remove_sidecars,
    remove_tombstone,
    slot_path,
    tombstone_content,
)


def items_to_restore(session: Session, numbers: Collection[int]) -> List[CleanupItem]:
    """Return the items with these numbers, by default all in the trash. Items inside a trashed
    folder are restored with it.

    Raises ValueError for an unknown number.
    """
    numbers_in_plan = {item.number for item in session.plan.items}
    for number in numbers:
        if number not in numbers_in_plan:
            raise ValueError(f"item {number} is not in this plan")
    in_trash_states = (TRASHED, STRANDED, RESTORING, DELETING)
    return [
        item
        for item in session.plan.items
        if (item.number in numbers if numbers else _is_in_trash(session, item, in_trash_states))
    ]


def _is_in_trash(session: Session, item: CleanupItem, in_trash_states: Collection[str]) -> bool:
    """Return whether an item has its own place in the trash. The server also reports items inside a
    trashed folder as trashed.
    """
    if session.journal.state(item.number):
        return session.journal.state(item.number) in in_trash_states
    enclosing_items = list(session.plan.enclosing_items(item.path))
    return item.outcome in in_trash_states and not any(
        session.journal.state(enclosing.number) or enclosing.outcome in in_trash_states
        for enclosing in enclosing_items
    )


def restore_items(session: Session, lines: List[CleanupItem]) -> None:
    """Restore items. Raises OSError for the journal."""
    for item in lines:
        restore_item(session, item)


def restore_item(session: Session, item: CleanupItem) -> None:
    """Restore one item, or record why not and leave it in the trash. Raises OSError for the
    journal.
    """
    try:
        parent = session.parent_in_trash(item)
        if parent is not None:
            raise ItemBlocked(
                f"it was moved with {parent.path}: --restore {parent.number} restores both"
            )
        with open_parent(item.path) as folder:
            with open_trash(folder, session.plan.uuid) as trash:
                _restore(session, item, folder, trash)
            if not session.dry_run:
                remove_if_empty(folder, session.plan.uuid)
        session.results.done.append((item, ""))
    except ItemBlocked as reason:
        session.results.refused.append((item, str(reason)))


def finish_restore(session: Session, item: CleanupItem, folder: int, *, was_stranded: bool) -> None:
    """Remove the tombstone of a restored item and record the restore. Raises OSError for the
    journal.
    """
    remove_tombstone(
        folder,
        tombstone_content(session.plan, item, by=session.by, page=session.server.page, moved_us=0),
    )
    message = (
        "the trashed content was not the approved content, and was put back" if was_stranded else ""
    )
    state = REFUSED if was_stranded else RESTORED
    session.journal.append(
        item.number, state, at_us=session.now(), path=item.path, word=message, by=session.by
    )


def manual_restore_command(session: Session, item: CleanupItem) -> str:
    """Return a shell command that restores an item without overwriting anything."""
    trash_path = slot_path(item.path, session.plan.uuid, item.number)
    return f"mv -nT -- {shlex.quote(trash_path)} {shlex.quote(item.path)}"


def _restore(session: Session, item: CleanupItem, folder: int, trash: int) -> None:
    slot, name, state = (
        str(item.number),
        split_path(item.path)[-1],
        session.journal.state(item.number),
    )
    if trash < 0 or not exists(trash, slot):
        raise ItemBlocked("it was deleted" if state == DELETED else "it is not in the trash")
    if state == DELETING:
        trash_path = slot_path(item.path, session.plan.uuid, item.number)
        raise ItemBlocked(f"its deletion was started; the rest is at {trash_path}")
    if state != STRANDED:
        try:
            verify_content(session.on_block, trash, slot, item, may_be_busy=True)
        except ItemBlocked as reason:
            raise ItemBlocked(
                f"{reason}; to restore it as it is: {manual_restore_command(session, item)}"
            ) from reason
    if exists(folder, name):
        raise ItemBlocked("something else exists at its path: move that away first")
    if session.dry_run:
        return
    since_us, was_stranded = session.journal.at_us(item.number), state == STRANDED
    session.journal.append(
        item.number,
        RESTORING,
        at_us=session.now(),
        path=item.path,
        since_us=since_us,
        was_held=was_stranded,
        by=session.by,
    )
    try:
        rename_exclusive(trash, slot, folder, name)
    except OSError as error:
        previous_state = STRANDED if was_stranded else TRASHED
        session.journal.append(
            item.number, previous_state, at_us=since_us, path=item.path, is_marked=True
        )
        raise ItemBlocked(f"it cannot be restored: {error.strerror}") from error
    remove_sidecars(trash, item.number)
    remove_listing(session.journal, item.number)
    sync_folder(folder)
    sync_folder(trash)
    finish_restore(session, item, folder, was_stranded=was_stranded)
