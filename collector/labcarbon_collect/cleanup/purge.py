"""Deleting what lay in the trash for the plan's days: asked about again, read again, and then exactly what was read."""

from __future__ import annotations

from typing import List

from labcarbon_collect.cleanup.client import CleanupItem
from labcarbon_collect.cleanup.content import FOLDER, delete
from labcarbon_collect.cleanup.journal import (
    DELETED,
    DELETING,
    TRASHED,
    JournalError,
    load_listing,
    remove_listing,
    save_listing,
)
from labcarbon_collect.cleanup.safe_paths import ItemBlocked, exists, open_parent
from labcarbon_collect.cleanup.session import Session, verify_content
from labcarbon_collect.cleanup.trash import open_trash, remove_if_empty, remove_sidecars, tombstone_content, write_tombstone

DAY_US = 86_400_000_000


def items_to_purge(work: Session) -> List[CleanupItem]:
    """The lines that lay in the trash for long enough or whose deletion was begun; others that lie there wait."""
    ready, now = [], work.now()
    for item in work.plan.items:
        state, at_us = work.journal.state(item.number), work.journal.at_us(item.number)
        if state == DELETING or (state == TRASHED and now >= at_us + work.plan.trash_days * DAY_US):
            ready.append(item)
        elif state == TRASHED:
            work.results.waiting.append(item)
    return ready


def purge(work: Session, items: List[CleanupItem]) -> None:
    """Delete lines that still go. Raises NotAnswered, OSError for the journal."""
    for item in items:
        _purge_item(work, item)
        if not work.dry_run:
            work.report_if_due()


def record_purged(work: Session, item: CleanupItem, folder: int, trash: int, since_us: int) -> str:
    """All of it is deleted: its tombstone says so, and that is noted. Returns why there is no tombstone. Raises OSError."""
    now, problem = work.now(), ""
    try:
        content = tombstone_content(work.plan, item, by=work.by, page=work.server.page, moved_us=since_us, deleted_us=now)
        write_tombstone(folder, trash, content)
    except (ItemBlocked, OSError) as error:
        problem = f"no tombstone could be put in its place ({error})"
    remove_sidecars(trash, item.number)
    remove_listing(work.journal, item.number)
    work.journal.append(item.number, DELETED, at_us=now, path=item.path, word=problem, by=work.by)
    return problem


def _purge_item(work: Session, item: CleanupItem) -> None:
    try:
        blocked_reason = work.blocked_reason(item)
        if blocked_reason:
            work.results.blocked.append((item, blocked_reason))
            return
        with open_parent(item.path) as folder:
            with open_trash(folder, work.plan.uuid) as trash:
                _purge_verified(work, item, folder, trash)
            if not work.dry_run:
                remove_if_empty(folder, work.plan.uuid)
    except ItemBlocked as reason:
        work.results.refused.append((item, f"{reason}; it is left in the trash"))
    except JournalError:
        raise
    except OSError as error:
        work.results.refused.append((item, f"{error}; the same command goes on"))


def _purge_verified(work: Session, item: CleanupItem, folder: int, trash: int) -> None:
    slot, is_begun = str(item.number), work.journal.state(item.number) == DELETING
    if trash < 0 or not exists(trash, slot):
        raise ItemBlocked("it is not in the trash")
    if is_begun and item.form == FOLDER:  # a part of it may be gone: nobody can tell its digest any more
        listing = load_listing(work.journal, trash, item.number)
    else:
        listing = verify_content(work.on_block, trash, slot, item)
        blocked_reason = work.blocked_reason(item)  # reading may have taken hours
        if blocked_reason:
            work.results.blocked.append((item, blocked_reason))
            return
    if work.dry_run:
        work.results.done.append((item, ""))
        return
    entry = work.journal.entries[item.number]
    since_us = int(entry.get("since_us", 0)) if is_begun else work.journal.at_us(item.number)
    if not is_begun:
        if item.form == FOLDER:
            save_listing(work.journal, item.number, listing)
        work.journal.append(item.number, DELETING, at_us=work.now(), path=item.path, since_us=since_us, by=work.by)
    delete(trash, slot, listing)
    work.results.done.append((item, record_purged(work, item, folder, trash, since_us)))
