"""Moves items to the trash: verifies the content, checks the plan and the listing again, writes the
journal, renames, and verifies the result.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Dict, List, Optional, Sequence, Set

from labcarbon_collect.cleanup.client import CleanupItem, CleanupPlan
from labcarbon_collect.cleanup.content import BlockCallback, no_writers
from labcarbon_collect.cleanup.journal import (
    MOVING,
    NOT_MOVED,
    REFUSED,
    RESTORED,
    STRANDED,
    TRASHED,
    Journal,
)
from labcarbon_collect.cleanup.listings import Listing, list_content
from labcarbon_collect.cleanup.open_files import FileBusy
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
    TRASH,
    open_trash,
    remove_if_empty,
    slot_path,
    tombstone_content,
    trash_location,
    write_tombstone,
)


class _Stopped(Exception):
    """The prefetcher is closed."""


class Prefetcher:
    """Reads items ahead in threads. ``threads``: number of parallel reads. ``on_block``: called for
    each block, by one thread at a time.
    """

    def __init__(self, plan: CleanupPlan, on_block: BlockCallback, threads: int) -> None:
        self._plan, self._hashed, self._threads = plan, on_block, threads
        self._lock, self._is_closed = threading.Lock(), threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._futures: Dict[int, Future[Listing]] = {}

    def start(self, items: Sequence[CleanupItem]) -> None:
        """Start reading the next items. Skips items inside folders of the plan, which usually move
        with their folder. One extra item waits, so that no thread is idle.
        """
        for item in items[: self._threads + 1]:
            if item.number not in self._futures and not any(self._plan.enclosing_items(item.path)):
                self._futures[item.number] = self._pool.submit(self._read, item)

    def result(self, item: CleanupItem) -> Listing:
        """Return the listing of an item's content if it matches the item exactly. Raises
        ItemBlocked.
        """
        future = self._futures.pop(item.number, None)
        return future.result() if future is not None else self._read(item)

    def cancel(self, item: CleanupItem) -> None:
        """Discard an item that was not used."""
        future = self._futures.pop(item.number, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Stop the threads after their current block."""
        self._is_closed.set()
        self._pool.shutdown(cancel_futures=True)

    def _read(self, item: CleanupItem) -> Listing:
        with open_parent(item.path) as folder:
            return verify_content(self._count, folder, split_path(item.path)[-1], item)

    def _count(self, size: int) -> None:
        if self._is_closed.is_set():
            raise _Stopped
        with self._lock:
            self._hashed(size)


class MoveUncertain(ItemBlocked):
    """It is unknown whether content was moved."""


def items_to_move(plan: CleanupPlan, journal: Journal) -> List[CleanupItem]:
    """Return eligible items that are not processed, folders before their content.

    Restored items are never moved again. Refused items are retried while the plan is open.
    """
    selected = []
    for item in plan.items:
        state = journal.state(item.number)
        is_new = (state or item.outcome) in ("", MOVING)
        is_retry = (
            state in ("", REFUSED) and item.outcome in ("", "refused") and plan.state == "approved"
        )
        if not item.blocked_reason and (is_new or is_retry):
            selected.append(item)
    return sorted(selected, key=lambda item: sort_key(item.path))


def sort_key(path: str) -> List[str]:
    """Return a sort key that puts a folder before its content."""
    return path.split("/")


def move_items(session: Session) -> None:
    """Move eligible items. Raises PlanServerError, OSError for the journal.

    Of identical content only one copy moves at a time. The plan is reported and fetched again
    before the next one, because the server knows which copy is the last.
    """
    tried: Set[int] = set(session.in_doubt)
    while True:
        batch = _one_per_digest(session.plan, items_to_move(session.plan, session.journal), tried)
        if not batch:
            return
        tried.update(item.number for item in batch)
        with closing(Prefetcher(session.plan, session.on_block, session.threads)) as ahead:
            for number, item in enumerate(batch):
                ahead.start(batch[number : number + session.threads + 1])
                move_item(session, item, ahead)
                ahead.cancel(item)
                if not session.dry_run:
                    session.report_if_due()
        if not session.dry_run and _one_per_digest(
            session.plan, items_to_move(session.plan, session.journal), tried
        ):
            session.report()
            session.refresh_plan()


def move_item(session: Session, item: CleanupItem, ahead: Prefetcher) -> None:
    """Move one item, or record why not. Raises PlanServerError, OSError for the journal."""
    parent = session.parent_in_trash(item)
    if parent is not None:
        session.results.with_parent.append(
            (item, f"with {parent.path} (item {parent.number}); it is restored with it")
        )
        return
    waiting_reason = _waiting_reason(session, item)
    if waiting_reason:
        session.results.refused.append((item, waiting_reason))
        return
    try:
        _check_contents(session, item)
        listing = ahead.result(item)
        blocked_reason = "" if session.dry_run else session.blocked_reason(item)
        if blocked_reason:
            session.results.blocked.append((item, blocked_reason))
        elif session.dry_run:
            session.results.done.append((item, ""))
        else:
            with open_parent(item.path) as folder:
                _move(session, item, folder, split_path(item.path)[-1], listing)
    except MoveUncertain as reason:
        session.defer(item, str(reason))
    except FileBusy as reason:
        _skip_busy(session, item, str(reason))
    except ItemBlocked as reason:
        if session.journal.state(item.number) != STRANDED:
            session.refuse(item, str(reason))


def _skip_busy(session: Session, item: CleanupItem, reason: str) -> None:
    """Skip a busy item for now. A reported refusal could complete the plan, so nothing is
    reported.
    """
    state = session.journal.state(item.number)
    if state == MOVING:
        session.journal.append(item.number, NOT_MOVED, at_us=session.now(), path=item.path)
    if state != STRANDED:
        session.results.refused.append((item, reason))


def confirm_move(
    session: Session, item: CleanupItem, folder: int, trash: int, listing: Optional[Listing]
) -> None:
    """Verify that the renamed content is the content that was read, else put it back.

    ``listing`` None: after a kill the listing is unknown, so the content is read again. Raises
    ItemBlocked, OSError for the journal.
    """
    slot = str(item.number)
    try:
        if listing is None:
            verify_content(session.on_block, trash, slot, item)
        else:
            with no_writers(trash, slot, listing):
                if not listing.is_same_after_move(list_content(trash, slot, listing.blobs)):
                    raise ItemBlocked("it was changed or replaced just before the move")
    except ItemBlocked as reason:
        _put_back(session, item, folder, trash, str(reason))
        raise type(reason)(f"{reason}; it was put back") from reason
    session.results.done.append((item, mark_trashed(session, item, folder, trash, session.now())))


def mark_trashed(session: Session, item: CleanupItem, folder: int, trash: int, at_us: int) -> str:
    """Record an item as trashed since ``at_us`` and write its tombstone. Returns why there is none,
    or "". Raises OSError.
    """
    problem = ""
    try:  # Writing the tombstone flushes both folders before the journal records the move.
        write_tombstone(
            folder,
            trash,
            tombstone_content(
                session.plan, item, by=session.by, page=session.server.page, moved_us=at_us
            ),
        )
    except (ItemBlocked, OSError) as error:
        problem = f"no tombstone could be written ({error}): the next call tries again"
        sync_folder(trash)
        sync_folder(folder)
    place = trash_location(folder, trash)
    session.journal.append(
        item.number, TRASHED, at_us=at_us, path=item.path, is_marked=not problem, place=place
    )
    return problem


def _move(session: Session, item: CleanupItem, folder: int, name: str, listing: Listing) -> None:
    slot = str(item.number)
    try:
        with open_trash(folder, session.plan.uuid, create=True) as trash:
            if exists(trash, slot):
                raise ItemBlocked(
                    f"{slot_path(item.path, session.plan.uuid, item.number)} already exists"
                )
            _check_unchanged(folder, name, listing)
            session.journal.append(
                item.number,
                MOVING,
                at_us=session.now(),
                path=item.path,
                digest=item.digest,
                form=item.form,
                by=session.by,
                lies_at=slot_path(item.path, session.plan.uuid, item.number),
                place=trash_location(folder, trash),
            )
            # The journal takes time, so the last check is directly before the rename.
            with no_writers(folder, name, listing):
                _check_unchanged(folder, name, listing)
                _rename(folder, name, trash, slot)
            confirm_move(session, item, folder, trash, listing)
    except ItemBlocked:
        remove_if_empty(folder, session.plan.uuid)
        raise


def _check_unchanged(folder: int, name: str, listing: Listing) -> None:
    if list_content(folder, name, listing.blobs) != listing:
        raise ItemBlocked("it changed after it was read")


def _rename(folder: int, name: str, trash: int, slot: str) -> None:
    """Rename the content into the trash. A network file system may report failure after a success.
    Raises ItemBlocked, MoveUncertain.
    """
    try:
        os.rename(name, slot, src_dir_fd=folder, dst_dir_fd=trash)
    except OSError as error:
        reason = f"it cannot be moved: {error.strerror}"
        try:
            is_moved = exists(trash, slot)
        except ItemBlocked as unknown:
            raise MoveUncertain(f"{reason}; {unknown}") from error
        if is_moved:
            raise MoveUncertain(f"{reason}, but it is in the trash") from error
        raise ItemBlocked(reason) from error


def _put_back(session: Session, item: CleanupItem, folder: int, trash: int, reason: str) -> None:
    where = slot_path(item.path, session.plan.uuid, item.number)
    try:
        rename_exclusive(trash, str(item.number), folder, split_path(item.path)[-1])
    except OSError as error:
        problem = f"{reason}; it cannot be put back ({error.strerror}): it is at {where}"
        session.journal.append(
            item.number, STRANDED, at_us=session.now(), path=item.path, word=problem
        )
        session.results.refused.append((item, problem))
        raise ItemBlocked(problem) from error
    sync_folder(folder)


def _waiting_reason(session: Session, item: CleanupItem) -> str:
    """Return why an item waits for another one whose move is uncertain: it is inside that folder,
    or the server counts that copy as remaining.
    """
    for other in session.moves_in_doubt:
        if other.digest == item.digest or item.path.startswith(other.path + "/"):
            return f"it waits for {other.path} (item {other.number}), whose move is uncertain"
    return ""


def _check_contents(session: Session, item: CleanupItem) -> None:
    """Raise ItemBlocked if a folder contains an item that must stay."""
    if TRASH in split_path(item.path):
        raise ItemBlocked("it is inside a trash folder")
    for other in session.plan.items_inside(item.path):
        blocked_reason = other.blocked_reason or (
            "it was restored" if session.journal.state(other.number) == RESTORED else ""
        )
        if blocked_reason:
            raise ItemBlocked(f"{other.path} in it must stay ({blocked_reason})")


def _one_per_digest(
    plan: CleanupPlan, items: List[CleanupItem], tried: Set[int]
) -> List[CleanupItem]:
    """Return one item per digest. A folder counts with all its content; content left behind by a
    moved folder is processed on its own.
    """
    selected: List[CleanupItem] = []
    selected_numbers: Set[int] = set()
    outside: Set[str] = set()
    inside: Set[str] = set()
    for item in items:
        if item.number in tried:
            continue
        digests_of_item = {item.digest, *(other.digest for other in plan.items_inside(item.path))}
        used_digests = (
            inside
            if any(
                enclosing.number in selected_numbers
                for enclosing in plan.enclosing_items(item.path)
            )
            else outside
        )
        if not digests_of_item & used_digests:
            used_digests |= digests_of_item
            selected_numbers.add(item.number)
            selected.append(item)
    return selected
