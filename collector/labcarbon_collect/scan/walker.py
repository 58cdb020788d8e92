"""Walks folders, compares them with the database, submits new and changed files, and removes
missing ones.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Callable, Iterable, Iterator, List, Optional, Set, Tuple

from labcarbon_collect.files.read_limits import BudgetExceeded
from labcarbon_collect.scan.database import ARTIFACT, FOLDER, MEMBER, UNRECOGNISED
from labcarbon_collect.scan.description import Description
from labcarbon_collect.scan.file_reader import Batch, FileTask
from labcarbon_collect.scan.folder_formats import (
    MAX_CARD_BYTES,
    describe_folder,
    describe_hub_revision,
    numbered_tars,
)
from labcarbon_collect.scan.hashed_files import Entry, ScanState
from labcarbon_collect.scan.local_files import LinkOutsideRoot, Links, Listing, Stamp, Tree
from labcarbon_collect.scan.recorder import FolderGroup, Recorder
from labcarbon_collect.scan.summary import Tally

_BATCH_FILES, _BATCH_BYTES = 64, 8_000_000
_CHUNK_FILES = 10_000
# A Hugging Face hub cache: snapshots link to the files in blobs. A revision that was downloaded by
# its commit has no refs.
_HUB_CACHE = {b"blobs", b"snapshots"}
SubmitBatch = Callable[[Optional[Batch]], None]


@dataclass(frozen=True)
class WalkFolder:
    """A folder of the walk."""

    path: bytes
    number: int
    parent: int
    name: bytes


class Walker:
    """Walks existing folders. ``walked_bytes``: bytes of files that are unchanged or submitted."""

    def __init__(
        self,
        tree: Tree,
        state: ScanState,
        recorder: Recorder,
        tally: Tally,
        submit_batch: SubmitBatch,
        *,
        verify: bool,
        include_unknown: bool,
        medium: Optional[str],
    ) -> None:
        """``submit_batch`` submits a batch of files. A call with None collects results."""
        self._tree, self._state, self._recorder, self._tally, self._submit_batch = (
            tree,
            state,
            recorder,
            tally,
            submit_batch,
        )
        self._verify, self._include_unknown, self._medium = verify, include_unknown, medium
        self.walked_bytes = 0

    def walk(self, top: WalkFolder) -> None:
        """Walk a folder and everything below it."""
        folders = [top]
        while folders:
            folder = folders.pop()
            self._submit_batch(None)
            for name in reversed(self._visit_folder(folder)):
                child = self._state.child(folder.number, name)
                folders.append(WalkFolder(folder.path + b"/" + name, child, folder.number, name))

    def _visit_folder(self, folder: WalkFolder) -> List[bytes]:
        """Process one folder. Returns the names of subfolders to walk."""
        try:
            listing = self._tree.list_folder(folder.path)
        except OSError as error:
            self._tally.unreadable_folder(folder.path, error.strerror or str(error))
            return []
        self._tally.links += len(listing.links)
        self._tally.special += listing.special
        medium = self._medium or self._tree.medium(folder.path)
        description = self._describe_folder(folder, listing) if folder.path else None
        previous = self._state.entry(folder.parent, folder.name)
        if description is None:
            return self._visit_plain_folder(folder, previous, listing, medium)
        self._visit_artifact_folder(folder, previous, description, listing, medium)
        return []

    def _describe_folder(self, folder: WalkFolder, listing: Listing) -> Optional[Description]:
        description = describe_folder(
            folder.name.decode("utf-8", "replace"),
            listing,
            lambda card: self._read_card(folder.path, card),
            lambda name: self._list_child(folder.path + b"/" + name),
        )
        path = folder.path.decode("utf-8", "replace")
        return describe_hub_revision(path, listing, description)

    def _list_child(self, path: bytes) -> Optional[Listing]:
        try:
            return self._tree.list_folder(path)
        except OSError:
            return None  # it is reported when it is visited

    def _visit_plain_folder(
        self, folder: WalkFolder, previous: Optional[Entry], listing: Listing, medium: str
    ) -> List[bytes]:
        """Process a folder of several artifacts."""
        if previous is not None and previous.what == FOLDER:
            self._forget(folder.parent, _parent_path(folder), [folder.name])
        self._forget(folder.number, folder.path, self._state.names_of_kind(folder.number, MEMBER))
        present = set(listing.folders)
        self._forget_missing_folders(folder, present)
        self._state.set_medium(folder.number, medium)
        self._state.set_links(folder.number, listing.linked)
        numbered = numbered_tars(listing)
        batches = _BatchBuilder(folder, medium, self._submit, is_member=False)
        for stamp, is_new in self._changed_files(folder, listing.files, None):
            batches.add(FileTask(stamp, is_new, listing.linked.get(stamp[0]), stamp[0] in numbered))
        batches.flush()
        return [
            name for name in listing.folders if not (name == b"blobs" and present >= _HUB_CACHE)
        ]

    def _visit_artifact_folder(
        self,
        folder: WalkFolder,
        previous: Optional[Entry],
        description: Description,
        listing: Listing,
        medium: str,
    ) -> None:
        """Process a folder that is one artifact."""
        self._forget(
            folder.number,
            folder.path,
            self._state.names_of_kind(folder.number, ARTIFACT, UNRECOGNISED),
        )
        self._forget_missing_folders(folder, set())
        is_known = previous is not None and previous.what == FOLDER and previous.settled
        owner = self._owner(folder.path)
        group = self._recorder.start_group(
            FolderGroup(
                folder.path,
                folder.number,
                folder.parent,
                folder.name,
                description,
                medium,
                not is_known,
                owner,
            )
        )
        batches = _BatchBuilder(folder, medium, self._submit, is_member=True)
        try:
            stamps, links = self._members(folder.path, listing)
            self._state.set_links(folder.number, links)
            for stamp, is_new in self._changed_files(folder, stamps, group):
                self._recorder.mark_changed(group)
                group.remaining_files += 1
                batches.add(FileTask(stamp, is_new, links.get(stamp[0])))
        except (OSError, LinkOutsideRoot, BudgetExceeded) as error:
            group.reason = str(getattr(error, "strerror", None) or error)
        batches.flush()
        self._recorder.finish_walk(group)

    def _owner(self, path: bytes) -> Optional[int]:
        try:
            return self._tree.owner(path)
        except OSError:
            return None  # deleted meanwhile

    def _members(self, path: bytes, listing: Listing) -> Tuple[List[Stamp], Links]:
        """Return the files of a folder that is one artifact, and the keys of those that can be
        shared. Reuses the listing if it has no subfolders and links.
        """
        if listing.folders or listing.links:
            return self._tree.manifest(path)
        return listing.files, listing.linked

    def _submit(self, batch: Batch) -> None:
        """Submit a batch and count its bytes."""
        self._submit_batch(batch)
        self.walked_bytes += batch.size

    def _changed_files(
        self, folder: WalkFolder, stamps: List[Stamp], group: Optional[FolderGroup]
    ) -> Iterator[Tuple[Stamp, bool]]:
        """Yield files that are new (True) or changed (False). Removes missing ones. ``group``: the
        folder is one artifact.
        """
        first, members = b"", group is not None
        for chunk, until in _chunks(stamps):
            self._tally.files += len(chunk)
            rows = self._state.stamps(folder.number, first, until, members=members)
            # the usual case
            if rows == chunk and not self._verify and (members or not self._include_unknown):
                self.walked_bytes += sum(stamp[1] for stamp in chunk)
                first = until or b""
                continue
            fresh, known = set(chunk), set(rows)
            missing_or_changed = {stamp[0] for stamp in known - fresh}
            missing = (
                missing_or_changed - {stamp[0] for stamp in chunk} if missing_or_changed else set()
            )
            if missing and group is not None:
                self._recorder.mark_changed(group)
            self._forget(folder.number, folder.path, missing)
            to_read = sorted(self._select_files(folder, fresh, known, first, until, members))
            self.walked_bytes += sum(stamp[1] for stamp in chunk) - sum(
                stamp[1] for stamp in to_read
            )
            for stamp in to_read:
                yield stamp, stamp not in known and stamp[0] not in missing_or_changed
            first = until or b""

    def _select_files(
        self,
        folder: WalkFolder,
        fresh: Set[Stamp],
        known: Set[Stamp],
        first: bytes,
        until: Optional[bytes],
        members: bool,
    ) -> Set[Stamp]:
        """Return the files to read: changed ones, or with --verify or --include-unknown more."""
        if members:
            return fresh if self._verify else fresh - known
        if not self._verify and not self._include_unknown:
            return fresh - known
        nothing = set(
            self._state.stamps(folder.number, first, until, members=False, unrecognised_only=True)
        )
        return (fresh if self._verify else fresh - (known - nothing)) - (
            set() if self._include_unknown else nothing
        )

    def _forget_missing_folders(self, folder: WalkFolder, present: Set[bytes]) -> None:
        """Remove folders that no longer exist or became part of a folder artifact."""
        for number, name in self._state.children(folder.number):
            if name not in present:
                self._forget(folder.number, folder.path, [name])
                self._recorder.count_missing(
                    self._state.forget_tree(number, folder.path + b"/" + name)
                )

    def _forget(self, folder: int, path: bytes, names: Iterable[bytes]) -> None:
        self._recorder.count_missing(self._state.forget(folder, path, names))

    def _read_card(self, folder: bytes, name: bytes) -> bytes:
        """Return a small file of a folder. Empty if it is large, outside of the scan or
        unreadable.
        """
        path = folder + b"/" + name
        try:
            self._tree.check_inside(path)
            with closing(self._tree.open_file(path, follow=True)) as file:
                return (
                    bytes(file.at(0, MAX_CARD_BYTES)) if file.stat().size <= MAX_CARD_BYTES else b""
                )
        except (OSError, LinkOutsideRoot):
            return b""


class _BatchBuilder:
    """Groups files of one folder into batches."""

    def __init__(
        self,
        folder: WalkFolder,
        medium: str,
        submit_batch: Callable[[Batch], None],
        *,
        is_member: bool,
    ) -> None:
        self._folder, self._medium, self._is_member, self._submit_batch = (
            folder,
            medium,
            is_member,
            submit_batch,
        )
        self._batch = self._fresh()

    def add(self, task: FileTask) -> None:
        """Add a file."""
        self._batch.tasks.append(task)
        self._batch.size += task.stamp[1]
        if len(self._batch.tasks) >= _BATCH_FILES or self._batch.size >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Submit the current batch."""
        if self._batch.tasks:
            self._submit_batch(self._batch)
            self._batch = self._fresh()

    def _fresh(self) -> Batch:
        return Batch(self._folder.number, self._folder.path, self._medium, self._is_member)


def _parent_path(folder: WalkFolder) -> bytes:
    return folder.path[: -len(folder.name) - 1]


def _chunks(stamps: List[Stamp]) -> Iterator[Tuple[List[Stamp], Optional[bytes]]]:
    """Yield chunks of files with the first name of the next chunk. Yields at least once."""
    for start in range(0, max(1, len(stamps)), _CHUNK_FILES):
        end = start + _CHUNK_FILES
        yield stamps[start:end], stamps[end][0] if end < len(stamps) else None
