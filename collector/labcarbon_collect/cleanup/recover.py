"""Going on behind a kill: what was about to be done is looked for on the disk, and noted as it is.

What cannot be looked at now stays as the journal says: a disk may be away, and another folder lie at its path meanwhile.
"""

from __future__ import annotations

import os
from contextlib import suppress

from labcarbon_collect.cleanup.client import Line
from labcarbon_collect.cleanup.journal import (
    DELETED,
    DELETING,
    HELD,
    MOVING,
    NOT_MOVED,
    REFUSED,
    RESTORED,
    RESTORING,
    TRASHED,
    NotNoted,
    forget_list,
)
from labcarbon_collect.cleanup.purge import gone
from labcarbon_collect.cleanup.restore import back
from labcarbon_collect.cleanup.safe_paths import Stays, folder_of, lies, on_disk, parts
from labcarbon_collect.cleanup.session import Work, verified
from labcarbon_collect.cleanup.trash import clear_away, is_there, place_of, slot_path, trash_in
from labcarbon_collect.cleanup.trash_items import mark, settle

_OPEN = (MOVING, TRASHED, RESTORING, DELETING)
_LOOKED_FOR = ("", REFUSED, *_OPEN)  # what was refused is never in the trash, but by an older version's mistake
_ENDED = (REFUSED, RESTORED, DELETED)
_GONE = "it is gone from the trash, and not by this command"


def mend_all(work: Work) -> None:
    """Bring the journal and the disk together, line by line. Raises OSError for the journal."""
    for line in work.plan.lines:
        state = work.journal.state(line.number)
        if state in _LOOKED_FOR and (state or line.outcome in ("trashed", "")):
            _mend(work, line, state)
    ended = [line for line in work.plan.lines if work.journal.state(line.number) in _ENDED]
    for line in {os.path.dirname(line.path): line for line in ended}.values():
        with suppress(Stays), folder_of(line.path) as folder:
            clear_away(folder, work.plan.uuid)


def _mend(work: Work, line: Line, state: str) -> None:
    try:
        with folder_of(line.path) as folder:
            with trash_in(folder, work.plan.uuid) as trash:
                if trash >= 0 and lies(trash, str(line.number)):
                    _there(work, line, state, folder, trash)
                elif state in _OPEN and not is_there(work.journal.places.get(line.number), folder, trash):
                    raise Stays(f"{slot_path(line.path, work.plan.uuid, line.number)} is not there: is its disk mounted?")
                else:
                    _not_there(work, line, state, folder, trash)
            if state:
                clear_away(folder, work.plan.uuid)
    except Stays as why:
        if work.journal.state(line.number) in _OPEN:
            work.leave(line, str(why))
    except NotNoted:
        raise
    except OSError as error:
        if work.journal.state(line.number) not in _OPEN:
            raise
        work.leave(line, str(error))


def _there(work: Work, line: Line, state: str, folder: int, trash: int) -> None:
    """It lies in the trash."""
    entry = work.journal.last.get(line.number, {})
    if state in (MOVING, REFUSED):
        try:
            settle(work, line, folder, trash, None)
        except Stays:
            if lies(trash, str(line.number)):
                raise
            _not_there(work, line, state, folder, trash)
    elif not state:  # the journal was lost: it lies there from now on, if it is what this line says
        verified(work.hashed, trash, str(line.number), line, may_be_busy=True)
        mark(work, line, folder, trash, work.now())
    elif state == TRASHED and not entry.get("is_marked"):
        mark(work, line, folder, trash, work.journal.at_us(line.number))
    else:
        _note_place(work, line, folder, trash)
        if state == RESTORING:
            _half_back(work, line, folder, trash)


def _note_place(work: Work, line: Line, folder: int, trash: int) -> None:
    """After a restart, or on a disk that was copied, the place that it is known by has other numbers."""
    place = place_of(folder, trash)
    if work.journal.places.get(line.number) != place:
        entry = {**work.journal.last[line.number], "place": place}
        del entry["line"]
        work.journal.note(line.number, entry.pop("state"), **entry)


def _half_back(work: Work, line: Line, folder: int, trash: int) -> None:
    """It was about to come back, and lies in the trash still."""
    entry = work.journal.last[line.number]
    was_held = bool(entry.get("was_held"))
    if _is_one(folder, parts(line.path)[-1], trash, str(line.number)):
        os.unlink(str(line.number), dir_fd=trash)
        on_disk(trash)
        _came_back(work, line, folder, was_held=was_held)
    else:
        since_us = int(entry.get("since_us", work.now()))
        work.journal.note(line.number, HELD if was_held else TRASHED, at_us=since_us, path=line.path, is_marked=True)


def _not_there(work: Work, line: Line, state: str, folder: int, trash: int) -> None:
    """It does not lie in the trash."""
    entry = work.journal.last.get(line.number, {})
    if state == MOVING:
        work.journal.note(line.number, NOT_MOVED, at_us=work.now(), path=line.path)
    elif state == RESTORING:
        _came_back(work, line, folder, was_held=bool(entry.get("was_held")))
    elif state == DELETING and trash >= 0:
        gone(work, line, folder, trash, int(entry.get("since_us", 0)))
    elif state == DELETING:
        forget_list(work.journal, line.number)
        work.journal.note(line.number, DELETED, at_us=work.now(), path=line.path, by=work.by)
    elif state == TRASHED:
        why = _not_in_its_place(work, line, folder)
        if why:
            _lost(work, line, why)
        else:
            word = "somebody took it out of the trash by hand"
            work.journal.note(line.number, RESTORED, at_us=work.now(), path=line.path, word=word)


def _came_back(work: Work, line: Line, folder: int, *, was_held: bool) -> None:
    """It was about to come back and is not in the trash: told so only if it is read in its place."""
    why = _not_in_its_place(work, line, folder, is_any=was_held)
    if why:
        _lost(work, line, why)
    else:
        back(work, line, folder, was_held=was_held)


def _not_in_its_place(work: Work, line: Line, folder: int, *, is_any: bool = False) -> str:
    """Why what has a line's name is not what went, '' where it is. ``is_any``: what went was not what was approved."""
    name = parts(line.path)[-1]
    if not lies(folder, name):
        return _GONE
    try:
        if not is_any:
            verified(work.hashed, folder, name, line)
    except Stays as why:
        return f"{_GONE}; what has its name now is not it: {why}"
    return ""


def _lost(work: Work, line: Line, word: str) -> None:
    work.told.refused.append((line, word))
    work.journal.note(line.number, HELD, at_us=work.now(), path=line.path, word=word)


def _is_one(folder: int, name: str, trash: int, slot: str) -> bool:
    """Whether both names are of one file: a kill came between giving it the second and taking the first."""
    if not lies(folder, name):
        return False
    one, other = os.lstat(name, dir_fd=folder), os.lstat(slot, dir_fd=trash)
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
