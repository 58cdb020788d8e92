"""Lists the content at a path: a plain file, a folder of plain files, or a revision in a cache of
the Hugging Face hub.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Iterator, List, Optional, Tuple

from labcarbon_collect.cleanup.safe_paths import (
    ItemBlocked,
    describe_type,
    mount_id,
    open_folder,
    open_parent,
)
from labcarbon_collect.files.hub_cache import blob_name

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


@dataclass(frozen=True)
class LinkedFile(File):
    """A link of a revision in a cache of the Hugging Face hub, with inode, size and times of its
    blob. ``blob``: name of the blob.
    """

    __slots__ = ("blob",)

    blob: bytes


@dataclass
class Listing:
    """Content at a path. ``folders``: relative path and inode of each, parents before children;
    empty for a single file.

    ``blobs``: the folder of the blobs, for a revision in a cache of the Hugging Face hub, else "".
    ``hidden_links``: its hidden links to blobs, which its digest does not cover.
    """

    form: str
    device: int
    files: List[File] = field(default_factory=list)
    folders: List[Tuple[bytes, int]] = field(default_factory=list)
    blobs: str = ""
    hidden_links: List[LinkedFile] = field(default_factory=list)

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


def list_content(folder: int, name: str, blobs: str = "") -> Listing:
    """List the content at a path. Raises ItemBlocked unless it is a plain file, or a folder of
    plain visible files without hard links.

    ``blobs``: the folder of the blobs, for a revision in a cache of the Hugging Face hub. It can
    also contain links to them.
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
    listing = Listing(FOLDER, status.st_dev, blobs=blobs)
    top = open_folder(folder, name)
    try:
        with open_blobs(blobs) as blobs_folder:
            _list_folder(top, b"", 0, mount_id(folder), listing, blobs_folder)
    finally:
        os.close(top)
    listing.files.sort(key=lambda file: file.name)
    return listing


@contextmanager
def open_blobs(blobs: str) -> Iterator[int]:
    """Open the folder of the blobs. Yields its descriptor, -1 if there is none. Raises
    ItemBlocked.
    """
    if not blobs or not os.path.isdir(blobs):
        yield -1
        return
    with open_parent(f"{blobs}/any") as folder:
        yield folder


def file_entry(name: bytes, status: os.stat_result) -> File:
    """Return the entry of a plain file. Raises ItemBlocked if it has several hard links."""
    if status.st_nlink > 1:
        subject = f"{os.fsdecode(name)} in it has" if name else "it has"
        raise ItemBlocked(
            f"{subject} {status.st_nlink} hard links: deleting it would free no space"
        )
    return File(name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def entry_like(file: File, status: os.stat_result) -> File:
    """Return the entry of a listed file, or of the blob that it links to, with its current status.
    Raises ItemBlocked if it has several hard links.
    """
    entry = file_entry(file.name, status)
    return _linked(entry, file.blob) if isinstance(file, LinkedFile) else entry


def _linked(entry: File, blob: bytes) -> LinkedFile:
    return LinkedFile(entry.name, entry.inode, entry.size, entry.mtime_ns, entry.ctime_ns, blob)


def blob_of(folder: int, name: str, path: bytes) -> Optional[bytes]:
    """Return the blob that an entry of a revision links to, None if it is something else. ``path``:
    below the revision.
    """
    try:
        return blob_name(path, os.fsencode(os.readlink(name, dir_fd=folder)))
    except OSError:
        return None


def _list_folder(
    folder: int, path: bytes, depth: int, mount: str, listing: Listing, blobs: int
) -> None:
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
        if blobs >= 0 and _list_link(folder, text_name, below, listing, blobs):
            continue
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
            _list_subfolder(folder, text_name, below, depth, mount, listing, blobs)
        else:
            raise ItemBlocked(
                f"{_UNREGISTERED_MESSAGE}: {os.fsdecode(below)} is "
                f"{describe_type(folder, text_name)}"
            )
        if len(listing.files) > _MAX_FILES:
            raise ItemBlocked(f"it contains more than {_MAX_FILES:,} files")


def _list_link(folder: int, name: str, path: bytes, listing: Listing, blobs: int) -> bool:
    """List an entry of a revision if it is a link to a blob. Returns whether it is one."""
    blob = blob_of(folder, name, path)
    if blob is None:
        return False
    try:
        status = os.lstat(blob, dir_fd=blobs)
    except OSError as error:
        raise ItemBlocked(
            f"the blob of {os.fsdecode(path)} in it cannot be inspected: {error.strerror}"
        ) from error
    if not stat.S_ISREG(status.st_mode) or status.st_dev != listing.device:
        raise ItemBlocked(f"{os.fsdecode(path)} in it links to something other than a plain file")
    entry = _linked(file_entry(path, status), blob)
    if os.path.basename(path).startswith(b"."):
        listing.hidden_links.append(entry)
    else:
        listing.files.append(entry)
    return True


def _list_subfolder(
    folder: int, name: str, path: bytes, depth: int, mount: str, listing: Listing, blobs: int
) -> None:
    if depth >= _MAX_DEPTH:
        raise ItemBlocked(f"it is more than {_MAX_DEPTH} folders deep")
    inner = open_folder(folder, name)
    try:
        _list_folder(inner, path, depth + 1, mount, listing, blobs)
    finally:
        os.close(inner)
