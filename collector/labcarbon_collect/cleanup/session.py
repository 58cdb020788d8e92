"""What all three ways of carrying out a plan share: the plan as it is now, the journal, what is told to the server."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Set, Tuple

from labcarbon_collect.cleanup.client import MAX_ROWS, Line, NotTaken, Plan, PlanServer, Row
from labcarbon_collect.cleanup.content import Hashed, Listing, digest_of, listed
from labcarbon_collect.cleanup.journal import DELETED, DELETING, HELD, MOVING, REFUSED, RESTORED, TRASHED, Journal
from labcarbon_collect.cleanup.safe_paths import Stays

Said = List[Tuple[Line, str]]  # a line, and a word to it


@dataclass
class Told:
    """Lines by what became of them in this call."""

    done: Said = field(default_factory=list)  # moved, brought back or deleted
    along: Said = field(default_factory=list)  # moved with the folder that it lies in
    refused: Said = field(default_factory=list)  # left where it was, and why
    stays: Said = field(default_factory=list)  # kept by the server's word since it was approved
    waiting: List[Line] = field(default_factory=list)  # in the trash, and not for long enough
    not_taken: Dict[int, str] = field(default_factory=dict)  # lines that the server takes no word of, and why

    @property
    def bytes(self) -> int:
        """Bytes of what was done."""
        return sum(line.bytes for line, _ in self.done)


def format_bytes(size: int) -> str:
    """Bytes in words, decimal, three digits."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 999.5 or unit == "PB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"


FRESH_S = 10.0  # an answer older than this is asked again before anything is moved or deleted
_TELL_EVERY_S = 60.0
_OUTCOME = {
    TRASHED: "trashed", DELETING: "trashed", REFUSED: "refused", HELD: "refused", RESTORED: "restored", DELETED: "deleted",
}  # fmt: skip


@dataclass
class Work:
    """One call of the command. ``by``: who carries it out; ``now``: µs UTC; ``hashed``: told of each block that is read;
    ``threads``: how many lines are read at once; ``undo``: brings a line back whose going the server does not take;
    ``unsettled``: lines of which nobody can tell now how they stand; ``half_moved``: those that were about to move."""

    server: PlanServer
    plan: Plan
    journal: Journal
    by: str
    now: Callable[[], int]
    hashed: Hashed
    is_dry: bool = False
    threads: int = 1
    undo: Optional[Callable[[Work, Line], None]] = None
    told: Told = field(default_factory=Told)
    asked_s: float = field(default_factory=time.monotonic)
    told_s: float = field(default_factory=time.monotonic)
    unsettled: Set[int] = field(default_factory=set)
    half_moved: List[Line] = field(default_factory=list)

    def ask(self) -> None:
        """Ask for the plan again. Raises NotAnswered."""
        self.plan, self.asked_s = self.server.ask(), time.monotonic()

    def stays(self, line: Line) -> str:
        """Why a line may not go now, '' where it may; an old answer is asked again. Raises NotAnswered, Stays."""
        if time.monotonic() - self.asked_s > FRESH_S:
            self.ask()
        found = self.plan.line(line.number)
        if found is None or (found.path, found.digest, found.form) != (line.path, line.digest, line.form):
            raise Stays("it is not in the plan any more")
        return found.stays

    def went_with(self, line: Line) -> Optional[Line]:
        """The line of the folder that lies in the trash with this line in it."""
        if self.journal.state(line.number) in ("", REFUSED):
            for other in self.plan.around(line.path):
                if (self.journal.state(other.number) or other.outcome) == TRASHED:
                    return other
        return None

    def refuse(self, line: Line, word: str) -> None:
        """A line is left where it was."""
        self.told.refused.append((line, word))
        again = (self.journal.state(line.number), self.journal.word(line.number)) == (REFUSED, word)
        if not self.is_dry and not again:
            self.journal.note(line.number, REFUSED, at_us=self.now(), path=line.path, word=word)

    def leave(self, line: Line, word: str) -> None:
        """What became of a line cannot be told now: what the journal says of it stands, until a later call can."""
        self.told.refused.append((line, f"{word}; the next call looks again"))
        self.unsettled.add(line.number)
        if self.journal.state(line.number) == MOVING:
            self.half_moved.append(line)

    def untold(self) -> List[Row]:
        """What the server does not know yet."""
        rows = []
        for line in self.plan.lines:
            entry = self.journal.last.get(line.number, {})
            outcome = _OUTCOME.get(str(entry.get("state")), "")
            if outcome and outcome != line.outcome and not (entry.get("not_taken") and not line.outcome):
                rows.append((line.number, outcome, self.journal.word(line.number)))
        return rows

    def tell(self) -> None:
        """Tell the server all that it does not know, or that nothing is left to go: the plan ends with that. Raises
        NotAnswered; what is not told is told by the next call."""
        rows = self.untold()
        if not rows and self.plan.state == "approved" and all(line.outcome or line.stays for line in self.plan.lines):
            self._tell([])
        for start in range(0, len(rows), MAX_ROWS):
            self._tell(rows[start : start + MAX_ROWS])
        self.told_s = time.monotonic()

    def tell_now_and_then(self) -> None:
        """Tell it in a long call, so that the server does not learn all of it at the end. Raises NotAnswered."""
        if time.monotonic() - self.told_s > _TELL_EVERY_S:
            self.tell()

    def _tell(self, rows: List[Row]) -> None:
        try:
            self.server.tell(rows)
        except NotTaken as why:
            if len(rows) > 1 and not why.whole:
                self._tell(rows[: len(rows) // 2])
                self._tell(rows[len(rows) // 2 :])
                return
            for number, _, _ in rows:
                self._not_taken(number, str(why))
            return
        for number, outcome, _ in rows:
            line = self.plan.line(number)
            if line is not None:
                line.outcome = outcome

    def _not_taken(self, number: int, why: str) -> None:
        """Somebody objected, or withdrew the plan, after it was asked: what went meanwhile comes back."""
        line = self.plan.line(number)
        self.told.not_taken[number] = why
        if line is None or self.undo is None:
            return
        if self.journal.state(number) == TRASHED:
            self.undo(self, line)
            self.told.done = [(each, word) for each, word in self.told.done if each.number != number]
        if self.journal.state(number) in (RESTORED, REFUSED):
            entry = {**self.journal.last[number], "not_taken": True}
            del entry["line"]
            self.journal.note(number, entry.pop("state"), **entry)


def verified(hashed: Hashed, folder: int, name: str, line: Line, *, may_be_busy: bool = False) -> Listing:
    """Read what lies at a place and return its listing, if it is what the line says to the last byte. Raises Stays, and Busy
    where a program has it open for writing: what goes may not be."""
    found = listed(folder, name)
    if found.form != line.form:
        raise Stays(f"it is a {found.form}, a {line.form} was registered")
    if found.bytes != line.bytes:
        raise Stays(f"it changed: {format_bytes(found.bytes)} ({found.bytes:,} bytes), {line.bytes:,} bytes were registered")
    if len(found.files) != line.files:
        raise Stays(f"it changed: {len(found.files):,} files, {line.files:,} were registered")
    if digest_of(folder, name, found, hashed, may_be_busy) != line.digest:
        raise Stays("it changed: its content is not what was registered")
    return found
