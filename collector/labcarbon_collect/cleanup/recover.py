"""Crash recovery: finds the actual state of interrupted items on disk and records it.

Items that cannot be checked now keep their journal state. A disk may be unmounted and another
folder visible at its path.
"""

from __future__ import annotations

import os
from contextlib import suppress

from labcarbon_collect.cleanup.client import CleanupItem
from labcarbon_collect.cleanup.journal import (
    DELETED,
    DELETING,
    MOVING,
    NOT_MOVED,
    REFUSED,
    RESTORED,
    RESTORING,
    STRANDED,
    TRASHED,
    JournalError,
    remove_listing,
)
from labcarbon_collect.cleanup.purge import record_purged
from labcarbon_collect.cleanup.restore import finish_restore
from labcarbon_collect.cleanup.safe_paths import (
    ItemBlocked,
    exists,
    open_parent,
    split_path,
    sync_folder,
)
from labcarbon_collect.cleanup.session import Session, verify_content
from labcarbon_collect.cleanup.trash import (
    is_same_trash,
    open_trash,
    remove_if_empty,
    slot_path,
    trash_location,
)
from labcarbon_collect.cleanup.trash_items import confirm_move, mark_trashed

_IN_PROGRESS = (MOVING, TRASHED, RESTORING, DELETING)
# refused items are in the trash only through an error of an older version
_RECOVERABLE = ("", REFUSED, *_IN_PROGRESS)
_FINISHED = (REFUSED, RESTORED, DELETED)
_MISSING_MESSAGE = "it was removed from the trash, but not by this command"


def recover(session: Session) -> None:
    """Reconcile journal and disk for each item. Raises OSError for the journal."""
    for item in session.plan.items:
        state = session.journal.state(item.number)
        if state in _RECOVERABLE and (state or item.outcome in ("trashed", "")):
            _recover_item(session, item, state)
    finished = [
        item for item in session.plan.items if session.journal.state(item.number) in _FINISHED
    ]
    for item in {os.path.dirname(item.path): item for item in finished}.values():
        with suppress(ItemBlocked), open_parent(item.path) as folder:
            remove_if_empty(folder, session.plan.uuid)


def _recover_item(session: Session, item: CleanupItem, state: str) -> None:
    try:
        with open_parent(item.path) as folder:
            with open_trash(folder, session.plan.uuid) as trash:
                if trash >= 0 and exists(trash, str(item.number)):
                    _recover_in_trash(session, item, state, folder, trash)
                elif state in _IN_PROGRESS and not is_same_trash(
                    session.journal.locations.get(item.number), folder, trash
                ):
                    raise ItemBlocked(
                        f"{slot_path(item.path, session.plan.uuid, item.number)} does not exist: "
                        "is its disk mounted?"
                    )
                else:
                    _recover_missing(session, item, state, folder, trash)
            if state:
                remove_if_empty(folder, session.plan.uuid)
    except ItemBlocked as reason:
        if session.journal.state(item.number) in _IN_PROGRESS:
            session.defer(item, str(reason))
    except JournalError:
        raise
    except OSError as error:
        if session.journal.state(item.number) not in _IN_PROGRESS:
            raise
        session.defer(item, str(error))


def _recover_in_trash(
    session: Session, item: CleanupItem, state: str, folder: int, trash: int
) -> None:
    """Recover an item whose content is in the trash."""
    entry = session.journal.entries.get(item.number, {})
    if state in (MOVING, REFUSED):
        try:
            confirm_move(session, item, folder, trash, None)
        except ItemBlocked:
            if exists(trash, str(item.number)):
                raise
            _recover_missing(session, item, state, folder, trash)
    # The journal was lost. The item counts as trashed from now on if its content is verified.
    elif not state:
        verify_content(session.on_block, trash, str(item.number), item, may_be_busy=True)
        mark_trashed(session, item, folder, trash, session.now())
    elif state == TRASHED and not entry.get("is_marked"):
        mark_trashed(session, item, folder, trash, session.journal.at_us(item.number))
    else:
        _update_location(session, item, folder, trash)
        if state == RESTORING:
            _recover_restoring(session, item, folder, trash)


def _update_location(session: Session, item: CleanupItem, folder: int, trash: int) -> None:
    """Update the location of the trash, whose numbers differ after a reboot or on a copied disk."""
    location = trash_location(folder, trash)
    if session.journal.locations.get(item.number) != location:
        entry = {**session.journal.entries[item.number], "place": location}
        del entry["line"]
        session.journal.append(item.number, entry.pop("state"), **entry)


def _recover_restoring(session: Session, item: CleanupItem, folder: int, trash: int) -> None:
    """Recover an item that was about to be restored and is still in the trash."""
    entry = session.journal.entries[item.number]
    was_stranded = bool(entry.get("was_held"))
    if _is_same_file(folder, split_path(item.path)[-1], trash, str(item.number)):
        os.unlink(str(item.number), dir_fd=trash)
        sync_folder(trash)
        _finish_interrupted_restore(session, item, folder, was_stranded=was_stranded)
    else:
        since_us = int(entry.get("since_us", session.now()))
        session.journal.append(
            item.number,
            STRANDED if was_stranded else TRASHED,
            at_us=since_us,
            path=item.path,
            is_marked=True,
        )


def _recover_missing(
    session: Session, item: CleanupItem, state: str, folder: int, trash: int
) -> None:
    """Recover an item whose content is not in the trash."""
    entry = session.journal.entries.get(item.number, {})
    if state == MOVING:
        session.journal.append(item.number, NOT_MOVED, at_us=session.now(), path=item.path)
    elif state == RESTORING:
        _finish_interrupted_restore(session, item, folder, was_stranded=bool(entry.get("was_held")))
    elif state == DELETING and trash >= 0:
        record_purged(session, item, folder, trash, int(entry.get("since_us", 0)))
    elif state == DELETING:
        remove_listing(session.journal, item.number)
        session.journal.append(
            item.number, DELETED, at_us=session.now(), path=item.path, by=session.by
        )
    elif state == TRASHED:
        reason = _restore_problem(session, item, folder)
        if reason:
            _mark_lost(session, item, reason)
        else:
            message = "it was restored manually"
            session.journal.append(
                item.number, RESTORED, at_us=session.now(), path=item.path, word=message
            )


def _finish_interrupted_restore(
    session: Session, item: CleanupItem, folder: int, *, was_stranded: bool
) -> None:
    """Recover an item that was about to be restored and is not in the trash. It counts as restored
    only if its content is verified.
    """
    reason = _restore_problem(session, item, folder, any_content=was_stranded)
    if reason:
        _mark_lost(session, item, reason)
    else:
        finish_restore(session, item, folder, was_stranded=was_stranded)


def _restore_problem(
    session: Session, item: CleanupItem, folder: int, *, any_content: bool = False
) -> str:
    """Return why the content at an item's path is not the restored item, or "". ``any_content``:
    the trashed content was not the approved one.
    """
    name = split_path(item.path)[-1]
    if not exists(folder, name):
        return _MISSING_MESSAGE
    try:
        if not any_content:
            verify_content(session.on_block, folder, name, item)
    except ItemBlocked as reason:
        return f"{_MISSING_MESSAGE}; the content at its path is different: {reason}"
    return ""


def _mark_lost(session: Session, item: CleanupItem, message: str) -> None:
    session.results.refused.append((item, message))
    session.journal.append(item.number, STRANDED, at_us=session.now(), path=item.path, word=message)


def _is_same_file(folder: int, name: str, trash: int, slot: str) -> bool:
    """Return whether both names are one file: a kill happened between link and unlink."""
    if not exists(folder, name):
        return False
    first, second = os.lstat(name, dir_fd=folder), os.lstat(slot, dir_fd=trash)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
