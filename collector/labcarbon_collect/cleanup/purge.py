"""Deletes items whose retention period in the trash is over. Checks the plan again and reads the
content again first.
"""

from __future__ import annotations

from typing import List

from labcarbon_collect.cleanup.client import CleanupItem
from labcarbon_collect.cleanup.content import delete
from labcarbon_collect.cleanup.journal import (
    DELETED,
    DELETING,
    TRASHED,
    JournalError,
    load_listing,
    remove_listing,
    save_listing,
)
from labcarbon_collect.cleanup.listings import FOLDER
from labcarbon_collect.cleanup.safe_paths import ItemBlocked, exists, open_parent
from labcarbon_collect.cleanup.session import Session, verify_content
from labcarbon_collect.cleanup.trash import (
    open_trash,
    remove_if_empty,
    remove_sidecars,
    tombstone_content,
    write_tombstone,
)

DAY_US = 86_400_000_000


def items_to_purge(session: Session) -> List[CleanupItem]:
    """Return items whose retention period in the trash is over or whose deletion was started. Other
    trashed items are recorded as waiting.
    """
    ready, now = [], session.now()
    for item in session.plan.items:
        state, at_us = session.journal.state(item.number), session.journal.at_us(item.number)
        if state == DELETING or (
            state == TRASHED and now >= at_us + session.plan.trash_days * DAY_US
        ):
            ready.append(item)
        elif state == TRASHED:
            session.results.waiting.append(item)
    return ready


def purge(session: Session, items: List[CleanupItem]) -> None:
    """Delete items that are still eligible. Raises PlanServerError, OSError for the journal."""
    for item in items:
        _purge_item(session, item)
        if not session.dry_run:
            session.report_if_due()


def record_purged(
    session: Session, item: CleanupItem, folder: int, trash: int, since_us: int
) -> str:
    """Write the tombstone and the journal entry of deleted content. Returns why there is no
    tombstone, or "". Raises OSError.
    """
    now, problem = session.now(), ""
    try:
        content = tombstone_content(
            session.plan,
            item,
            by=session.by,
            page=session.server.page,
            moved_us=since_us,
            deleted_us=now,
        )
        write_tombstone(folder, trash, content)
    except (ItemBlocked, OSError) as error:
        problem = f"no tombstone could be written ({error})"
    remove_sidecars(trash, item.number)
    remove_listing(session.journal, item.number)
    session.journal.append(
        item.number, DELETED, at_us=now, path=item.path, word=problem, by=session.by
    )
    return problem


def _purge_item(session: Session, item: CleanupItem) -> None:
    try:
        blocked_reason = session.blocked_reason(item)
        if blocked_reason:
            session.results.blocked.append((item, blocked_reason))
            return
        with open_parent(item.path) as folder:
            with open_trash(folder, session.plan.uuid) as trash:
                _purge_verified(session, item, folder, trash)
            if not session.dry_run:
                remove_if_empty(folder, session.plan.uuid)
    except ItemBlocked as reason:
        session.results.refused.append((item, f"{reason}; it stays in the trash"))
    except JournalError:
        raise
    except OSError as error:
        session.results.refused.append((item, f"{error}; run the same command to continue"))


def _purge_verified(session: Session, item: CleanupItem, folder: int, trash: int) -> None:
    slot, is_started = str(item.number), session.journal.state(item.number) == DELETING
    if trash < 0 or not exists(trash, slot):
        raise ItemBlocked("it is not in the trash")
    # Parts may be deleted already, so the digest cannot be verified.
    if is_started and item.form == FOLDER:
        listing = load_listing(session.journal, trash, item.number)
    else:
        listing = verify_content(session.on_block, trash, slot, item)
        blocked_reason = session.blocked_reason(item)  # Reading may have taken hours.
        if blocked_reason:
            session.results.blocked.append((item, blocked_reason))
            return
    if session.dry_run:
        session.results.done.append((item, ""))
        return
    entry = session.journal.entries[item.number]
    since_us = int(entry.get("since_us", 0)) if is_started else session.journal.at_us(item.number)
    if not is_started:
        if item.form == FOLDER:
            save_listing(session.journal, item.number, listing)
        session.journal.append(
            item.number,
            DELETING,
            at_us=session.now(),
            path=item.path,
            since_us=since_us,
            by=session.by,
        )
    delete(trash, slot, listing)
    session.results.done.append((item, record_purged(session, item, folder, trash, since_us)))
