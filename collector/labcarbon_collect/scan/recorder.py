"""Takes what was read into the state: new, changed, the same, corrupt, refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.progress import amount
from labcarbon_collect.scan.database import ARTIFACT, CORRUPT, FOLDER, MEMBER, NOTHING
from labcarbon_collect.scan.description import About, shown, unregistrable
from labcarbon_collect.scan.medium import UNKNOWN
from labcarbon_collect.scan.reader import Batch, Read
from labcarbon_collect.scan.state import Entry, State, entry_of
from labcarbon_collect.scan.summary import Tally

Found = Callable[[bytes, Entry], None]  # (path of the folder it lies in, what it is): new, or other content


@dataclass
class Group:
    """A folder that is one artifact, while its files are read."""

    path: bytes
    folder: int
    parent: int
    name: bytes
    about: About
    medium: str
    is_changed: bool
    owner: Optional[int] = None
    left: int = 0
    is_walked: bool = False
    why: str = ""


class Results:
    """What one scan found, put down as it comes."""

    def __init__(self, state: State, tally: Tally, *, found: Found, say: Optional[Callable[[str], None]] = None) -> None:
        """``say``: a dry run, which says what it would tell, and hashes and keeps nothing."""
        self._state, self._tally, self._found, self._say = state, tally, found, say
        self._groups: Dict[int, Group] = {}
        self._fresh: List[Entry] = []

    def take(self, batch: Batch, reads: Sequence[Read]) -> None:
        """Put down what came of a batch."""
        self._fresh = []
        for read in reads:
            if read.digest is not None:
                self._tally.read_files += 1
                self._tally.read_bytes += read.task.stamp[1]
            if batch.is_member:
                self._member(batch, read)
            else:
                self._file(batch, read)
        if self._fresh:
            self._state.put_new(batch.path, self._fresh)
        if batch.is_member:
            self._end_if_done(self._groups[batch.folder])
        self._state.keep(batch.size)

    def begin(self, group: Group) -> Group:
        """Expect the files of a folder that is one artifact."""
        self._groups[group.folder] = group
        self._state.set_medium_of(group.parent, group.name, group.medium)
        return group

    def change(self, group: Group) -> None:
        """Note that its files are not as they were: its digest must be found out again, were it after a kill."""
        if not group.is_changed:
            group.is_changed = True
            self._state.unsettle(group.parent, group.name)

    def walked(self, group: Group) -> None:
        """All its files are listed and given to be read."""
        group.is_walked = True
        self._end_if_done(group)

    def gone(self, artifacts: Sequence[Tuple[bytes, int]]) -> None:
        """Count artifacts that are not where they were."""
        self._tally.went += len(artifacts)
        if self._say is not None:
            for path, size in artifacts:
                self._say(f"missing {shown(path)} ({amount(size)})")

    def _file(self, batch: Batch, read: Read) -> None:
        task, path = read.task, batch.path + b"/" + read.task.stamp[0]
        old = None if task.is_new else self._state.entry(batch.folder, task.stamp[0])
        if read.fault:
            self._not_read(batch, read, path, old)
        elif read.about is None:
            if old is not None and old.what == ARTIFACT:
                self.gone(self._state.forget(batch.folder, batch.path, [old.name]))
            self._keep(path, old, entry_of(batch.folder, NOTHING, task.stamp, None, settled=read.settled))
        elif self._say is not None:
            self._say_found(path, read.about, task.stamp[1], old)
        else:
            entry = entry_of(
                batch.folder, ARTIFACT, task.stamp, read.digest, about=read.about, payload=read.payload,
                medium=_medium(batch.medium, old), link=task.link, settled=read.settled, owner=read.owner,
            )  # fmt: skip
            if old is not None and _is_corrupt(old, entry):
                self._state.mark_corrupt(path, entry)
            else:
                self._put(batch.path, old, entry)

    def _not_read(self, batch: Batch, read: Read, path: bytes, old: Optional[Entry]) -> None:
        """Nothing to tell; what is surely not there any more is forgotten, what could not be seen stays as it was known."""
        if read.fault in ("gone", "broken") and old is not None:
            self.gone(self._state.forget(batch.folder, batch.path, [old.name]))
        if read.fault != "gone":
            self._tally.refuse(path, read.why)

    def _put(self, above: bytes, old: Optional[Entry], entry: Entry) -> None:
        path = above + b"/" + entry.name
        if old is not None and old.what != entry.what:
            old = None  # what lay there was no artifact
        self._keep(path, old, entry)
        if old is None:
            self._tally.new += 1
        elif old.digest != entry.digest:
            self._tally.changed += 1
        else:
            if old.state == CORRUPT:
                self._state.tell(path, entry.folder, entry.name, "present")
            return
        self._found(above, entry)

    def _keep(self, path: bytes, old: Optional[Entry], entry: Entry) -> None:
        """Put a row down: at once where there was one, with those of its batch where there was none."""
        if old is None:
            self._fresh.append(entry)
        else:
            self._state.put(path, entry)

    def _member(self, batch: Batch, read: Read) -> None:
        group, name = self._groups[batch.folder], read.task.stamp[0]
        group.left -= 1
        if read.fault:
            group.why = group.why or f"{shown(name)} in it: {read.why}"
        elif read.digest is not None:
            old = None if read.task.is_new else self._state.entry(batch.folder, name)
            entry = entry_of(batch.folder, MEMBER, read.task.stamp, read.digest, settled=read.settled)
            path = batch.path + b"/" + name
            if old is not None and _is_corrupt(old, entry):
                self._state.mark_corrupt(path, entry)
            else:
                self._keep(path, old, entry)

    def _end_if_done(self, group: Group) -> None:
        if not group.is_walked or group.left:
            return
        del self._groups[group.folder]
        why = group.why or unregistrable(group.path)
        if why:
            self._tally.refuse(group.path, why)
        elif group.is_changed:
            self._end(group)

    def _end(self, group: Group) -> None:
        old = self._state.entry(group.parent, group.name)
        above = group.path[: -len(group.name) - 1]
        if self._say is not None:
            self._say_found(group.path, group.about, None, old)
            return
        sums = self._state.sums(group.folder)
        stamp = (group.name, sums.size, sums.mtime_ns, 0)
        entry = entry_of(
            group.parent, FOLDER, stamp, sums.digest, about=group.about, medium=_medium(group.medium, old), files=sums.files,
            owner=group.owner,
        )  # fmt: skip
        if sums.is_corrupt and old is not None and old.what == FOLDER:
            self._state.mark_corrupt(group.path, entry)
        else:
            self._fresh = []
            self._put(above, old, entry)
            if self._fresh:
                self._state.put_new(above, self._fresh)

    def _say_found(self, path: bytes, about: About, size: Optional[int], old: Optional[Entry]) -> None:
        if self._say is None:
            return
        is_known = old is not None and old.what in (ARTIFACT, FOLDER)
        if is_known:
            self._tally.changed += 1
        else:
            self._tally.new += 1
        what = " ".join(word for word in (about.kind, about.format) if word)
        large = "" if size is None else f", {amount(size)}"
        self._say(f"{'changed' if is_known else 'new'} {shown(path)} ({what}{large})")


def _medium(told: str, old: Optional[Entry]) -> str:
    """The medium of what lies here now: one that was named stays known to who scans without naming it."""
    return old.medium or told if old is not None and told == UNKNOWN else told


def _is_corrupt(old: Entry, entry: Entry) -> bool:
    """Whether content is another though nothing says that somebody wrote it."""
    was = (old.what, old.size, old.mtime_ns)
    return bool(old.settled) and was == (entry.what, entry.size, entry.mtime_ns) and old.digest != entry.digest
