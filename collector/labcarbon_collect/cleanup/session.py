"""State shared by move, restore and purge: the current plan, the journal, and reports to the
server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Set, Tuple

from labcarbon_collect.cleanup.client import (
    MAX_ROWS,
    CleanupItem,
    CleanupPlan,
    OutcomeRejected,
    PlanClient,
    Row,
)
from labcarbon_collect.cleanup.content import BlockCallback, read_digest
from labcarbon_collect.cleanup.hub_revisions import hub_blobs
from labcarbon_collect.cleanup.journal import (
    DELETED,
    DELETING,
    MOVING,
    REFUSED,
    RESTORED,
    STRANDED,
    TRASHED,
    Journal,
)
from labcarbon_collect.cleanup.listings import Listing, list_content
from labcarbon_collect.cleanup.safe_paths import ItemBlocked

ItemNotes = List[Tuple[CleanupItem, str]]  # an item and a message


@dataclass
class SessionResults:
    """Items by result in this call."""

    done: ItemNotes = field(default_factory=list)  # moved, restored or deleted
    with_parent: ItemNotes = field(default_factory=list)  # moved with their folder
    refused: ItemNotes = field(default_factory=list)  # left in place, with reason
    blocked: ItemNotes = field(default_factory=list)  # became ineligible after approval
    # retention period in the trash not over
    waiting: List[CleanupItem] = field(default_factory=list)
    # outcomes rejected by the server, with reason
    rejected: Dict[int, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Total size of the completed items."""
        return sum(item.bytes for item, _ in self.done)


def format_bytes(size: int) -> str:
    """Bytes in words, decimal, three digits."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 999.5 or unit == "PB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"


MAX_PLAN_AGE_S = 10.0  # An older plan is fetched again before anything is moved or deleted.
_REPORT_INTERVAL_S = 60.0
_OUTCOME = {
    TRASHED: "trashed",
    DELETING: "trashed",
    REFUSED: "refused",
    STRANDED: "refused",
    RESTORED: "restored",
    DELETED: "deleted",
}


@dataclass
class Session:
    """One call of the command.

    ``by``: the user. ``now``: µs UTC. ``on_block``: called for each block read. ``threads``: items
    read in parallel. ``undo``: restores an item whose move the server rejects. ``in_doubt``: items
    whose state cannot be determined now. ``moves_in_doubt``: those that were about to move.
    """

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
        """Fetch the plan again. Raises PlanServerError."""
        self.plan, self.fetched_s = self.server.fetch_plan(), time.monotonic()

    def blocked_reason(self, item: CleanupItem) -> str:
        """Return why an item may not be deleted now, or "". Fetches an old plan again. Raises
        PlanServerError, ItemBlocked.
        """
        if time.monotonic() - self.fetched_s > MAX_PLAN_AGE_S:
            self.refresh_plan()
        current = self.plan.item(item.number)
        if current is None or (current.path, current.digest, current.form) != (
            item.path,
            item.digest,
            item.form,
        ):
            raise ItemBlocked("it is no longer in the plan")
        return current.blocked_reason

    def parent_in_trash(self, item: CleanupItem) -> Optional[CleanupItem]:
        """Return the item of the trashed folder that contains this item."""
        if self.journal.state(item.number) in ("", REFUSED):
            for other in self.plan.enclosing_items(item.path):
                if (self.journal.state(other.number) or other.outcome) == TRASHED:
                    return other
        return None

    def refuse(self, item: CleanupItem, message: str) -> None:
        """Record that an item is left in place."""
        self.results.refused.append((item, message))
        is_repeated = (self.journal.state(item.number), self.journal.message(item.number)) == (
            REFUSED,
            message,
        )
        if not self.dry_run and not is_repeated:
            self.journal.append(
                item.number, REFUSED, at_us=self.now(), path=item.path, word=message
            )

    def defer(self, item: CleanupItem, message: str) -> None:
        """Record that an item's state cannot be determined now. Its journal state is kept until a
        later call.
        """
        self.results.refused.append((item, f"{message}; the next call checks again"))
        self.in_doubt.add(item.number)
        if self.journal.state(item.number) == MOVING:
            self.moves_in_doubt.append(item)

    def unreported(self) -> List[Row]:
        """Return outcomes that the server does not have."""
        rows = []
        for item in self.plan.items:
            entry = self.journal.entries.get(item.number, {})
            outcome = _OUTCOME.get(str(entry.get("state")), "")
            if (
                outcome
                and outcome != item.outcome
                and not (entry.get("not_taken") and not item.outcome)
            ):
                rows.append((item.number, outcome, self.journal.message(item.number)))
        return rows

    def report(self) -> None:
        """Report all outcomes. If no item is left, an empty report completes the plan.

        Raises PlanServerError. Unreported outcomes are sent by the next call.
        """
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
        """Report at intervals during a long call. Raises PlanServerError."""
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
        """Restore an item whose outcome the server rejects, because of an objection or a withdrawal
        after the plan was fetched.
        """
        item = self.plan.item(number)
        self.results.rejected[number] = reason
        if item is None or self.undo is None:
            return
        if self.journal.state(number) == TRASHED:
            self.undo(self, item)
            self.results.done = [
                (each, message) for each, message in self.results.done if each.number != number
            ]
        if self.journal.state(number) in (RESTORED, REFUSED):
            entry = {**self.journal.entries[number], "not_taken": True}
            del entry["line"]
            self.journal.append(number, entry.pop("state"), **entry)


def verify_content(
    on_block: BlockCallback, folder: int, name: str, item: CleanupItem, *, may_be_busy: bool = False
) -> Listing:
    """Read the content at a path and return its listing, if it matches the item exactly.

    Raises ItemBlocked, and FileBusy if a program has it open for writing, unless ``may_be_busy``.
    """
    listing = list_content(folder, name, hub_blobs(item.path))
    if listing.form != item.form:
        raise ItemBlocked(f"it is a {listing.form}, a {item.form} was registered")
    if listing.bytes != item.bytes:
        raise ItemBlocked(
            f"it changed: {format_bytes(listing.bytes)} ({listing.bytes:,} bytes), {item.bytes:,} "
            "bytes were registered"
        )
    if len(listing.files) != item.files:
        raise ItemBlocked(
            f"it changed: {len(listing.files):,} files, {item.files:,} were registered"
        )
    if read_digest(folder, name, listing, on_block, may_be_busy) != item.digest:
        raise ItemBlocked("it changed: its content does not match its registered hash")
    return listing
