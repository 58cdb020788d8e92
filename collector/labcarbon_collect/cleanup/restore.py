"""Bringing back what lies in the trash: read again, and never over what lies there now."""

from __future__ import annotations

import shlex
from typing import Collection, List

from labcarbon_collect.cleanup.client import Line
from labcarbon_collect.cleanup.journal import DELETED, DELETING, HELD, REFUSED, RESTORED, RESTORING, TRASHED, forget_list
from labcarbon_collect.cleanup.safe_paths import Stays, folder_of, lies, move_anew, on_disk, parts
from labcarbon_collect.cleanup.session import Work, verified
from labcarbon_collect.cleanup.trash import clear_away, forget, slot_path, take_away, tombstone, trash_in


def to_restore(work: Work, numbers: Collection[int]) -> List[Line]:
    """The lines of these numbers, by default all that lie in the trash; what lies there in its folder comes back with that.

    Raises ValueError for a number of no line.
    """
    known = {line.number for line in work.plan.lines}
    for number in numbers:
        if number not in known:
            raise ValueError(f"line {number} is not in this plan")
    lying = (TRASHED, HELD, RESTORING, DELETING)
    return [
        line for line in work.plan.lines
        if (line.number in numbers if numbers else _lies(work, line, lying))
    ]  # fmt: skip


def _lies(work: Work, line: Line, lying: Collection[str]) -> bool:
    """The server says of what went in a folder that it lies in the trash: it has no place of its own there."""
    if work.journal.state(line.number):
        return work.journal.state(line.number) in lying
    around = list(work.plan.around(line.path))
    return line.outcome in lying and not any(work.journal.state(each.number) or each.outcome in lying for each in around)


def restore_all(work: Work, lines: List[Line]) -> None:
    """Bring lines back. Raises OSError for the journal."""
    for line in lines:
        bring_back(work, line)


def bring_back(work: Work, line: Line) -> None:
    """Bring one line back, or say why not: then it lies where it lay. Raises OSError for the journal."""
    try:
        with_folder = work.went_with(line)
        if with_folder is not None:
            raise Stays(f"it went with {with_folder.path}: --restore {with_folder.number} brings both back")
        with folder_of(line.path) as folder:
            with trash_in(folder, work.plan.uuid) as trash:
                _bring_back(work, line, folder, trash)
            if not work.is_dry:
                clear_away(folder, work.plan.uuid)
        work.told.done.append((line, ""))
    except Stays as why:
        work.told.refused.append((line, str(why)))


def back(work: Work, line: Line, folder: int, *, was_held: bool) -> None:
    """It lies in its place again: its tombstone goes, and that is noted. Raises OSError for the journal."""
    take_away(folder, tombstone(work.plan, line, by=work.by, page=work.server.page, moved_us=0))
    word = "what lay in the trash was not what was approved, and is back" if was_held else ""
    state = REFUSED if was_held else RESTORED
    work.journal.note(line.number, state, at_us=work.now(), path=line.path, word=word, by=work.by)


def by_hand(work: Work, line: Line) -> str:
    """The command for a shell that brings a line back as it lies in the trash, over nothing that lies in its place."""
    where = slot_path(line.path, work.plan.uuid, line.number)
    return f"mv -nT -- {shlex.quote(where)} {shlex.quote(line.path)}"


def _bring_back(work: Work, line: Line, folder: int, trash: int) -> None:
    slot, name, state = str(line.number), parts(line.path)[-1], work.journal.state(line.number)
    if trash < 0 or not lies(trash, slot):
        raise Stays("it was deleted" if state == DELETED else "it is not in the trash")
    if state == DELETING:
        where = slot_path(line.path, work.plan.uuid, line.number)
        raise Stays(f"its deletion was begun, what is left of it lies at {where}")
    if state != HELD:
        try:
            verified(work.hashed, trash, slot, line, may_be_busy=True)
        except Stays as why:
            raise Stays(f"{why}; to have it back as it is now: {by_hand(work, line)}") from why
    if lies(folder, name):
        raise Stays("something else lies in its place now: move that away first")
    if work.is_dry:
        return
    since_us, was_held = work.journal.at_us(line.number), state == HELD
    work.journal.note(
        line.number, RESTORING, at_us=work.now(), path=line.path, since_us=since_us, was_held=was_held, by=work.by
    )
    try:
        move_anew(trash, slot, folder, name)
    except OSError as error:
        was = HELD if was_held else TRASHED
        work.journal.note(line.number, was, at_us=since_us, path=line.path, is_marked=True)
        raise Stays(f"it cannot be brought back: {error.strerror}") from error
    forget(trash, line.number)
    forget_list(work.journal, line.number)
    on_disk(folder)
    on_disk(trash)
    back(work, line, folder, was_held=was_held)
