"""Moving what goes to the trash: read, asked about once more, looked at once more, noted, moved, looked at again."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Dict, List, Optional, Sequence, Set

from labcarbon_collect.cleanup.client import Line, Plan
from labcarbon_collect.cleanup.content import Hashed, Listing, idle, listed
from labcarbon_collect.cleanup.journal import HELD, MOVING, NOT_MOVED, REFUSED, RESTORED, TRASHED, Journal
from labcarbon_collect.cleanup.open_files import Busy
from labcarbon_collect.cleanup.safe_paths import Stays, folder_of, lies, move_anew, on_disk, parts
from labcarbon_collect.cleanup.session import Work, verified
from labcarbon_collect.cleanup.trash import TRASH, clear_away, place_of, put, slot_path, tombstone, trash_in


class _Stopped(Exception):
    """Nobody waits for what is read any more."""


class Ahead:
    """Reads lines. ``threads``: how many at once; ``hashed``: told of each block that is read, by one thread at a time."""

    def __init__(self, plan: Plan, hashed: Hashed, threads: int) -> None:
        self._plan, self._hashed, self._threads = plan, hashed, threads
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._begun: Dict[int, Future[Listing]] = {}

    def begin(self, lines: Sequence[Line]) -> None:
        """Begin with the next of these, unless they are begun, or lie in a folder of the plan and most likely go with that.
        One waits, so that no thread stands idle."""
        for line in lines[: self._threads + 1]:
            if line.number not in self._begun and not any(self._plan.around(line.path)):
                self._begun[line.number] = self._pool.submit(self._read, line)

    def take(self, line: Line) -> Listing:
        """What lies at a line's place, if it is what the line says to the last byte. Raises Stays."""
        begun = self._begun.pop(line.number, None)
        return begun.result() if begun is not None else self._read(line)

    def forget(self, line: Line) -> None:
        """It was not asked for."""
        begun = self._begun.pop(line.number, None)
        if begun is not None:
            begun.cancel()

    def close(self) -> None:
        """Have the threads end with the block that they read now."""
        self._is_over.set()
        self._pool.shutdown(cancel_futures=True)

    def _read(self, line: Line) -> Listing:
        with folder_of(line.path) as folder:
            return verified(self._count, folder, parts(line.path)[-1], line)

    def _count(self, size: int) -> None:
        if self._is_over.is_set():
            raise _Stopped
        with self._lock:
            self._hashed(size)


class Unsettled(Stays):
    """Nobody can tell now whether something was moved."""


def to_move(plan: Plan, journal: Journal) -> List[Line]:
    """The lines that may go and were not dealt with, folders before what lies in them.

    What was brought back stays for good. What was refused is tried again for as long as the plan is not closed.
    """
    found = []
    for line in plan.lines:
        state = journal.state(line.number)
        is_new = (state or line.outcome) in ("", MOVING)
        again = state in ("", REFUSED) and line.outcome in ("", "refused") and plan.state == "approved"
        if not line.stays and (is_new or again):
            found.append(line)
    return sorted(found, key=lambda line: parts_of(line.path))


def parts_of(path: str) -> List[str]:
    """For sorting: a folder comes before what lies in it."""
    return path.split("/")


def move_all(work: Work) -> None:
    """Move what goes. Raises NotAnswered, OSError for the journal.

    Of the same content one copy goes at a time; the server is told and asked before the next: it knows which is the last.
    """
    tried: Set[int] = set(work.unsettled)
    while True:
        batch = _one_of_each(work.plan, to_move(work.plan, work.journal), tried)
        if not batch:
            return
        tried.update(line.number for line in batch)
        with closing(Ahead(work.plan, work.hashed, work.threads)) as ahead:
            for number, line in enumerate(batch):
                ahead.begin(batch[number : number + work.threads + 1])
                move(work, line, ahead)
                ahead.forget(line)
                if not work.is_dry:
                    work.tell_now_and_then()
        if not work.is_dry and _one_of_each(work.plan, to_move(work.plan, work.journal), tried):
            work.tell()
            work.ask()


def move(work: Work, line: Line, ahead: Ahead) -> None:
    """Move one line, or say why not. Raises NotAnswered, OSError for the journal."""
    with_folder = work.went_with(line)
    if with_folder is not None:
        work.told.along.append((line, f"with {with_folder.path} (line {with_folder.number}), and comes back with it"))
        return
    waits = _waits(work, line)
    if waits:
        work.told.refused.append((line, waits))
        return
    try:
        _beside(work, line)
        seen = ahead.take(line)
        stays = "" if work.is_dry else work.stays(line)
        if stays:
            work.told.stays.append((line, stays))
        elif work.is_dry:
            work.told.done.append((line, ""))
        else:
            with folder_of(line.path) as folder:
                _move(work, line, folder, parts(line.path)[-1], seen)
    except Unsettled as why:
        work.leave(line, str(why))
    except Busy as why:
        _not_now(work, line, str(why))
    except Stays as why:
        if work.journal.state(line.number) != HELD:
            work.refuse(line, str(why))


def _not_now(work: Work, line: Line, why: str) -> None:
    """It was not moved, or put back. Told as refused it could end the plan: it is told as nothing, and tried again."""
    state = work.journal.state(line.number)
    if state == MOVING:
        work.journal.note(line.number, NOT_MOVED, at_us=work.now(), path=line.path)
    if state != HELD:
        work.told.refused.append((line, why))


def settle(work: Work, line: Line, folder: int, trash: int, seen: Optional[Listing]) -> None:
    """What was renamed to the trash is the very thing that was read, or it goes back. ``seen`` None: after a kill nobody
    knows what was read, so it is read again. Raises Stays, OSError for the journal."""
    slot = str(line.number)
    try:
        if seen is None:
            verified(work.hashed, trash, slot, line)
        else:
            with idle(trash, slot, seen):
                if not seen.same_after_a_move(listed(trash, slot)):
                    raise Stays("it was changed or swapped just before it was moved")
    except Stays as why:
        _put_back(work, line, folder, trash, str(why))
        raise type(why)(f"{why}; it was put back") from why
    work.told.done.append((line, mark(work, line, folder, trash, work.now())))


def mark(work: Work, line: Line, folder: int, trash: int, at_us: int) -> str:
    """Note that it lies in the trash since ``at_us``, with its tombstone; return why there is none. Raises OSError."""
    word = ""
    try:  # with the tombstone both folders are on disk, before the journal says that it went
        put(folder, trash, tombstone(work.plan, line, by=work.by, page=work.server.page, moved_us=at_us))
    except (Stays, OSError) as error:
        word = f"no tombstone could be put in its place ({error}): the next call tries again"
        on_disk(trash)
        on_disk(folder)
    place = place_of(folder, trash)
    work.journal.note(line.number, TRASHED, at_us=at_us, path=line.path, is_marked=not word, place=place)
    return word


def _move(work: Work, line: Line, folder: int, name: str, seen: Listing) -> None:
    slot = str(line.number)
    try:
        with trash_in(folder, work.plan.uuid, make=True) as trash:
            if lies(trash, slot):
                raise Stays(f"something lies at {slot_path(line.path, work.plan.uuid, line.number)} already")
            _look(folder, name, seen)
            work.journal.note(
                line.number, MOVING, at_us=work.now(), path=line.path, digest=line.digest, form=line.form, by=work.by,
                lies_at=slot_path(line.path, work.plan.uuid, line.number), place=place_of(folder, trash),
            )  # fmt: skip
            with idle(folder, name, seen):  # the journal took its time: the last look is the rename's neighbour
                _look(folder, name, seen)
                _rename(folder, name, trash, slot)
            settle(work, line, folder, trash, seen)
    except Stays:
        clear_away(folder, work.plan.uuid)
        raise


def _look(folder: int, name: str, seen: Listing) -> None:
    if listed(folder, name) != seen:
        raise Stays("it changed after it was read")


def _rename(folder: int, name: str, trash: int, slot: str) -> None:
    """Move it. A network file system may say that it failed where it was done. Raises Stays, Unsettled."""
    try:
        os.rename(name, slot, src_dir_fd=folder, dst_dir_fd=trash)
    except OSError as error:
        why = f"it cannot be moved: {error.strerror}"
        try:
            is_moved = lies(trash, slot)
        except Stays as unknown:
            raise Unsettled(f"{why}; {unknown}") from error
        if is_moved:
            raise Unsettled(f"{why}, and it lies in the trash all the same") from error
        raise Stays(why) from error


def _put_back(work: Work, line: Line, folder: int, trash: int, why: str) -> None:
    where = slot_path(line.path, work.plan.uuid, line.number)
    try:
        move_anew(trash, str(line.number), folder, parts(line.path)[-1])
    except OSError as error:
        word = f"{why}; it cannot be put back ({error.strerror}): it lies at {where}"
        work.journal.note(line.number, HELD, at_us=work.now(), path=line.path, word=word)
        work.told.refused.append((line, word))
        raise Stays(word) from error
    on_disk(folder)


def _waits(work: Work, line: Line) -> str:
    """Why a line waits for one that may lie in the trash or not: it lies in that, or the server takes that for a copy that
    is left."""
    for other in work.half_moved:
        if other.digest == line.digest or line.path.startswith(other.path + "/"):
            return f"it waits for {other.path} (line {other.number}), of which nobody can tell now whether it was moved"
    return ""


def _beside(work: Work, line: Line) -> None:
    """A folder does not take with it what stays."""
    if TRASH in parts(line.path):
        raise Stays("it lies in a trash")
    for other in work.plan.inside(line.path):
        stays = other.stays or ("it was brought back" if work.journal.state(other.number) == RESTORED else "")
        if stays:
            raise Stays(f"{other.path} in it stays ({stays})")


def _one_of_each(plan: Plan, lines: List[Line], tried: Set[int]) -> List[Line]:
    """A folder counts with all that lies in it, of which there is one of each, too: what did not go with it goes alone."""
    found: List[Line] = []
    taken: Set[int] = set()
    outside: Set[str] = set()
    inside: Set[str] = set()
    for line in lines:
        if line.number in tried:
            continue
        takes = {line.digest, *(other.digest for other in plan.inside(line.path))}
        digests = inside if any(folder.number in taken for folder in plan.around(line.path)) else outside
        if not takes & digests:
            digests |= takes
            taken.add(line.number)
            found.append(line)
    return found
