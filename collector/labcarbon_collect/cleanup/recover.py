"""Going on behind a kill: what was about to be done is looked for on the disk, and noted as it is.

What cannot be looked at now stays as the journal says: a disk may be away, and another folder lie at its path meanwhile.
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
from labcarbon_collect.cleanup.safe_paths import ItemBlocked, exists, open_parent, split_path, sync_folder
from labcarbon_collect.cleanup.session import Session, verify_content
from labcarbon_collect.cleanup.trash import is_same_trash, open_trash, remove_if_empty, slot_path, trash_location
from labcarbon_collect.cleanup.trash_items import confirm_move, mark_trashed

_IN_PROGRESS = (MOVING, TRASHED, RESTORING, DELETING)
_RECOVERABLE = ("", REFUSED, *_IN_PROGRESS)  # what was refused is never in the trash, but by an older version's mistake
_FINISHED = (REFUSED, RESTORED, DELETED)
_MISSING_MESSAGE = "it is gone from the trash, and not by this command"


def recover(work: Session) -> None:
    """Bring the journal and the disk together, line by line. Raises OSError for the journal."""
    for item in work.plan.items:
        state = work.journal.state(item.number)
        if state in _RECOVERABLE and (state or item.outcome in ("trashed", "")):
            _recover_item(work, item, state)
    finished = [item for item in work.plan.items if work.journal.state(item.number) in _FINISHED]
    for item in {os.path.dirname(item.path): item for item in finished}.values():
        with suppress(ItemBlocked), open_parent(item.path) as folder:
            remove_if_empty(folder, work.plan.uuid)


def _recover_item(work: Session, item: CleanupItem, state: str) -> None:
    try:
        with open_parent(item.path) as folder:
            with open_trash(folder, work.plan.uuid) as trash:
                if trash >= 0 and exists(trash, str(item.number)):
                    _recover_in_trash(work, item, state, folder, trash)
                elif state in _IN_PROGRESS and not is_same_trash(work.journal.locations.get(item.number), folder, trash):
                    raise ItemBlocked(
                        f"{slot_path(item.path, work.plan.uuid, item.number)} is not there: is its disk mounted?"
                    )
                else:
                    _recover_missing(work, item, state, folder, trash)
            if state:
                remove_if_empty(folder, work.plan.uuid)
    except ItemBlocked as reason:
        if work.journal.state(item.number) in _IN_PROGRESS:
            work.defer(item, str(reason))
    except JournalError:
        raise
    except OSError as error:
        if work.journal.state(item.number) not in _IN_PROGRESS:
            raise
        work.defer(item, str(error))


def _recover_in_trash(work: Session, item: CleanupItem, state: str, folder: int, trash: int) -> None:
    """It lies in the trash."""
    entry = work.journal.entries.get(item.number, {})
    if state in (MOVING, REFUSED):
        try:
            confirm_move(work, item, folder, trash, None)
        except ItemBlocked:
            if exists(trash, str(item.number)):
                raise
            _recover_missing(work, item, state, folder, trash)
    elif not state:  # the journal was lost: it lies there from now on, if it is what this line says
        verify_content(work.on_block, trash, str(item.number), item, may_be_busy=True)
        mark_trashed(work, item, folder, trash, work.now())
    elif state == TRASHED and not entry.get("is_marked"):
        mark_trashed(work, item, folder, trash, work.journal.at_us(item.number))
    else:
        _update_location(work, item, folder, trash)
        if state == RESTORING:
            _recover_restoring(work, item, folder, trash)


def _update_location(work: Session, item: CleanupItem, folder: int, trash: int) -> None:
    """After a restart, or on a disk that was copied, the place that it is known by has other numbers."""
    location = trash_location(folder, trash)
    if work.journal.locations.get(item.number) != location:
        entry = {**work.journal.entries[item.number], "place": location}
        del entry["line"]
        work.journal.append(item.number, entry.pop("state"), **entry)


def _recover_restoring(work: Session, item: CleanupItem, folder: int, trash: int) -> None:
    """It was about to come back, and lies in the trash still."""
    entry = work.journal.entries[item.number]
    was_stranded = bool(entry.get("was_held"))
    if _is_same_file(folder, split_path(item.path)[-1], trash, str(item.number)):
        os.unlink(str(item.number), dir_fd=trash)
        sync_folder(trash)
        _finish_interrupted_restore(work, item, folder, was_stranded=was_stranded)
    else:
        since_us = int(entry.get("since_us", work.now()))
        work.journal.append(
            item.number, STRANDED if was_stranded else TRASHED, at_us=since_us, path=item.path, is_marked=True
        )


def _recover_missing(work: Session, item: CleanupItem, state: str, folder: int, trash: int) -> None:
    """It does not lie in the trash."""
    entry = work.journal.entries.get(item.number, {})
    if state == MOVING:
        work.journal.append(item.number, NOT_MOVED, at_us=work.now(), path=item.path)
    elif state == RESTORING:
        _finish_interrupted_restore(work, item, folder, was_stranded=bool(entry.get("was_held")))
    elif state == DELETING and trash >= 0:
        record_purged(work, item, folder, trash, int(entry.get("since_us", 0)))
    elif state == DELETING:
        remove_listing(work.journal, item.number)
        work.journal.append(item.number, DELETED, at_us=work.now(), path=item.path, by=work.by)
    elif state == TRASHED:
        reason = _restore_problem(work, item, folder)
        if reason:
            _mark_lost(work, item, reason)
        else:
            message = "somebody took it out of the trash by hand"
            work.journal.append(item.number, RESTORED, at_us=work.now(), path=item.path, word=message)


def _finish_interrupted_restore(work: Session, item: CleanupItem, folder: int, *, was_stranded: bool) -> None:
    """It was about to come back and is not in the trash: told so only if it is read in its place."""
    reason = _restore_problem(work, item, folder, any_content=was_stranded)
    if reason:
        _mark_lost(work, item, reason)
    else:
        finish_restore(work, item, folder, was_stranded=was_stranded)


def _restore_problem(work: Session, item: CleanupItem, folder: int, *, any_content: bool = False) -> str:
    """Why what has a line's name is not what went, '' where it is. ``is_any``: what went was not what was approved."""
    name = split_path(item.path)[-1]
    if not exists(folder, name):
        return _MISSING_MESSAGE
    try:
        if not any_content:
            verify_content(work.on_block, folder, name, item)
    except ItemBlocked as reason:
        return f"{_MISSING_MESSAGE}; what has its name now is not it: {reason}"
    return ""


def _mark_lost(work: Session, item: CleanupItem, message: str) -> None:
    work.results.refused.append((item, message))
    work.journal.append(item.number, STRANDED, at_us=work.now(), path=item.path, word=message)


def _is_same_file(folder: int, name: str, trash: int, slot: str) -> bool:
    """Whether both names are of one file: a kill came between giving it the second and taking the first."""
    if not exists(folder, name):
        return False
    first, second = os.lstat(name, dir_fd=folder), os.lstat(slot, dir_fd=trash)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
