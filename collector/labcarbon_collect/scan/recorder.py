"""Records read results in the scan database: new, changed, unchanged, corrupt or refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.progress import format_bytes
from labcarbon_collect.scan.database import ARTIFACT, CORRUPT, FOLDER, MEMBER, UNRECOGNISED
from labcarbon_collect.scan.description import Description, path_problem, printable
from labcarbon_collect.scan.file_reader import Batch, ReadResult
from labcarbon_collect.scan.hashed_files import Entry, ScanState, entry_from_stamp
from labcarbon_collect.scan.medium import UNKNOWN
from labcarbon_collect.scan.summary import Tally

# (path of its folder, entry), for new or changed artifacts
OnArtifact = Callable[[bytes, Entry], None]


@dataclass
class FolderGroup:
    """A folder that is one artifact, while its files are read."""

    path: bytes
    folder: int
    parent: int
    name: bytes
    description: Description
    medium: str
    is_changed: bool
    owner: Optional[int] = None
    remaining_files: int = 0
    is_listed: bool = False
    reason: str = ""


class Recorder:
    """Records the results of one scan as they arrive."""

    def __init__(
        self,
        state: ScanState,
        tally: Tally,
        *,
        on_artifact: OnArtifact,
        report_line: Optional[Callable[[str], None]] = None,
    ) -> None:
        """``report_line``: prints a line of a dry run, which hashes and stores nothing. None for a
        real scan.
        """
        self._state, self._tally, self._on_artifact, self._report_line = (
            state,
            tally,
            on_artifact,
            report_line,
        )
        self._groups: Dict[int, FolderGroup] = {}
        self._new_rows: List[Entry] = []

    def record(self, batch: Batch, reads: Sequence[ReadResult]) -> None:
        """Record the results of a batch."""
        self._new_rows = []
        for read in reads:
            if read.digest is not None:
                self._tally.read_files += 1
                self._tally.read_bytes += read.task.stamp[1]
            if batch.is_member:
                self._record_member(batch, read)
            else:
                self._record_file(batch, read)
        if self._new_rows:
            self._state.insert(batch.path, self._new_rows)
        if batch.is_member:
            self._finish_group_if_complete(self._groups[batch.folder])
        self._state.commit(batch.size)

    def start_group(self, group: FolderGroup) -> FolderGroup:
        """Register a folder that is one artifact before its files are read."""
        self._groups[group.folder] = group
        self._state.set_medium_of(group.parent, group.name, group.medium)
        return group

    def mark_changed(self, group: FolderGroup) -> None:
        """Record that files of the folder differ. Its digest is computed again, also after a
        kill.
        """
        if not group.is_changed:
            group.is_changed = True
            self._state.mark_unsettled(group.parent, group.name)

    def finish_walk(self, group: FolderGroup) -> None:
        """All files of the folder are listed and submitted."""
        group.is_listed = True
        self._finish_group_if_complete(group)

    def count_missing(self, artifacts: Sequence[Tuple[bytes, int]]) -> None:
        """Count artifacts that are no longer at their path."""
        self._tally.missing += len(artifacts)
        if self._report_line is not None:
            for path, size in artifacts:
                self._report_line(f"missing {printable(path)} ({format_bytes(size)})")

    def _record_file(self, batch: Batch, read: ReadResult) -> None:
        task, path = read.task, batch.path + b"/" + read.task.stamp[0]
        old = None if task.is_new else self._state.entry(batch.folder, task.stamp[0])
        if read.fault:
            self._record_fault(batch, read, path, old)
        elif read.description is None:
            if old is not None and old.what == ARTIFACT:
                self.count_missing(self._state.forget(batch.folder, batch.path, [old.name]))
            self._store_row(
                path,
                old,
                entry_from_stamp(
                    batch.folder, UNRECOGNISED, task.stamp, None, settled=read.settled
                ),
            )
        elif self._report_line is not None:
            self._report_artifact(path, read.description, task.stamp[1], old)
        else:
            entry = entry_from_stamp(
                batch.folder,
                ARTIFACT,
                task.stamp,
                read.digest,
                description=read.description,
                payload=read.payload,
                medium=_medium(batch.medium, old),
                link=task.link,
                settled=read.settled,
                owner=read.owner,
            )
            if old is not None and _is_corrupt(old, entry):
                self._state.mark_corrupt(path, entry)
            else:
                self._store_artifact(batch.path, old, entry)

    def _record_fault(
        self, batch: Batch, read: ReadResult, path: bytes, old: Optional[Entry]
    ) -> None:
        """Handle a file that cannot be registered. Removes a missing file from the database; keeps
        the previous state of an unreadable one.
        """
        if read.fault in ("gone", "broken") and old is not None:
            self.count_missing(self._state.forget(batch.folder, batch.path, [old.name]))
        if read.fault != "gone":
            self._tally.refuse(path, read.reason)

    def _store_artifact(self, parent_path: bytes, old: Optional[Entry], entry: Entry) -> None:
        path = parent_path + b"/" + entry.name
        if old is not None and old.what != entry.what:
            old = None  # the previous file was no artifact
        self._store_row(path, old, entry)
        if old is None:
            self._tally.new += 1
        elif old.digest != entry.digest:
            self._tally.changed += 1
        else:
            if old.state == CORRUPT:
                self._state.queue_copy_change(path, entry.folder, entry.name, "present")
            return
        self._on_artifact(parent_path, entry)

    def _store_row(self, path: bytes, old: Optional[Entry], entry: Entry) -> None:
        """Store a row: immediately if it replaces one, else with the new rows of its batch."""
        if old is None:
            self._new_rows.append(entry)
        else:
            self._state.update(path, entry)

    def _record_member(self, batch: Batch, read: ReadResult) -> None:
        group, name = self._groups[batch.folder], read.task.stamp[0]
        group.remaining_files -= 1
        if read.fault:
            group.reason = group.reason or f"{printable(name)} in it: {read.reason}"
        elif read.digest is not None:
            old = None if read.task.is_new else self._state.entry(batch.folder, name)
            entry = entry_from_stamp(
                batch.folder,
                MEMBER,
                read.task.stamp,
                read.digest,
                link=read.task.link,
                settled=read.settled,
            )
            path = batch.path + b"/" + name
            if old is not None and _is_corrupt(old, entry):
                self._state.mark_corrupt(path, entry)
            else:
                self._store_row(path, old, entry)

    def _finish_group_if_complete(self, group: FolderGroup) -> None:
        if not group.is_listed or group.remaining_files:
            return
        del self._groups[group.folder]
        reason = group.reason or path_problem(group.path)
        if reason:
            self._tally.refuse(group.path, reason)
        elif group.is_changed:
            self._finish_group(group)

    def _finish_group(self, group: FolderGroup) -> None:
        old = self._state.entry(group.parent, group.name)
        parent_path = group.path[: -len(group.name) - 1]
        if self._report_line is not None:
            self._report_artifact(group.path, group.description, None, old)
            return
        sums = self._state.sums(group.folder)
        stamp = (group.name, sums.size, sums.mtime_ns, 0)
        entry = entry_from_stamp(
            group.parent,
            FOLDER,
            stamp,
            sums.digest,
            description=group.description,
            medium=_medium(group.medium, old),
            files=sums.files,
            owner=group.owner,
        )
        if sums.is_corrupt and old is not None and old.what == FOLDER:
            self._state.mark_corrupt(group.path, entry)
        else:
            self._new_rows = []
            self._store_artifact(parent_path, old, entry)
            if self._new_rows:
                self._state.insert(parent_path, self._new_rows)

    def _report_artifact(
        self, path: bytes, description: Description, size: Optional[int], old: Optional[Entry]
    ) -> None:
        if self._report_line is None:
            return
        is_known = old is not None and old.what in (ARTIFACT, FOLDER)
        if is_known:
            self._tally.changed += 1
        else:
            self._tally.new += 1
        what = " ".join(word for word in (description.kind, description.format) if word)
        size_text = "" if size is None else f", {format_bytes(size)}"
        self._report_line(
            f"{'changed' if is_known else 'new'} {printable(path)} ({what}{size_text})"
        )


def _medium(detected: str, old: Optional[Entry]) -> str:
    """Return the medium to store. A medium named in an earlier scan is kept if this scan detects
    none.
    """
    return old.medium or detected if old is not None and detected == UNKNOWN else detected


def _is_corrupt(old: Entry, entry: Entry) -> bool:
    """Return whether content changed without a change of size and mtime."""
    before = (old.what, old.size, old.mtime_ns)
    return (
        bool(old.settled)
        and before == (entry.what, entry.size, entry.mtime_ns)
        and old.digest != entry.digest
    )
