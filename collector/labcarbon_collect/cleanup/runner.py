"""One call of the command: shown, asked for, done, told, summed up."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Callable, List, Optional

from labcarbon_collect.cleanup.client import CleanupItem, PlanServerError
from labcarbon_collect.cleanup.purge import items_to_purge, purge
from labcarbon_collect.cleanup.recover import recover
from labcarbon_collect.cleanup.restore import items_to_restore, restore_item, restore_items
from labcarbon_collect.cleanup.session import ItemNotes, Session, format_bytes
from labcarbon_collect.cleanup.trash import TRASH
from labcarbon_collect.cleanup.trash_items import items_to_move, move_items
from labcarbon_collect.errors import CommandError
from labcarbon_collect.locks import AlreadyRunning
from labcarbon_collect.runs.preflight_text import plain

_MAX_PRINTED_ITEMS, _MAX_MESSAGE_CHARS, _MAX_COMMAND_CHARS = 20, 400, 10_000  # a command to be typed is not cut off


@dataclass(frozen=True)
class Action:
    """What the command is to do: ``restore`` (None: no, []: all that lies in the trash), empty, else move."""

    restore: Optional[List[int]] = None
    is_purge: bool = False
    is_confirmed: bool = False

    @property
    def verb(self) -> str:
        """What is done, for a summary."""
        return "brought back" if self.restore is not None else "deleted" if self.is_purge else "moved to the trash"


def with_undo(work: Session) -> Session:
    """The same, with what goes meanwhile against somebody's word brought back."""
    work.undo = restore_item
    return work


def execute(work: Session, action: Action, *, on_start: Callable[[int], None], on_end: Callable[[], None]) -> int:
    """Do it; returns the exit code. Raises Failed."""
    server_error = ""
    try:
        if not work.dry_run:
            work.journal.acquire()
        items = _select_items(work, action)
        _print_plan(work, action, items)
        if items or work.journal.entries or any(item.outcome == "trashed" for item in work.plan.items):
            _require_confirmation(work, action, items)
            on_start(sum(item.bytes for item in items))
            _execute(work, action, items, on_end)
        elif not work.dry_run:
            work.report()
    except PlanServerError as error:
        server_error = str(error)
    except (ValueError, AlreadyRunning) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error}; what was done stands in {work.journal.path}, the same command goes on") from error
    return _print_summary(work, action, server_error)


def _execute(work: Session, action: Action, items: List[CleanupItem], on_end: Callable[[], None]) -> None:
    """Whoever stops it is told what was done until then. Raises NotAnswered, ValueError, OSError for the journal."""
    try:
        try:
            if not work.dry_run:
                recover(work)
                items = [item for item in _select_items(work, action) if item.number not in work.in_doubt]
            _run_action(work, action, items)
        finally:
            on_end()
        if not work.dry_run:
            work.report()
    except KeyboardInterrupt:
        _print_summary(work, action, "stopped; the same command goes on")
        raise


def _select_items(work: Session, action: Action) -> List[CleanupItem]:
    work.results.waiting.clear()
    if action.restore is not None:
        return items_to_restore(work, action.restore)
    return items_to_purge(work) if action.is_purge else items_to_move(work.plan, work.journal)


def _run_action(work: Session, action: Action, items: List[CleanupItem]) -> None:
    if action.restore is not None:
        restore_items(work, items)
    elif action.is_purge:
        purge(work, items)
    else:
        move_items(work)


def _print_plan(work: Session, action: Action, items: List[CleanupItem]) -> None:
    plan = work.plan
    approved = f", approved by {plain(plan.approved_by, 80)} on {plain(plan.approved_at, 10)}" if plan.approved_by else ""
    print(f"Plan {plan.uuid} for {plain(plan.hostname, 100)}{approved}")
    print(f"  to be {action.verb}: {_describe_items(items)}")
    _print_items([(item, plain(item.retention_class, 40)) for item in items])
    if action.restore is None and not action.is_purge:
        blocked = [(item, plain(item.blocked_reason, 200)) for item in plan.items if item.blocked_reason]
        print(f"  stay: {_describe_items([item for item, _ in blocked])}")
        _print_items(blocked)
        print(f"  What goes lies in {TRASH} beside where it was, for at least {_format_days(plan.trash_days)}.")
    if work.results.waiting:
        print(f"  in the trash for less than {_format_days(plan.trash_days)}: {_describe_items(work.results.waiting)}")


def _require_confirmation(work: Session, action: Action, items: List[CleanupItem]) -> None:
    """Raises Failed where nobody says yes."""
    if work.dry_run or action.is_confirmed or not items:
        return
    if not sys.stdin.isatty():
        raise CommandError("nothing was done: there is no terminal to ask on; say --yes to go on without being asked")
    try:
        answer = input("Go on? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


def _print_summary(work: Session, action: Action, server_error: str) -> int:
    results = work.results
    prefix = "would be " if work.dry_run else ""
    print(f"{prefix}{action.verb}: {_describe_items([item for item, _ in results.done])}")
    _print_items([(item, note) for item, note in results.done if note])
    notes = (
        ("went with their folder", results.with_parent), ("left as it was", results.refused),
        ("stays since it was approved", results.blocked),
    )  # fmt: skip
    for heading, rows in notes:
        if rows:
            print(f"{heading}: {_describe_items([item for item, _ in rows])}")
            _print_items(rows, _MAX_COMMAND_CHARS if rows is results.refused else _MAX_MESSAGE_CHARS)
    if results.rejected:
        print(f"the server takes no word of {len(results.rejected):,} lines; what went of them was brought back:")
        for number, why in list(results.rejected.items())[:_MAX_PRINTED_ITEMS]:
            print(f"  #{number}: {plain(why, 300)} ({work.journal.state(number)})")
    unreported = 0 if work.dry_run else len(work.unreported())
    if server_error:
        print(f"labcarbon-collect: {server_error}", file=sys.stderr)
    if unreported:
        print(f"not told to the server: {unreported:,} lines; the same command tells it", file=sys.stderr)
    return 1 if server_error or unreported or results.refused or results.rejected else 0


def _format_days(days: int) -> str:
    return f"{days} day{'' if days == 1 else 's'}"


def _describe_items(items: List[CleanupItem]) -> str:
    return f"{len(items):,} line{'' if len(items) == 1 else 's'}, {format_bytes(sum(item.bytes for item in items))}"


def _print_items(rows: ItemNotes, max_chars: int = _MAX_MESSAGE_CHARS) -> None:
    for item, note in rows[:_MAX_PRINTED_ITEMS]:
        print(
            f"    #{item.number} {format_bytes(item.bytes)} {plain(item.path, 300)}"
            + (f": {plain(note, max_chars)}" if note else "")
        )
    if len(rows) > _MAX_PRINTED_ITEMS:
        print(f"    and {len(rows) - _MAX_PRINTED_ITEMS:,} more")
