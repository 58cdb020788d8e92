"""One scan from the first folder to the last: walk, read, take down, tell."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

from labcarbon_collect.progress import Progress
from labcarbon_collect.scan.database import TOP
from labcarbon_collect.scan.estimate import Ahead
from labcarbon_collect.scan.local_files import Tree
from labcarbon_collect.scan.queries import Asked, Whole
from labcarbon_collect.scan.rate_limit import Pace
from labcarbon_collect.scan.reader import Batch, FileReader
from labcarbon_collect.scan.reader_pool import Threads
from labcarbon_collect.scan.recorder import Results
from labcarbon_collect.scan.state import Entry, State
from labcarbon_collect.scan.summary import Tally
from labcarbon_collect.scan.uploader import Teller
from labcarbon_collect.scan.walker import Here, Walk

_WAIT_S = 0.2
# Who hashes needs the interpreter for moments only, ten times a file; waiting 5 ms for it each time would leave cores idle.
_SWITCH_S = 0.00002
# Hundreds of thousands of names are kept for a moment, in no circles: looking for circles among them is in vain.
_COLLECT_EVERY = 50_000
_EMPTY = (
    "it is empty, though artifacts are known in it: is it mounted? (if all of them were removed, scan the folder above it)"
)


@dataclass(frozen=True)
class Wanted:
    """How to scan. ``medium``: named by who scans; ``limit``: bytes a second; ``say``: a dry run, and where it says."""

    threads: int
    limit: Optional[float] = None
    medium: Optional[str] = None
    verify: bool = False
    take_all: bool = False
    say: Optional[Callable[[str], None]] = None


class Scan:
    """What is under way."""

    def __init__(self, state: State, wanted: Wanted, teller: Optional[Teller], progress: Progress) -> None:
        self._state, self._wanted, self._teller, self._progress = state, wanted, teller, progress
        self.tally = Tally()
        self.asked = Asked(state)
        self._results = Results(state, self.tally, found=self._found, say=wanted.say)
        self._threads: Optional[Threads] = None
        self._walk: Optional[Walk] = None
        self._ahead: Optional[Ahead] = None
        self._passed = 0  # in folders that are done

    def run(self, tops: Sequence[Tuple[Tree, bytes]]) -> None:
        """Scan folders, each with the tree that it belongs to. Raises PushEnded where the server says no."""
        sys.setswitchinterval(_SWITCH_S)
        gc.set_threshold(_COLLECT_EVERY)
        self._ahead = Ahead(tops)
        try:
            for tree, path in tops:
                self._one(tree, path)
        finally:
            self._ahead.stop()
        if self._wanted.say is None:
            self._state.keep(0, now=True)

    def finish(self) -> Whole:
        """Tell what is not told yet; return the sums. Raises PushEnded."""
        try:
            if self._teller is not None:
                self._teller.finish()
        finally:
            self._show(last=True)
        return self.asked.whole()

    def _one(self, tree: Tree, path: bytes) -> None:
        parts = tree.parts(path)
        parent = self._state.folder(parts[:-1]) if len(parts) > 1 else TOP
        number, place = self._state.child(parent, parts[-1]), b"/".join(parts)
        try:
            listing = tree.listing(place)
        except OSError as error:
            self.tally.unreadable_folder(place, error.strerror or str(error))
            return
        if not listing.files and not listing.folders and self._state.knows_any(number):
            self.tally.unreadable_folder(place, _EMPTY)
            return
        wanted = self._wanted
        reader = FileReader(tree, Pace(wanted.limit), take_all=wanted.take_all, is_dry=wanted.say is not None)
        threads = self._threads = Threads(reader, wanted.threads)
        self._walk = Walk(
            tree,
            self._state,
            self._results,
            self.tally,
            self._give,
            verify=wanted.verify,
            take_all=wanted.take_all,
            medium=wanted.medium,
        )
        try:
            self._walk.go(Here(place, number, parent, parts[-1]))
            while threads.under_way:
                self._take(_WAIT_S)
        finally:
            threads.close()
            self._passed, self._walk = self._passed + self._walk.passed, None
        self._state.gather(number, place, parent)

    def _give(self, batch: Optional[Batch]) -> None:
        """Have a batch read, once there is room; take what was read meanwhile."""
        threads = self._threads
        if threads is None:
            return
        while self._take(_WAIT_S if batch is not None and threads.is_disk_full else 0.0) or (
            batch is not None and threads.is_disk_full
        ):
            continue
        if batch is not None:
            threads.give(batch)

    def _take(self, wait_s: float) -> bool:
        done = self._threads.take(wait_s=wait_s) if self._threads is not None else None
        if done is not None:
            self._results.take(*done)
        if self._teller is not None:
            self._teller.poll()
        self._show()
        return done is not None

    def _found(self, above: bytes, entry: Entry) -> None:
        if self._teller is not None:
            self._teller.found(above, entry)

    def _show(self, *, last: bool = False) -> None:
        read, unread = self._threads.reading if self._threads is not None and not last else (0, 0)
        passed = self._passed + (self._walk.passed if self._walk is not None else 0) - unread
        done = 1.0 if last else self._ahead.fraction(passed) if self._ahead is not None else 0.0
        self._progress.update(self.tally.files, done, last=last, read_bytes=self.tally.read_bytes + read)


def outermost(paths: Sequence[bytes]) -> List[bytes]:
    """Folders without those that lie in another of them."""
    kept: List[bytes] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(other.rstrip(b"/") + b"/") for other in kept):
            kept.append(path)
    return kept
