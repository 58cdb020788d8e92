"""Going on behind a kill: what was about to be done is looked for on the disk, and noted as it is."""

from __future__ import annotations

import os
from contextlib import suppress

from labcarbon_collect.plan.emptying import gone
from labcarbon_collect.plan.journal import DELETED, DELETING, HELD, MOVING, REFUSED, RESTORED, RESTORING, TRASHED
from labcarbon_collect.plan.moving import mark, settle
from labcarbon_collect.plan.places import Stays, folder_of, lies, on_disk, parts
from labcarbon_collect.plan.restoring import back
from labcarbon_collect.plan.server import Line
from labcarbon_collect.plan.trash import clear_away, trash_in
from labcarbon_collect.plan.work import Work, verified

_OPEN = ("", MOVING, TRASHED, RESTORING, DELETING)
_ENDED = (REFUSED, RESTORED, DELETED)


def mend_all(work: Work) -> None:
    """Bring the journal and the disk together, line by line. Raises OSError for the journal."""
    for line in work.plan.lines:
        state = work.journal.state(line.number)
        if state in _OPEN and (state or line.outcome in ("trashed", "")):
            _mend(work, line, state)
    ended = [line for line in work.plan.lines if work.journal.state(line.number) in _ENDED]
    for line in {os.path.dirname(line.path): line for line in ended}.values():
        with suppress(Stays), folder_of(line.path) as folder:
            clear_away(folder, work.plan.uuid)


def _mend(work: Work, line: Line, state: str) -> None:
    try:
        with folder_of(line.path) as folder:
            with trash_in(folder, work.plan.uuid) as trash:
                is_there = trash >= 0 and lies(trash, str(line.number))
                if is_there:
                    _there(work, line, state, folder, trash)
                else:
                    _not_there(work, line, state, folder, trash)
            if state:
                clear_away(folder, work.plan.uuid)
    except Stays as why:
        # Its disk may be away for now: what the journal says of it stands. What was not moved yet is looked at again anyhow.
        if state in (TRASHED, RESTORING, DELETING):
            work.told.refused.append((line, str(why)))


def _there(work: Work, line: Line, state: str, folder: int, trash: int) -> None:
    """It lies in the trash."""
    entry = work.journal.last.get(line.number, {})
    if state == MOVING:
        settle(work, line, folder, trash, None)
    elif not state:  # the journal was lost: it lies there from now on, if it is what this line says
        verified(work.hashed, trash, str(line.number), line)
        mark(work, line, folder, trash, work.now())
    elif state == TRASHED and not entry.get("is_marked"):
        mark(work, line, folder, trash, work.journal.at_us(line.number))
    elif state == RESTORING:
        was_held = bool(entry.get("was_held"))
        if _is_one(folder, parts(line.path)[-1], trash, str(line.number)):
            os.unlink(str(line.number), dir_fd=trash)
            on_disk(trash)
            back(work, line, folder, was_held=was_held)
        else:
            since_us = int(entry.get("since_us", work.now()))
            work.journal.note(line.number, HELD if was_held else TRASHED, at_us=since_us, path=line.path, is_marked=True)


def _not_there(work: Work, line: Line, state: str, folder: int, trash: int) -> None:
    """It does not lie in the trash."""
    entry = work.journal.last.get(line.number, {})
    if state == RESTORING:
        back(work, line, folder, was_held=bool(entry.get("was_held")))
    elif state == DELETING and trash >= 0:
        gone(work, line, folder, trash, int(entry.get("since_us", 0)))
    elif state == DELETING:
        work.journal.note(line.number, DELETED, at_us=work.now(), path=line.path, by=work.by)
    elif state == TRASHED and lies(folder, parts(line.path)[-1]):
        work.journal.note(
            line.number, RESTORED, at_us=work.now(), path=line.path, word="somebody took it out of the trash by hand"
        )
    elif state == TRASHED:
        word = "it is gone from the trash, and not by this command"
        work.told.refused.append((line, word))
        work.journal.note(line.number, HELD, at_us=work.now(), path=line.path, word=word)


def _is_one(folder: int, name: str, trash: int, slot: str) -> bool:
    """Whether both names are of one file: a kill came between giving it the second and taking the first."""
    if not lies(folder, name):
        return False
    one, other = os.lstat(name, dir_fd=folder), os.lstat(slot, dir_fd=trash)
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
