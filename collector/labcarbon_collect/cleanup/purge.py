"""Deleting what lay in the trash for the plan's days: asked about again, read again, and then exactly what was read."""

from __future__ import annotations

from typing import List

from labcarbon_collect.cleanup.client import Line
from labcarbon_collect.cleanup.content import FOLDER, delete
from labcarbon_collect.cleanup.journal import DELETED, DELETING, TRASHED, NotNoted, forget_list, keep_list, kept_list
from labcarbon_collect.cleanup.safe_paths import Stays, folder_of, lies
from labcarbon_collect.cleanup.session import Work, verified
from labcarbon_collect.cleanup.trash import clear_away, forget, put, tombstone, trash_in

DAY_US = 86_400_000_000


def to_empty(work: Work) -> List[Line]:
    """The lines that lay in the trash for long enough or whose deletion was begun; others that lie there wait."""
    found, now = [], work.now()
    for line in work.plan.lines:
        state, at_us = work.journal.state(line.number), work.journal.at_us(line.number)
        if state == DELETING or (state == TRASHED and now >= at_us + work.plan.trash_days * DAY_US):
            found.append(line)
        elif state == TRASHED:
            work.told.waiting.append(line)
    return found


def empty_all(work: Work, lines: List[Line]) -> None:
    """Delete lines that still go. Raises NotAnswered, OSError for the journal."""
    for line in lines:
        _empty(work, line)
        if not work.is_dry:
            work.tell_now_and_then()


def gone(work: Work, line: Line, folder: int, trash: int, since_us: int) -> str:
    """All of it is deleted: its tombstone says so, and that is noted. Returns why there is no tombstone. Raises OSError."""
    now, word = work.now(), ""
    try:
        said = tombstone(work.plan, line, by=work.by, page=work.server.page, moved_us=since_us, deleted_us=now)
        put(folder, trash, said)
    except (Stays, OSError) as error:
        word = f"no tombstone could be put in its place ({error})"
    forget(trash, line.number)
    forget_list(work.journal, line.number)
    work.journal.note(line.number, DELETED, at_us=now, path=line.path, word=word, by=work.by)
    return word


def _empty(work: Work, line: Line) -> None:
    try:
        stays = work.stays(line)
        if stays:
            work.told.stays.append((line, stays))
            return
        with folder_of(line.path) as folder:
            with trash_in(folder, work.plan.uuid) as trash:
                _delete(work, line, folder, trash)
            if not work.is_dry:
                clear_away(folder, work.plan.uuid)
    except Stays as why:
        work.told.refused.append((line, f"{why}; it is left in the trash"))
    except NotNoted:
        raise
    except OSError as error:
        work.told.refused.append((line, f"{error}; the same command goes on"))


def _delete(work: Work, line: Line, folder: int, trash: int) -> None:
    slot, is_begun = str(line.number), work.journal.state(line.number) == DELETING
    if trash < 0 or not lies(trash, slot):
        raise Stays("it is not in the trash")
    if is_begun and line.form == FOLDER:  # a part of it may be gone: nobody can tell its digest any more
        listing = kept_list(work.journal, trash, line.number)
    else:
        listing = verified(work.hashed, trash, slot, line)
        stays = work.stays(line)  # reading may have taken hours
        if stays:
            work.told.stays.append((line, stays))
            return
    if work.is_dry:
        work.told.done.append((line, ""))
        return
    entry = work.journal.last[line.number]
    since_us = int(entry.get("since_us", 0)) if is_begun else work.journal.at_us(line.number)
    if not is_begun:
        if line.form == FOLDER:
            keep_list(work.journal, line.number, listing)
        work.journal.note(line.number, DELETING, at_us=work.now(), path=line.path, since_us=since_us, by=work.by)
    delete(trash, slot, listing)
    work.told.done.append((line, gone(work, line, folder, trash, since_us)))
