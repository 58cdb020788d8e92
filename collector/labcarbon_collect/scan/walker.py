"""Walks folders: compares them with what is known, has read what is new, forgets what is gone."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Callable, Iterable, Iterator, List, Optional, Set, Tuple

from labcarbon_collect.files.budget import BudgetExceeded
from labcarbon_collect.scan.database import ARTIFACT, FOLDER, MEMBER, NOTHING
from labcarbon_collect.scan.description import About
from labcarbon_collect.scan.folder_formats import MAX_CARD_BYTES, folder_about, numbered_tars
from labcarbon_collect.scan.local_files import LeadsOut, Listing, Stamp, Tree
from labcarbon_collect.scan.reader import Batch, Task
from labcarbon_collect.scan.recorder import Group, Results
from labcarbon_collect.scan.state import Entry, State
from labcarbon_collect.scan.summary import Tally

_BATCH_FILES, _BATCH_BYTES = 64, 8_000_000
_COMPARED_AT_ONCE = 10_000
# A cache of the Hugging Face hub: blobs are the files that snapshots link to.
_HUB_CACHE = {b"blobs", b"refs", b"snapshots"}
Give = Callable[[Optional[Batch]], None]


@dataclass(frozen=True)
class Here:
    """A folder of the walk."""

    path: bytes
    number: int
    parent: int
    name: bytes


class Walk:
    """One walk over folders that are already known to exist. ``passed``: bytes of the files that it has passed, or gave away
    to be read."""

    def __init__(
        self,
        tree: Tree,
        state: State,
        results: Results,
        tally: Tally,
        give: Give,
        *,
        verify: bool,
        take_all: bool,
        medium: Optional[str],
    ) -> None:
        """``give`` has a batch of files read; called with None now and then, so that answers are taken."""
        self._tree, self._state, self._results, self._tally, self._give = tree, state, results, tally, give
        self._verify, self._take_all, self._medium = verify, take_all, medium
        self.passed = 0

    def go(self, top: Here) -> None:
        """Walk a folder and all below it."""
        waiting = [top]
        while waiting:
            here = waiting.pop()
            self._give(None)
            for name in reversed(self._visit(here)):
                child = self._state.child(here.number, name)
                waiting.append(Here(here.path + b"/" + name, child, here.number, name))

    def _visit(self, here: Here) -> List[bytes]:
        """Look at one folder; return the names of those to walk into."""
        try:
            listing = self._tree.listing(here.path)
        except OSError as error:
            self._tally.unreadable_folder(here.path, error.strerror or str(error))
            return []
        self._tally.links += len(listing.links)
        self._tally.special += listing.special
        medium = self._medium or self._tree.medium(here.path)
        name = here.name.decode("utf-8", "replace")
        about = folder_about(name, listing, lambda card: self._card(here.path, card)) if here.path else None
        before = self._state.entry(here.parent, here.name)
        if about is None:
            return self._loose(here, before, listing, medium)
        self._whole(here, before, about, listing, medium)
        return []

    def _loose(self, here: Here, before: Optional[Entry], listing: Listing, medium: str) -> List[bytes]:
        """A folder of several things."""
        if before is not None and before.what == FOLDER:
            self._forget(here.parent, _above(here), [here.name])
        self._forget(here.number, here.path, self._state.names_of_kind(here.number, MEMBER))
        there = set(listing.folders)
        self._forget_folders(here, there)
        self._state.set_medium(here.number, medium)
        runs = numbered_tars(listing)
        batches = _Batches(here, medium, self._hand, is_member=False)
        for stamp, is_new in self._to_read(here, listing.files, None):
            batches.add(Task(stamp, is_new, listing.linked.get(stamp[0]), stamp[0] in runs))
        batches.flush()
        return [name for name in listing.folders if not (name == b"blobs" and there >= _HUB_CACHE)]

    def _whole(self, here: Here, before: Optional[Entry], about: About, listing: Listing, medium: str) -> None:
        """A folder that is one artifact."""
        self._forget(here.number, here.path, self._state.names_of_kind(here.number, ARTIFACT, NOTHING))
        self._forget_folders(here, set())
        is_known = before is not None and before.what == FOLDER and before.settled
        owner = self._owner(here.path)
        group = self._results.begin(
            Group(here.path, here.number, here.parent, here.name, about, medium, not is_known, owner)
        )
        batches = _Batches(here, medium, self._hand, is_member=True)
        try:
            for stamp, is_new in self._to_read(here, self._members(here.path, listing), group):
                self._results.change(group)
                group.left += 1
                batches.add(Task(stamp, is_new))
        except (OSError, LeadsOut, BudgetExceeded) as error:
            group.why = str(getattr(error, "strerror", None) or error)
        batches.flush()
        self._results.walked(group)

    def _owner(self, path: bytes) -> Optional[int]:
        try:
            return self._tree.owner(path)
        except OSError:
            return None  # it went while we looked

    def _members(self, path: bytes, listing: Listing) -> List[Stamp]:
        """The files of a folder that is one artifact. One that holds nothing else has been listed already."""
        return self._tree.manifest(path) if listing.folders or listing.links else listing.files

    def _hand(self, batch: Batch) -> None:
        """Have a batch read; from now on its bytes are passed, or under way."""
        self._give(batch)
        self.passed += batch.size

    def _to_read(self, here: Here, stamps: List[Stamp], group: Optional[Group]) -> Iterator[Tuple[Stamp, bool]]:
        """The files that are new (True) or not as they were; what is gone is forgotten. ``group``: of the whole folder."""
        first, members = b"", group is not None
        for chunk, until in _chunks(stamps):
            self._tally.files += len(chunk)
            rows = self._state.stamps(here.number, first, until, members=members)
            if rows == chunk and not self._verify and (members or not self._take_all):  # as nearly always
                self.passed += sum(stamp[1] for stamp in chunk)
                first = until or b""
                continue
            fresh, known = set(chunk), set(rows)
            left = {stamp[0] for stamp in known - fresh}  # gone, or not as they were
            gone = left - {stamp[0] for stamp in chunk} if left else set()
            if gone and group is not None:
                self._results.change(group)
            self._forget(here.number, here.path, gone)
            wanted = sorted(self._of_interest(here, fresh, known, first, until, members))
            self.passed += sum(stamp[1] for stamp in chunk) - sum(stamp[1] for stamp in wanted)
            for stamp in wanted:
                yield stamp, stamp not in known and stamp[0] not in left
            first = until or b""

    def _of_interest(
        self, here: Here, fresh: Set[Stamp], known: Set[Stamp], first: bytes, until: Optional[bytes], members: bool
    ) -> Set[Stamp]:
        """Which of some files are to be read: all that are not as they were, or all that may be something."""
        if members:
            return fresh if self._verify else fresh - known
        if not self._verify and not self._take_all:
            return fresh - known
        nothing = set(self._state.stamps(here.number, first, until, members=False, unread=True))
        return (fresh if self._verify else fresh - (known - nothing)) - (set() if self._take_all else nothing)

    def _forget_folders(self, here: Here, there: Set[bytes]) -> None:
        """Forget the folders that are not in this one any more, or are part of it as a whole."""
        for number, name in self._state.children(here.number):
            if name not in there:
                self._forget(here.number, here.path, [name])
                self._results.gone(self._state.forget_tree(number, here.path + b"/" + name))

    def _forget(self, folder: int, path: bytes, names: Iterable[bytes]) -> None:
        self._results.gone(self._state.forget(folder, path, names))

    def _card(self, folder: bytes, name: bytes) -> bytes:
        """A small file of a folder; empty if it is large, leads elsewhere or cannot be read."""
        path = folder + b"/" + name
        try:
            self._tree.stay(path)
            with closing(self._tree.opened(path, follow=True)) as file:
                return bytes(file.at(0, MAX_CARD_BYTES)) if file.stood().size <= MAX_CARD_BYTES else b""
        except (OSError, LeadsOut):
            return b""


class _Batches:
    """Files of one folder, given to be read some at a time."""

    def __init__(self, here: Here, medium: str, give: Callable[[Batch], None], *, is_member: bool) -> None:
        self._here, self._medium, self._is_member, self._give = here, medium, is_member, give
        self._batch = self._fresh()

    def add(self, task: Task) -> None:
        """One file more."""
        self._batch.tasks.append(task)
        self._batch.size += task.stamp[1]
        if len(self._batch.tasks) >= _BATCH_FILES or self._batch.size >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Give what has come together."""
        if self._batch.tasks:
            self._give(self._batch)
            self._batch = self._fresh()

    def _fresh(self) -> Batch:
        return Batch(self._here.number, self._here.path, self._medium, self._is_member)


def _above(here: Here) -> bytes:
    return here.path[: -len(here.name) - 1]


def _chunks(stamps: List[Stamp]) -> Iterator[Tuple[List[Stamp], Optional[bytes]]]:
    """Some files at a time, with the name that the next begin at; at least once."""
    for begin in range(0, max(1, len(stamps)), _COMPARED_AT_ONCE):
        end = begin + _COMPARED_AT_ONCE
        yield stamps[begin:end], stamps[end][0] if end < len(stamps) else None
