"""One call of the command: shown, asked for, done, told, summed up."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Callable, List, Optional

from labcarbon_collect.cleanup.client import Line, NotAnswered
from labcarbon_collect.cleanup.purge import empty_all, to_empty
from labcarbon_collect.cleanup.recover import mend_all
from labcarbon_collect.cleanup.restore import bring_back, restore_all, to_restore
from labcarbon_collect.cleanup.session import Said, Work, format_bytes
from labcarbon_collect.cleanup.trash import TRASH
from labcarbon_collect.cleanup.trash_items import move_all, to_move
from labcarbon_collect.errors import CommandError
from labcarbon_collect.locks import AlreadyRunning
from labcarbon_collect.runs.preflight_text import plain

_SHOWN, _WORD, _WITH_A_COMMAND = 20, 400, 10_000  # a command to be typed is not cut off


@dataclass(frozen=True)
class Asked:
    """What the command is to do: ``restore`` (None: no, []: all that lies in the trash), empty, else move."""

    restore: Optional[List[int]] = None
    is_empty: bool = False
    is_sure: bool = False

    @property
    def verb(self) -> str:
        """What is done, for a summary."""
        return "brought back" if self.restore is not None else "deleted" if self.is_empty else "moved to the trash"


def settled(work: Work) -> Work:
    """The same, with what goes meanwhile against somebody's word brought back."""
    work.undo = bring_back
    return work


def carry_out_plan(work: Work, asked: Asked, *, begins: Callable[[int], None], ends: Callable[[], None]) -> int:
    """Do it; returns the exit code. Raises Failed."""
    away = ""
    try:
        if not work.is_dry:
            work.journal.begin()
        lines = _lines(work, asked)
        _show(work, asked, lines)
        if lines or work.journal.last or any(line.outcome == "trashed" for line in work.plan.lines):
            _confirm(work, asked, lines)
            begins(sum(line.bytes for line in lines))
            _carry_out(work, asked, lines, ends)
        elif not work.is_dry:
            work.tell()
    except NotAnswered as error:
        away = str(error)
    except (ValueError, AlreadyRunning) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error}; what was done stands in {work.journal.path}, the same command goes on") from error
    return _sum_up(work, asked, away)


def _carry_out(work: Work, asked: Asked, lines: List[Line], ends: Callable[[], None]) -> None:
    """Whoever stops it is told what was done until then. Raises NotAnswered, ValueError, OSError for the journal."""
    try:
        try:
            if not work.is_dry:
                mend_all(work)
                lines = [line for line in _lines(work, asked) if line.number not in work.unsettled]
            _do(work, asked, lines)
        finally:
            ends()
        if not work.is_dry:
            work.tell()
    except KeyboardInterrupt:
        _sum_up(work, asked, "stopped; the same command goes on")
        raise


def _lines(work: Work, asked: Asked) -> List[Line]:
    work.told.waiting.clear()
    if asked.restore is not None:
        return to_restore(work, asked.restore)
    return to_empty(work) if asked.is_empty else to_move(work.plan, work.journal)


def _do(work: Work, asked: Asked, lines: List[Line]) -> None:
    if asked.restore is not None:
        restore_all(work, lines)
    elif asked.is_empty:
        empty_all(work, lines)
    else:
        move_all(work)


def _show(work: Work, asked: Asked, lines: List[Line]) -> None:
    plan = work.plan
    approved = f", approved by {plain(plan.approved_by, 80)} on {plain(plan.approved_at, 10)}" if plan.approved_by else ""
    print(f"Plan {plan.uuid} for {plain(plan.hostname, 100)}{approved}")
    print(f"  to be {asked.verb}: {_count(lines)}")
    _listed([(line, plain(line.kept, 40)) for line in lines])
    if asked.restore is None and not asked.is_empty:
        stay = [(line, plain(line.stays, 200)) for line in plan.lines if line.stays]
        print(f"  stay: {_count([line for line, _ in stay])}")
        _listed(stay)
        print(f"  What goes lies in {TRASH} beside where it was, for at least {_days(plan.trash_days)}.")
    if work.told.waiting:
        print(f"  in the trash for less than {_days(plan.trash_days)}: {_count(work.told.waiting)}")


def _confirm(work: Work, asked: Asked, lines: List[Line]) -> None:
    """Raises Failed where nobody says yes."""
    if work.is_dry or asked.is_sure or not lines:
        return
    if not sys.stdin.isatty():
        raise CommandError("nothing was done: there is no terminal to ask on; say --yes to go on without being asked")
    try:
        said = input("Go on? [y/N] ")
    except EOFError:
        said = ""
    if said.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


def _sum_up(work: Work, asked: Asked, away: str) -> int:
    told = work.told
    would = "would be " if work.is_dry else ""
    print(f"{would}{asked.verb}: {_count([line for line, _ in told.done])}")
    _listed([(line, word) for line, word in told.done if word])
    said = (
        ("went with their folder", told.along), ("left as it was", told.refused),
        ("stays since it was approved", told.stays),
    )  # fmt: skip
    for heading, rows in said:
        if rows:
            print(f"{heading}: {_count([line for line, _ in rows])}")
            _listed(rows, _WITH_A_COMMAND if rows is told.refused else _WORD)
    if told.not_taken:
        print(f"the server takes no word of {len(told.not_taken):,} lines; what went of them was brought back:")
        for number, why in list(told.not_taken.items())[:_SHOWN]:
            print(f"  #{number}: {plain(why, 300)} ({work.journal.state(number)})")
    untold = 0 if work.is_dry else len(work.untold())
    if away:
        print(f"labcarbon-collect: {away}", file=sys.stderr)
    if untold:
        print(f"not told to the server: {untold:,} lines; the same command tells it", file=sys.stderr)
    return 1 if away or untold or told.refused or told.not_taken else 0


def _days(days: int) -> str:
    return f"{days} day{'' if days == 1 else 's'}"


def _count(lines: List[Line]) -> str:
    return f"{len(lines):,} line{'' if len(lines) == 1 else 's'}, {format_bytes(sum(line.bytes for line in lines))}"


def _listed(rows: Said, longest: int = _WORD) -> None:
    for line, word in rows[:_SHOWN]:
        print(
            f"    #{line.number} {format_bytes(line.bytes)} {plain(line.path, 300)}"
            + (f": {plain(word, longest)}" if word else "")
        )
    if len(rows) > _SHOWN:
        print(f"    and {len(rows) - _SHOWN:,} more")
