"""What all three ways of carrying out a plan share: the plan as it is now, the journal, what is told to the server."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Set, Tuple

from labcarbon_collect.cleanup.client import MAX_ROWS, CleanupItem, CleanupPlan, OutcomeRejected, PlanClient, Row
from labcarbon_collect.cleanup.content import BlockCallback, Listing, list_content, read_digest
from labcarbon_collect.cleanup.journal import DELETED, DELETING, MOVING, REFUSED, RESTORED, STRANDED, TRASHED, Journal
from labcarbon_collect.cleanup.safe_paths import ItemBlocked

ItemNotes = List[Tuple[CleanupItem, str]]  # a line, and a word to it


@dataclass
class SessionResults:
    """Lines by what became of them in this call."""

    done: ItemNotes = field(default_factory=list)  # moved, brought back or deleted
    with_parent: ItemNotes = field(default_factory=list)  # moved with the folder that it lies in
    refused: ItemNotes = field(default_factory=list)  # left where it was, and why
    blocked: ItemNotes = field(default_factory=list)  # kept by the server's word since it was approved
    waiting: List[CleanupItem] = field(default_factory=list)  # in the trash, and not for long enough
    rejected: Dict[int, str] = field(default_factory=dict)  # lines that the server takes no word of, and why

    @property
    def bytes(self) -> int:
        """Bytes of what was done."""
        return sum(item.bytes for item, _ in self.done)


def format_bytes(size: int) -> str:
    """Bytes in words, decimal, three digits."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 999.5 or unit == "PB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"


MAX_PLAN_AGE_S = 10.0  # an answer older than this is asked again before anything is moved or deleted
_REPORT_INTERVAL_S = 60.0
_OUTCOME = {
    TRASHED: "trashed", DELETING: "trashed", REFUSED: "refused", STRANDED: "refused", RESTORED: "restored", DELETED: "deleted",
}  # fmt: skip


@dataclass
class Session:
    """One call of the command. ``by``: who carries it out; ``now``: µs UTC; ``hashed``: told of each block that is read;
    ``threads``: how many lines are read at once; ``undo``: brings a line back whose going the server does not take;
    ``unsettled``: lines of which nobody can tell now how they stand; ``half_moved``: those that were about to move."""

    server: PlanClient
    plan: CleanupPlan
    journal: Journal
    by: str
    now: Callable[[], int]
    on_block: BlockCallback
    dry_run: bool = False
    threads: int = 1
    undo: Optional[Callable[[Session, CleanupItem], None]] = None
    results: SessionResults = field(default_factory=SessionResults)
    fetched_s: float = field(default_factory=time.monotonic)
    reported_s: float = field(default_factory=time.monotonic)
    in_doubt: Set[int] = field(default_factory=set)
    moves_in_doubt: List[CleanupItem] = field(default_factory=list)

    def refresh_plan(self) -> None:
        """Ask for the plan again. Raises NotAnswered."""
        self.plan, self.fetched_s = self.server.fetch_plan(), time.monotonic()

    def blocked_reason(self, item: CleanupItem) -> str:
        """Why a line may not go now, '' where it may; an old answer is asked again. Raises NotAnswered, Stays."""
        if time.monotonic() - self.fetched_s > MAX_PLAN_AGE_S:
            self.refresh_plan()
        current = self.plan.item(item.number)
        if current is None or (current.path, current.digest, current.form) != (item.path, item.digest, item.form):
            raise ItemBlocked("it is not in the plan any more")
        return current.blocked_reason

    def parent_in_trash(self, item: CleanupItem) -> Optional[CleanupItem]:
        """The line of the folder that lies in the trash with this line in it."""
        if self.journal.state(item.number) in ("", REFUSED):
            for other in self.plan.enclosing_items(item.path):
                if (self.journal.state(other.number) or other.outcome) == TRASHED:
                    return other
        return None

    def refuse(self, item: CleanupItem, message: str) -> None:
        """A line is left where it was."""
        self.results.refused.append((item, message))
        is_repeated = (self.journal.state(item.number), self.journal.message(item.number)) == (REFUSED, message)
        if not self.dry_run and not is_repeated:
            self.journal.append(item.number, REFUSED, at_us=self.now(), path=item.path, word=message)

    def defer(self, item: CleanupItem, message: str) -> None:
        """What became of a line cannot be told now: what the journal says of it stands, until a later call can."""
        self.results.refused.append((item, f"{message}; the next call looks again"))
        self.in_doubt.add(item.number)
        if self.journal.state(item.number) == MOVING:
            self.moves_in_doubt.append(item)

    def unreported(self) -> List[Row]:
        """What the server does not know yet."""
        rows = []
        for item in self.plan.items:
            entry = self.journal.entries.get(item.number, {})
            outcome = _OUTCOME.get(str(entry.get("state")), "")
            if outcome and outcome != item.outcome and not (entry.get("not_taken") and not item.outcome):
                rows.append((item.number, outcome, self.journal.message(item.number)))
        return rows

    def report(self) -> None:
        """Tell the server all that it does not know, or that nothing is left to go: the plan ends with that. Raises
        NotAnswered; what is not told is told by the next call."""
        rows = self.unreported()
        if (
            not rows
            and self.plan.state == "approved"
            and all(item.outcome or item.blocked_reason for item in self.plan.items)
        ):
            self._report([])
        for start in range(0, len(rows), MAX_ROWS):
            self._report(rows[start : start + MAX_ROWS])
        self.reported_s = time.monotonic()

    def report_if_due(self) -> None:
        """Tell it in a long call, so that the server does not learn all of it at the end. Raises NotAnswered."""
        if time.monotonic() - self.reported_s > _REPORT_INTERVAL_S:
            self.report()

    def _report(self, rows: List[Row]) -> None:
        try:
            self.server.report_outcomes(rows)
        except OutcomeRejected as reason:
            if len(rows) > 1 and not reason.is_whole_plan:
                self._report(rows[: len(rows) // 2])
                self._report(rows[len(rows) // 2 :])
                return
            for number, _, _ in rows:
                self._on_rejected(number, str(reason))
            return
        for number, outcome, _ in rows:
            item = self.plan.item(number)
            if item is not None:
                item.outcome = outcome

    def _on_rejected(self, number: int, reason: str) -> None:
        """Somebody objected, or withdrew the plan, after it was asked: what went meanwhile comes back."""
        item = self.plan.item(number)
        self.results.rejected[number] = reason
        if item is None or self.undo is None:
            return
        if self.journal.state(number) == TRASHED:
            self.undo(self, item)
            self.results.done = [(each, message) for each, message in self.results.done if each.number != number]
        if self.journal.state(number) in (RESTORED, REFUSED):
            entry = {**self.journal.entries[number], "not_taken": True}
            del entry["line"]
            self.journal.append(number, entry.pop("state"), **entry)


def verify_content(
    on_block: BlockCallback, folder: int, name: str, item: CleanupItem, *, may_be_busy: bool = False
) -> Listing:
    """Read what lies at a place and return its listing, if it is what the line says to the last byte. Raises Stays, and Busy
    where a program has it open for writing: what goes may not be."""
    listing = list_content(folder, name)
    if listing.form != item.form:
        raise ItemBlocked(f"it is a {listing.form}, a {item.form} was registered")
    if listing.bytes != item.bytes:
        raise ItemBlocked(
            f"it changed: {format_bytes(listing.bytes)} ({listing.bytes:,} bytes), {item.bytes:,} bytes were registered"
        )
    if len(listing.files) != item.files:
        raise ItemBlocked(f"it changed: {len(listing.files):,} files, {item.files:,} were registered")
    if read_digest(folder, name, listing, on_block, may_be_busy) != item.digest:
        raise ItemBlocked("it changed: its content is not what was registered")
    return listing
