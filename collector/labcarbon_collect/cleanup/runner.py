"""One call of ``labcarbon-collect apply-plan``: prints the plan, confirms, executes, reports and
summarises.
"""

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

# commands to copy are not truncated
_MAX_PRINTED_ITEMS, _MAX_MESSAGE_CHARS, _MAX_COMMAND_CHARS = 20, 400, 10_000


@dataclass(frozen=True)
class Action:
    """The requested action: ``restore`` (None: no; []: all items in the trash), purge, or move by
    default.
    """

    restore: Optional[List[int]] = None
    is_purge: bool = False
    is_confirmed: bool = False

    @property
    def verb(self) -> str:
        """The action in a summary."""
        return (
            "restored"
            if self.restore is not None
            else "deleted"
            if self.is_purge
            else "moved to the trash"
        )


def with_undo(session: Session) -> Session:
    """Return the session with ``undo`` set: it restores items whose move the server rejects."""
    session.undo = restore_item
    return session


def execute(
    session: Session, action: Action, *, on_start: Callable[[int], None], on_end: Callable[[], None]
) -> int:
    """Execute an action. Returns the exit code. Raises CommandError."""
    server_error = ""
    try:
        if not session.dry_run:
            session.journal.acquire()
        items = _select_items(session, action)
        _print_plan(session, action, items)
        if (
            items
            or session.journal.entries
            or any(item.outcome == "trashed" for item in session.plan.items)
        ):
            _require_confirmation(session, action, items)
            on_start(sum(item.bytes for item in items))
            _execute(session, action, items, on_end)
        elif not session.dry_run:
            session.report()
    except PlanServerError as error:
        server_error = str(error)
    except (ValueError, AlreadyRunning) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(
            f"{error}; completed steps are recorded in {session.journal.path}: run the same "
            "command to continue"
        ) from error
    return _print_summary(session, action, server_error)


def _execute(
    session: Session, action: Action, items: List[CleanupItem], on_end: Callable[[], None]
) -> None:
    """Execute the action and report. An interrupted call prints its summary. Raises
    PlanServerError, ValueError, OSError for the journal.
    """
    try:
        try:
            if not session.dry_run:
                recover(session)
                items = [
                    item
                    for item in _select_items(session, action)
                    if item.number not in session.in_doubt
                ]
            _run_action(session, action, items)
        finally:
            on_end()
        if not session.dry_run:
            session.report()
    except KeyboardInterrupt:
        _print_summary(session, action, "stopped; run the same command to continue")
        raise


def _select_items(session: Session, action: Action) -> List[CleanupItem]:
    session.results.waiting.clear()
    if action.restore is not None:
        return items_to_restore(session, action.restore)
    return (
        items_to_purge(session) if action.is_purge else items_to_move(session.plan, session.journal)
    )


def _run_action(session: Session, action: Action, items: List[CleanupItem]) -> None:
    if action.restore is not None:
        restore_items(session, items)
    elif action.is_purge:
        purge(session, items)
    else:
        move_items(session)


def _print_plan(session: Session, action: Action, items: List[CleanupItem]) -> None:
    plan = session.plan
    approved = (
        f", approved by {plain(plan.approved_by, 80)} on {plain(plan.approved_at, 10)}"
        if plan.approved_by
        else ""
    )
    print(f"Plan {plan.uuid} for {plain(plan.hostname, 100)}{approved}")
    print(f"  to be {action.verb}: {_describe_items(items)}")
    _print_items([(item, plain(item.retention_class, 40)) for item in items])
    if action.restore is None and not action.is_purge:
        blocked = [
            (item, plain(item.blocked_reason, 200)) for item in plan.items if item.blocked_reason
        ]
        print(f"  blocked: {_describe_items([item for item, _ in blocked])}")
        _print_items(blocked)
        print(
            f"  Moved items stay in {TRASH} beside their path for at least "
            f"{_format_days(plan.trash_days)}."
        )
    if session.results.waiting:
        print(
            f"  in the trash for less than {_format_days(plan.trash_days)}: "
            f"{_describe_items(session.results.waiting)}"
        )


def _require_confirmation(session: Session, action: Action, items: List[CleanupItem]) -> None:
    """Ask for confirmation. Raises CommandError without it."""
    if session.dry_run or action.is_confirmed or not items:
        return
    if not sys.stdin.isatty():
        raise CommandError(
            "nothing was done: there is no terminal for the confirmation; use --yes to skip it"
        )
    try:
        answer = input("Continue? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


def _print_summary(session: Session, action: Action, server_error: str) -> int:
    results = session.results
    prefix = "would be " if session.dry_run else ""
    print(f"{prefix}{action.verb}: {_describe_items([item for item, _ in results.done])}")
    _print_items([(item, note) for item, note in results.done if note])
    notes = (
        ("moved with their folder", results.with_parent),
        ("left in place", results.refused),
        ("blocked since approval", results.blocked),
    )
    for heading, rows in notes:
        if rows:
            print(f"{heading}: {_describe_items([item for item, _ in rows])}")
            _print_items(
                rows, _MAX_COMMAND_CHARS if rows is results.refused else _MAX_MESSAGE_CHARS
            )
    if results.rejected:
        print(f"the server rejected {len(results.rejected):,} items; moved ones were restored:")
        for number, why in list(results.rejected.items())[:_MAX_PRINTED_ITEMS]:
            print(f"  #{number}: {plain(why, 300)} ({session.journal.state(number)})")
    unreported = 0 if session.dry_run else len(session.unreported())
    if server_error:
        print(f"labcarbon-collect: {server_error}", file=sys.stderr)
    if unreported:
        print(
            f"not reported to the server: {unreported:,} items; run the same command again",
            file=sys.stderr,
        )
    return 1 if server_error or unreported or results.refused or results.rejected else 0


def _format_days(days: int) -> str:
    return f"{days} day{'' if days == 1 else 's'}"


def _describe_items(items: List[CleanupItem]) -> str:
    return (
        f"{len(items):,} item{'' if len(items) == 1 else 's'}, "
        f"{format_bytes(sum(item.bytes for item in items))}"
    )


def _print_items(rows: ItemNotes, max_chars: int = _MAX_MESSAGE_CHARS) -> None:
    for item, note in rows[:_MAX_PRINTED_ITEMS]:
        print(
            f"    #{item.number} {format_bytes(item.bytes)} {plain(item.path, 300)}"
            + (f": {plain(note, max_chars)}" if note else "")
        )
    if len(rows) > _MAX_PRINTED_ITEMS:
        print(f"    and {len(rows) - _MAX_PRINTED_ITEMS:,} more")
