"""Moving what goes to the trash: read, asked about once more, looked at once more, noted, moved, looked at again."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Dict, List, Optional, Sequence, Set

from labcarbon_collect.cleanup.client import CleanupItem, CleanupPlan
from labcarbon_collect.cleanup.content import BlockCallback, Listing, list_content, no_writers
from labcarbon_collect.cleanup.journal import MOVING, NOT_MOVED, REFUSED, RESTORED, STRANDED, TRASHED, Journal
from labcarbon_collect.cleanup.open_files import FileBusy
from labcarbon_collect.cleanup.safe_paths import ItemBlocked, exists, open_parent, rename_exclusive, split_path, sync_folder
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
    """Nobody waits for what is read any more."""


class Prefetcher:
    """Reads lines. ``threads``: how many at once; ``hashed``: told of each block that is read, by one thread at a time."""

    def __init__(self, plan: CleanupPlan, on_block: BlockCallback, threads: int) -> None:
        self._plan, self._hashed, self._threads = plan, on_block, threads
        self._lock, self._is_closed = threading.Lock(), threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._futures: Dict[int, Future[Listing]] = {}

    def start(self, items: Sequence[CleanupItem]) -> None:
        """Begin with the next of these, unless they are begun, or lie in a folder of the plan and most likely go with that.
        One waits, so that no thread stands idle."""
        for item in items[: self._threads + 1]:
            if item.number not in self._futures and not any(self._plan.enclosing_items(item.path)):
                self._futures[item.number] = self._pool.submit(self._read, item)

    def result(self, item: CleanupItem) -> Listing:
        """What lies at a line's place, if it is what the line says to the last byte. Raises Stays."""
        future = self._futures.pop(item.number, None)
        return future.result() if future is not None else self._read(item)

    def cancel(self, item: CleanupItem) -> None:
        """It was not asked for."""
        future = self._futures.pop(item.number, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Have the threads end with the block that they read now."""
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
    """Nobody can tell now whether something was moved."""


def items_to_move(plan: CleanupPlan, journal: Journal) -> List[CleanupItem]:
    """The lines that may go and were not dealt with, folders before what lies in them.

    What was brought back stays for good. What was refused is tried again for as long as the plan is not closed.
    """
    selected = []
    for item in plan.items:
        state = journal.state(item.number)
        is_new = (state or item.outcome) in ("", MOVING)
        is_retry = state in ("", REFUSED) and item.outcome in ("", "refused") and plan.state == "approved"
        if not item.blocked_reason and (is_new or is_retry):
            selected.append(item)
    return sorted(selected, key=lambda item: sort_key(item.path))


def sort_key(path: str) -> List[str]:
    """For sorting: a folder comes before what lies in it."""
    return path.split("/")


def move_items(work: Session) -> None:
    """Move what goes. Raises NotAnswered, OSError for the journal.

    Of the same content one copy goes at a time; the server is told and asked before the next: it knows which is the last.
    """
    tried: Set[int] = set(work.in_doubt)
    while True:
        batch = _one_per_digest(work.plan, items_to_move(work.plan, work.journal), tried)
        if not batch:
            return
        tried.update(item.number for item in batch)
        with closing(Prefetcher(work.plan, work.on_block, work.threads)) as ahead:
            for number, item in enumerate(batch):
                ahead.start(batch[number : number + work.threads + 1])
                move_item(work, item, ahead)
                ahead.cancel(item)
                if not work.dry_run:
                    work.report_if_due()
        if not work.dry_run and _one_per_digest(work.plan, items_to_move(work.plan, work.journal), tried):
            work.report()
            work.refresh_plan()


def move_item(work: Session, item: CleanupItem, ahead: Prefetcher) -> None:
    """Move one line, or say why not. Raises NotAnswered, OSError for the journal."""
    parent = work.parent_in_trash(item)
    if parent is not None:
        work.results.with_parent.append((item, f"with {parent.path} (line {parent.number}), and comes back with it"))
        return
    waiting_reason = _waiting_reason(work, item)
    if waiting_reason:
        work.results.refused.append((item, waiting_reason))
        return
    try:
        _check_contents(work, item)
        listing = ahead.result(item)
        blocked_reason = "" if work.dry_run else work.blocked_reason(item)
        if blocked_reason:
            work.results.blocked.append((item, blocked_reason))
        elif work.dry_run:
            work.results.done.append((item, ""))
        else:
            with open_parent(item.path) as folder:
                _move(work, item, folder, split_path(item.path)[-1], listing)
    except MoveUncertain as reason:
        work.defer(item, str(reason))
    except FileBusy as reason:
        _skip_busy(work, item, str(reason))
    except ItemBlocked as reason:
        if work.journal.state(item.number) != STRANDED:
            work.refuse(item, str(reason))


def _skip_busy(work: Session, item: CleanupItem, reason: str) -> None:
    """It was not moved, or put back. Told as refused it could end the plan: it is told as nothing, and tried again."""
    state = work.journal.state(item.number)
    if state == MOVING:
        work.journal.append(item.number, NOT_MOVED, at_us=work.now(), path=item.path)
    if state != STRANDED:
        work.results.refused.append((item, reason))


def confirm_move(work: Session, item: CleanupItem, folder: int, trash: int, listing: Optional[Listing]) -> None:
    """What was renamed to the trash is the very thing that was read, or it goes back. ``seen`` None: after a kill nobody
    knows what was read, so it is read again. Raises Stays, OSError for the journal."""
    slot = str(item.number)
    try:
        if listing is None:
            verify_content(work.on_block, trash, slot, item)
        else:
            with no_writers(trash, slot, listing):
                if not listing.is_same_after_move(list_content(trash, slot)):
                    raise ItemBlocked("it was changed or swapped just before it was moved")
    except ItemBlocked as reason:
        _put_back(work, item, folder, trash, str(reason))
        raise type(reason)(f"{reason}; it was put back") from reason
    work.results.done.append((item, mark_trashed(work, item, folder, trash, work.now())))


def mark_trashed(work: Session, item: CleanupItem, folder: int, trash: int, at_us: int) -> str:
    """Note that it lies in the trash since ``at_us``, with its tombstone; return why there is none. Raises OSError."""
    problem = ""
    try:  # with the tombstone both folders are on disk, before the journal says that it went
        write_tombstone(folder, trash, tombstone_content(work.plan, item, by=work.by, page=work.server.page, moved_us=at_us))
    except (ItemBlocked, OSError) as error:
        problem = f"no tombstone could be put in its place ({error}): the next call tries again"
        sync_folder(trash)
        sync_folder(folder)
    place = trash_location(folder, trash)
    work.journal.append(item.number, TRASHED, at_us=at_us, path=item.path, is_marked=not problem, place=place)
    return problem


def _move(work: Session, item: CleanupItem, folder: int, name: str, listing: Listing) -> None:
    slot = str(item.number)
    try:
        with open_trash(folder, work.plan.uuid, create=True) as trash:
            if exists(trash, slot):
                raise ItemBlocked(f"something lies at {slot_path(item.path, work.plan.uuid, item.number)} already")
            _check_unchanged(folder, name, listing)
            work.journal.append(
                item.number, MOVING, at_us=work.now(), path=item.path, digest=item.digest, form=item.form, by=work.by,
                lies_at=slot_path(item.path, work.plan.uuid, item.number), place=trash_location(folder, trash),
            )  # fmt: skip
            with no_writers(folder, name, listing):  # the journal took its time: the last look is the rename's neighbour
                _check_unchanged(folder, name, listing)
                _rename(folder, name, trash, slot)
            confirm_move(work, item, folder, trash, listing)
    except ItemBlocked:
        remove_if_empty(folder, work.plan.uuid)
        raise


def _check_unchanged(folder: int, name: str, listing: Listing) -> None:
    if list_content(folder, name) != listing:
        raise ItemBlocked("it changed after it was read")


def _rename(folder: int, name: str, trash: int, slot: str) -> None:
    """Move it. A network file system may say that it failed where it was done. Raises Stays, Unsettled."""
    try:
        os.rename(name, slot, src_dir_fd=folder, dst_dir_fd=trash)
    except OSError as error:
        reason = f"it cannot be moved: {error.strerror}"
        try:
            is_moved = exists(trash, slot)
        except ItemBlocked as unknown:
            raise MoveUncertain(f"{reason}; {unknown}") from error
        if is_moved:
            raise MoveUncertain(f"{reason}, and it lies in the trash all the same") from error
        raise ItemBlocked(reason) from error


def _put_back(work: Session, item: CleanupItem, folder: int, trash: int, reason: str) -> None:
    where = slot_path(item.path, work.plan.uuid, item.number)
    try:
        rename_exclusive(trash, str(item.number), folder, split_path(item.path)[-1])
    except OSError as error:
        problem = f"{reason}; it cannot be put back ({error.strerror}): it lies at {where}"
        work.journal.append(item.number, STRANDED, at_us=work.now(), path=item.path, word=problem)
        work.results.refused.append((item, problem))
        raise ItemBlocked(problem) from error
    sync_folder(folder)


def _waiting_reason(work: Session, item: CleanupItem) -> str:
    """Why a line waits for one that may lie in the trash or not: it lies in that, or the server takes that for a copy that
    is left."""
    for other in work.moves_in_doubt:
        if other.digest == item.digest or item.path.startswith(other.path + "/"):
            return f"it waits for {other.path} (line {other.number}), of which nobody can tell now whether it was moved"
    return ""


def _check_contents(work: Session, item: CleanupItem) -> None:
    """A folder does not take with it what stays."""
    if TRASH in split_path(item.path):
        raise ItemBlocked("it lies in a trash")
    for other in work.plan.items_inside(item.path):
        blocked_reason = other.blocked_reason or (
            "it was brought back" if work.journal.state(other.number) == RESTORED else ""
        )
        if blocked_reason:
            raise ItemBlocked(f"{other.path} in it stays ({blocked_reason})")


def _one_per_digest(plan: CleanupPlan, items: List[CleanupItem], tried: Set[int]) -> List[CleanupItem]:
    """A folder counts with all that lies in it, of which there is one of each, too: what did not go with it goes alone."""
    selected: List[CleanupItem] = []
    taken_numbers: Set[int] = set()
    outside: Set[str] = set()
    inside: Set[str] = set()
    for item in items:
        if item.number in tried:
            continue
        digests_of_item = {item.digest, *(other.digest for other in plan.items_inside(item.path))}
        used_digests = (
            inside if any(enclosing.number in taken_numbers for enclosing in plan.enclosing_items(item.path)) else outside
        )
        if not digests_of_item & used_digests:
            used_digests |= digests_of_item
            taken_numbers.add(item.number)
            selected.append(item)
    return selected
