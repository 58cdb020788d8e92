"""Lists, reads, locks and deletes the content at a path.

Digests follow docs/artifacts.md: SHA-256 of a file, or of the sorted manifest of a folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Callable, Generator, Iterator, List, Tuple

from labcarbon_collect.cleanup.open_files import read_lease
from labcarbon_collect.cleanup.safe_paths import (
    ItemBlocked,
    describe_type,
    exists,
    mount_id,
    open_file,
    open_folder,
    sync_folder,
)
from labcarbon_collect.files.sequential_reader import SequentialReader
from labcarbon_collect.lc1 import manifest_hash

FILE, FOLDER = "file", "folder"
_MAX_FILES, _MAX_DEPTH = 2_000_000, 64
_UNREGISTERED_MESSAGE = "it contains unregistered content"


@dataclass(frozen=True)
class File:
    """A plain file. ``name``: its path below the folder; empty for a single file."""

    # There may be millions of instances.
    __slots__ = ("ctime_ns", "inode", "mtime_ns", "name", "size")

    name: bytes
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass
class Listing:
    """Content at a path. ``folders``: relative path and inode of each, parents before children;
    empty for a single file.
    """

    form: str
    device: int
    files: List[File] = field(default_factory=list)
    folders: List[Tuple[bytes, int]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(file.size for file in self.files)

    def is_same_after_move(self, other: Listing) -> bool:
        """Return whether ``other`` is the same content under another name. A move changes the ctime
        of the moved file or folder, but not of the files inside.
        """
        if self.form == FILE:
            own, other_files = (
                [(file.inode, file.size, file.mtime_ns) for file in side.files]
                for side in (self, other)
            )
            return own == other_files and (self.form, self.device) == (other.form, other.device)
        return self == other


def list_content(folder: int, name: str) -> Listing:
    """List the content at a path. Raises ItemBlocked unless it is a plain file, or a folder of
    plain visible files without hard links.
    """
    try:
        status = os.lstat(name, dir_fd=folder)
    except FileNotFoundError as error:
        raise ItemBlocked("nothing exists at its path") from error
    except OSError as error:
        raise ItemBlocked(f"it cannot be inspected: {error.strerror}") from error
    if status.st_dev != os.fstat(folder).st_dev:
        raise ItemBlocked("a file system is mounted there")
    if stat.S_ISREG(status.st_mode):
        listing = Listing(FILE, status.st_dev)
        listing.files.append(file_entry(b"", status))
        return listing
    if not stat.S_ISDIR(status.st_mode):
        raise ItemBlocked(f"it is {describe_type(folder, name)}")
    listing = Listing(FOLDER, status.st_dev)
    top = open_folder(folder, name)
    try:
        _list_folder(top, b"", 0, mount_id(folder), listing)
    finally:
        os.close(top)
    listing.files.sort(key=lambda file: file.name)
    return listing


def file_entry(name: bytes, status: os.stat_result) -> File:
    """Return the entry of a plain file. Raises ItemBlocked if it has several hard links."""
    if status.st_nlink > 1:
        subject = f"{os.fsdecode(name)} in it has" if name else "it has"
        raise ItemBlocked(
            f"{subject} {status.st_nlink} hard links: deleting it would free no space"
        )
    return File(name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _list_folder(folder: int, path: bytes, depth: int, mount: str, listing: Listing) -> None:
    if mount_id(folder) != mount:
        raise ItemBlocked(f"a file system is mounted in it, at {os.fsdecode(path) or 'its top'}")
    listing.folders.append((path, os.fstat(folder).st_ino))
    try:
        with os.scandir(folder) as entries:
            names = sorted(os.fsencode(entry.name) for entry in entries)
    except OSError as error:
        raise ItemBlocked(f"{os.fsdecode(path)} in it cannot be read: {error.strerror}") from error
    for name in names:
        below, text_name = (path + b"/" + name if path else name), os.fsdecode(name)
        if name.startswith(b".") or name == b"__pycache__":
            raise ItemBlocked(f"{_UNREGISTERED_MESSAGE}: {os.fsdecode(below)}")
        try:
            status = os.lstat(text_name, dir_fd=folder)
        except OSError as error:
            raise ItemBlocked(
                f"{os.fsdecode(below)} in it cannot be inspected: {error.strerror}"
            ) from error
        if status.st_dev != listing.device:
            raise ItemBlocked(f"a file system is mounted in it, at {os.fsdecode(below)}")
        if stat.S_ISREG(status.st_mode):
            listing.files.append(file_entry(below, status))
        elif stat.S_ISDIR(status.st_mode):
            _list_subfolder(folder, text_name, below, depth, mount, listing)
        else:
            raise ItemBlocked(
                f"{_UNREGISTERED_MESSAGE}: {os.fsdecode(below)} is "
                f"{describe_type(folder, text_name)}"
            )
        if len(listing.files) > _MAX_FILES:
            raise ItemBlocked(f"it contains more than {_MAX_FILES:,} files")


def _list_subfolder(
    folder: int, name: str, path: bytes, depth: int, mount: str, listing: Listing
) -> None:
    if depth >= _MAX_DEPTH:
        raise ItemBlocked(f"it is more than {_MAX_DEPTH} folders deep")
    inner = open_folder(folder, name)
    try:
        _list_folder(inner, path, depth + 1, mount, listing)
    finally:
        os.close(inner)


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
    if list_content(folder, name) != listing:
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
    """Delete exactly the listed content without following links. Missing files are ignored. Raises
    ItemBlocked if something remains.
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
        with closing(_FolderCursor(top)) as below:
            for file in listing.files:
                parent_descriptor, last_part = below.open_subfolder(file.name)
                if parent_descriptor >= 0 and mount_id(parent_descriptor) != mount:
                    raise ItemBlocked("a file system is mounted in it")
                if parent_descriptor >= 0:
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
        with closing(_FolderCursor(top)) as below:
            for file in listing.files:
                parent_descriptor, last_part = below.open_subfolder(file.name)
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
    if file_entry(file.name, status) != file:
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
        if file_entry(file.name, os.lstat(name, dir_fd=folder)) != file:
            raise ItemBlocked(_CHANGED_MESSAGE.format(name))
        descriptor = open_file(folder, name)
        try:
            with read_lease(descriptor, name):
                status = os.lstat(name, dir_fd=folder)
                if file_entry(file.name, status) != file or not os.path.samestat(
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


def _rmdir(folder: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ItemBlocked(f"the folder {name} cannot be deleted: {error.strerror}") from error
