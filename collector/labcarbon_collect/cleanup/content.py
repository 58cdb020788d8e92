"""Reads, locks and deletes listed content at a path.

Digests follow docs/artifacts.md: SHA-256 of a file, or of the sorted manifest of a folder.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing, contextmanager
from typing import Callable, Generator, Iterator, Tuple

from labcarbon_collect.cleanup.hub_revisions import used_blobs
from labcarbon_collect.cleanup.listings import (
    FILE,
    File,
    LinkedFile,
    Listing,
    blob_of,
    entry_like,
    list_content,
    open_blobs,
)
from labcarbon_collect.cleanup.open_files import read_lease
from labcarbon_collect.cleanup.safe_paths import (
    ItemBlocked,
    exists,
    mount_id,
    open_file,
    open_folder,
    sync_folder,
)
from labcarbon_collect.files.sequential_reader import SequentialReader
from labcarbon_collect.lc1 import manifest_hash

_BLOCK = 1 << 20
_CHANGED_MESSAGE = (
    "{} changed after its deletion was started: move it away to keep it, or delete it manually"
)
BlockCallback = Callable[[int], None]  # called with the size of each block read
_OpenFiles = Generator[Tuple[File, str, int], None, None]


def read_digest(
    folder: int, name: str, listing: Listing, on_block: BlockCallback, may_be_busy: bool = True
) -> str:
    """Read all listed content and return its digest.

    Raises ItemBlocked if anything differs from the listing. Raises FileBusy if a program has a file
    open for writing, unless ``may_be_busy``.
    """
    mount, rows = mount_id(folder), []
    with closing(_open_files(folder, name, listing)) as files:
        for file, last_part, descriptor in files:
            if mount_id(descriptor) != mount:
                raise ItemBlocked(f"a file system is mounted at {last_part}")
            if not may_be_busy:
                with read_lease(descriptor, _label(file)):
                    pass
            rows.append((file.name, file.size, _digest(descriptor, last_part, file, on_block)))
    if list_content(folder, name, listing.blobs) != listing:
        raise ItemBlocked("it changed while it was read")
    return rows[0][2].hex() if listing.form == FILE else manifest_hash(rows)


@contextmanager
def no_writers(folder: int, name: str, listing: Listing) -> Iterator[None]:
    """Ensure that no program has the listed content open for writing.

    A file stays locked for the duration of the context, which should be short. A folder is checked
    file by file and is not locked. Raises ItemBlocked, FileBusy.
    """
    with closing(_open_files(folder, name, listing)) as files:
        for file, _, descriptor in files:
            with read_lease(descriptor, _label(file)):
                if os.fstat(descriptor).st_ino != file.inode:
                    raise ItemBlocked("it changed after it was read")
                if listing.form == FILE:
                    yield
    if listing.form != FILE:
        yield


def delete(folder: int, name: str, listing: Listing) -> None:
    """Delete exactly the listed content without following links. Missing files are ignored. Of a
    revision in a cache of the Hugging Face hub, the blobs that no other revision uses are deleted
    too. Raises ItemBlocked if something remains.
    """
    if listing.form == FILE:
        _unlink(folder, name, listing.files[0])
        sync_folder(folder)
        return
    if not exists(folder, name):
        return
    top, mount = open_folder(folder, name), mount_id(folder)
    try:
        if mount_id(top) != mount:
            raise ItemBlocked("a file system is mounted there")
        _delete_blobs(top, listing)
        with closing(_FolderCursor(top)) as below:
            for file in [*listing.files, *listing.hidden_links]:
                parent_descriptor, last_part = below.open_subfolder(file.name)
                if parent_descriptor >= 0 and mount_id(parent_descriptor) != mount:
                    raise ItemBlocked("a file system is mounted in it")
                if parent_descriptor >= 0 and isinstance(file, LinkedFile):
                    _unlink_link(parent_descriptor, last_part, file)
                elif parent_descriptor >= 0:
                    _unlink(parent_descriptor, last_part, file)
        with closing(_FolderCursor(top)) as below:
            for path, _ in reversed(listing.folders[1:]):
                parent_descriptor, last_part = below.open_subfolder(path)
                if parent_descriptor >= 0:
                    _rmdir(parent_descriptor, last_part)
    finally:
        os.close(top)
    _rmdir(folder, name)
    sync_folder(folder)


class _FolderCursor:
    """Opens the subfolders of a folder one after another and keeps the last one open."""

    def __init__(self, top: int) -> None:
        self._top, self._path, self._descriptor = top, b"", -1

    def close(self) -> None:
        """Close the current subfolder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def open_subfolder(self, path: bytes) -> Tuple[int, str]:
        """Return the subfolder of a path (-1 if it is missing) and the last component. Raises
        ItemBlocked.
        """
        parent, _, last_part = path.rpartition(b"/")
        if not parent:
            return self._top, os.fsdecode(last_part)
        if self._descriptor < 0 or parent != self._path:
            new_descriptor = self._open_folder(parent)
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._path, self._descriptor = parent, new_descriptor
        return self._descriptor, os.fsdecode(last_part)

    def _open_folder(self, path: bytes) -> int:
        descriptor = os.dup(self._top)
        for part in path.split(b"/"):
            try:
                if not exists(descriptor, os.fsdecode(part)):
                    return -1
                new_descriptor = open_folder(descriptor, os.fsdecode(part))
            finally:
                os.close(descriptor)
            descriptor = new_descriptor
        return descriptor


def _open_files(folder: int, name: str, listing: Listing) -> _OpenFiles:
    """Yield each listed file with the last component of its name and its descriptor. Raises
    ItemBlocked.
    """
    if listing.form == FILE:
        yield from _open_one(folder, name, listing.files[0])
        return
    top = open_folder(folder, name)
    try:
        with open_blobs(listing.blobs) as blobs, closing(_FolderCursor(top)) as below:
            for file in listing.files:
                parent_descriptor, last_part = below.open_subfolder(file.name)
                if isinstance(file, LinkedFile):
                    parent_descriptor, last_part = blobs, os.fsdecode(file.blob)
                if parent_descriptor < 0:
                    raise ItemBlocked("it changed while it was read")
                yield from _open_one(parent_descriptor, last_part, file)
    finally:
        os.close(top)


def _open_one(folder: int, name: str, file: File) -> _OpenFiles:
    descriptor = open_file(folder, name)
    try:
        yield file, name, descriptor
    finally:
        os.close(descriptor)


def _label(file: File) -> str:
    return f"{os.fsdecode(file.name)} in it" if file.name else "it"


def _digest(descriptor: int, name: str, file: File, on_block: BlockCallback) -> bytes:
    digest = hashlib.sha256()
    for block in _blocks(descriptor, name, _check_unchanged(descriptor, name, file)):
        digest.update(block)
        on_block(len(block))
    _check_unchanged(descriptor, name, file)
    return digest.digest()


def _check_unchanged(descriptor: int, name: str, file: File) -> os.stat_result:
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        raise ItemBlocked(f"{name} cannot be inspected: {error.strerror}") from error
    if entry_like(file, status) != file:
        raise ItemBlocked("it changed while it was read")
    return status


def _blocks(descriptor: int, name: str, status: os.stat_result) -> Iterator[memoryview]:
    """Yield the blocks of an open file up to its size in ``status``, or slightly more if it grew.
    Raises ItemBlocked.
    """
    reader, view = (
        SequentialReader(descriptor, status),
        memoryview(bytearray(min(_BLOCK, status.st_size + 1))),
    )
    remaining = status.st_size
    try:
        while remaining >= 0 and (count := reader.read_into(view)):
            yield view[:count]
            remaining -= count
        reader.finish()
    except OSError as error:
        raise ItemBlocked(f"{name} cannot be read: {error.strerror}") from error


def _unlink(folder: int, name: str, file: File) -> None:
    """Delete a file if it is the listed one. A file without other names keeps its ctime until
    then.
    """
    try:
        if not exists(folder, name):
            return
        if entry_like(file, os.lstat(name, dir_fd=folder)) != file:
            raise ItemBlocked(_CHANGED_MESSAGE.format(name))
        descriptor = open_file(folder, name)
        try:
            with read_lease(descriptor, name):
                status = os.lstat(name, dir_fd=folder)
                if entry_like(file, status) != file or not os.path.samestat(
                    status, os.fstat(descriptor)
                ):
                    raise ItemBlocked(_CHANGED_MESSAGE.format(name))
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ItemBlocked(f"{name} cannot be deleted: {error.strerror}") from error


def _delete_blobs(top: int, listing: Listing) -> None:
    """Delete the blobs of a revision that no other revision uses. ``top``: the revision."""
    with open_blobs(listing.blobs) as blobs:
        linked = {
            file.blob: file
            for file in [*listing.files, *listing.hidden_links]
            if isinstance(file, LinkedFile)
        }
        if blobs < 0 or not linked:
            return
        for blob in sorted(linked.keys() - used_blobs(listing.blobs, os.fstat(top))):
            _unlink(blobs, os.fsdecode(blob), linked[blob])
        sync_folder(blobs)


def _unlink_link(folder: int, name: str, file: LinkedFile) -> None:
    """Delete a link if it is the listed one."""
    if not exists(folder, name):
        return
    if blob_of(folder, name, file.name) != file.blob:
        raise ItemBlocked(_CHANGED_MESSAGE.format(name))
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise ItemBlocked(f"{name} cannot be deleted: {error.strerror}") from error


def _rmdir(folder: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ItemBlocked(f"the folder {name} cannot be deleted: {error.strerror}") from error
