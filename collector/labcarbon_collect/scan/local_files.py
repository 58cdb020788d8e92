"""The file system interface of a scan, and its implementation for local folders. Links that leave
the scanned folders are not followed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Protocol, Sequence, Tuple

from labcarbon_collect.files.hub_cache import blob_name, blobs_path
from labcarbon_collect.files.manifests import File, manifest
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.files.sequential_reader import SequentialReader
from labcarbon_collect.scan.medium import MediumDetector

Stamp = Tuple[bytes, int, int, int]  # name, size, mtime in ns, ctime in ns
Links = Dict[bytes, str]  # name of a file that several names can share → key of its content
# Keys: ``device:inode`` of a file with several hard links; else of a file behind a link: its real
# path after LINKED, or after HUB_BLOB if a revision in a cache of the Hugging Face hub uses it.
LINKED, HUB_BLOB = "=", "@"
MARKERS = frozenset({b".zgroup", b".zarray", b".zmetadata"})  # hidden files of Zarr, version 2


class LinkOutsideRoot(Exception):
    """A folder that is one artifact contains a link to a path outside of the scan. The text names
    it.
    """


@dataclass
class Listing:
    """Content of a folder without hidden entries: plain files sorted by name, folders, links, and
    the number of pipes, devices and sockets.

    ``linked``: keys of files with several hard links. ``markers``: hidden files that identify a
    format.
    """

    files: List[Stamp] = field(default_factory=list)
    folders: List[bytes] = field(default_factory=list)
    linked: Links = field(default_factory=dict)
    links: List[bytes] = field(default_factory=list)
    special: int = 0
    markers: List[bytes] = field(default_factory=list)


class FileStat(NamedTuple):
    """Size in bytes and mtime in ns of a file."""

    size: int
    mtime_ns: int


class Reader(Protocol):
    """An open file of any tree. ``owner``: uid, None if the tree has no users."""

    owner: Optional[int]

    def close(self) -> None:
        """Close it."""

    def stat(self) -> FileStat:
        """Return its current size and mtime."""

    def prefetch(self, size: int) -> None:
        """Announce that its first ``size`` bytes are read soon."""

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes. Returns their number, 0 at the end."""

    def at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer at the end."""


class Tree(Protocol):
    """Folders that can be scanned: local ones or those of an object store. All methods raise
    OSError.

    ``open_ahead``: number of files that a thread opens before it reads them.
    """

    open_ahead: int

    def parts(self, address: bytes) -> List[bytes]:
        """Return the path components of a folder, outermost first."""

    def medium(self, path: bytes) -> str:
        """Return the storage medium of a folder."""

    def list_folder(self, path: bytes) -> Listing:
        """Return the content of a folder."""

    def manifest(self, path: bytes) -> Tuple[List[Stamp], Links]:
        """Return the files below a folder by the rules of docs/artifacts.md, sorted, and the keys
        of those that can be shared. Raises also LinkOutsideRoot and BudgetExceeded.
        """

    def open_file(self, path: bytes, *, follow: bool = False) -> Reader:
        """Open a plain file. ``follow``: follow links, for a folder whose links were checked."""

    def owner(self, path: bytes) -> Optional[int]:
        """Return the uid of a folder's owner. None if the tree has no users."""

    def check_inside(self, path: bytes) -> None:
        """Raise LinkOutsideRoot if a path leaves the scanned folders."""


class LocalReader:
    """An open local file."""

    def __init__(self, path: bytes, *, follow: bool) -> None:
        self._descriptor, status = _open_plain_file(path, follow=follow)
        self.owner: Optional[int] = status.st_uid
        self._first_stat: Optional[FileStat] = FileStat(status.st_size, status.st_mtime_ns)
        self._reader = SequentialReader(self._descriptor, status)

    def close(self) -> None:
        """Close it."""
        try:
            self._reader.finish()
        finally:
            os.close(self._descriptor)

    def stat(self) -> FileStat:
        """Return size and mtime by descriptor. The first call returns the values of opening."""
        if self._first_stat is not None:
            first_stat, self._first_stat = self._first_stat, None
            return first_stat
        status = os.fstat(self._descriptor)
        return FileStat(status.st_size, status.st_mtime_ns)

    def prefetch(self, size: int) -> None:
        """Announce that its first ``size`` bytes are read soon."""
        self._reader.prefetch(size)

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes. Returns their number, 0 at the end."""
        return self._reader.read_into(buffer)

    def at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer at the end."""
        return os.pread(self._descriptor, max(0, length), offset) if 0 <= offset < 1 << 62 else b""


class LocalTree:
    """Local folders below ``roots`` (absolute paths without links)."""

    open_ahead = 3

    def __init__(self, roots: Sequence[bytes]) -> None:
        self._roots = [root.rstrip(b"/") + b"/" for root in roots]
        self._medium_detector = MediumDetector()

    def parts(self, address: bytes) -> List[bytes]:
        """Return the path components of a folder. The first one is empty."""
        return [b"", *address.strip(b"/").split(b"/")] if address.strip(b"/") else [b""]

    def medium(self, path: bytes) -> str:
        """Return the storage medium of a folder: hdd, ssd or unknown."""
        return self._medium_detector.medium_of(path or b"/")

    def list_folder(self, path: bytes) -> Listing:
        """List a folder. Raises OSError."""
        listing = Listing()
        with os.scandir(path or b"/") as entries:
            for entry in entries:
                name = entry.name
                if name in MARKERS:
                    listing.markers.append(name)
                if name.startswith(b".") or name == b"__pycache__":
                    continue
                if entry.is_file(follow_symlinks=False):
                    _add_file(entry, name, listing)
                elif entry.is_symlink():
                    listing.links.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    listing.folders.append(name)
                else:
                    listing.special += 1
        listing.files.sort()
        listing.folders.sort()
        return listing

    def manifest(self, path: bytes) -> Tuple[List[Stamp], Links]:
        """Return the files below a folder by the rules of docs/artifacts.md, sorted, and the keys
        of those that can be shared. Raises OSError, LinkOutsideRoot, BudgetExceeded.
        """
        content = manifest(
            "artifact", os.fsdecode(path), Budget(float("inf")), on_link=self.check_inside
        )
        stamps = [(file.name, file.size, file.mtime_ns, file.ctime_ns) for file in content.files]
        blobs = blobs_path(path)
        if blobs and os.path.realpath(blobs) != blobs:
            blobs = b""
        return stamps, {
            file.name: _content_key(file, blobs)
            for file in content.files
            if file.hard_links > 1 or file.is_behind_link
        }

    def open_file(self, path: bytes, *, follow: bool = False) -> LocalReader:
        """Open a plain file. ``follow``: follow links, for a folder whose links were checked.
        Raises OSError.
        """
        return LocalReader(path, follow=follow)

    def owner(self, path: bytes) -> Optional[int]:
        """Return the uid of a folder's owner. Raises OSError."""
        return os.lstat(path).st_uid

    def check_inside(self, path: bytes) -> None:
        """Raise LinkOutsideRoot if a path leaves the scanned folders."""
        target = os.path.realpath(path)
        if not any(target.startswith(root) for root in self._roots):
            raise LinkOutsideRoot(
                f"{os.fsdecode(os.path.basename(path))} in it is a link to a path outside of the "
                "scan"
            )


def _content_key(file: File, blobs: bytes) -> str:
    """Return the key of a file with several names. ``blobs``: the folder of the blobs, for a
    revision.
    """
    if file.hard_links > 1:
        return f"{file.device}:{file.inode}"
    blob_path = _linked_blob(file, blobs) if blobs else b""
    prefix, real_path = (
        (HUB_BLOB, blob_path) if blob_path else (LINKED, os.path.realpath(file.path))
    )
    return prefix + real_path.decode("utf-8", "backslashreplace")


def _linked_blob(file: File, blobs: bytes) -> bytes:
    """Return the path of the blob that a file of a revision links to, b"" if it is none."""
    try:
        blob = blob_name(file.name, os.readlink(file.path))
        path = blobs + b"/" + blob if blob is not None else b""
        return path if path and stat.S_ISREG(os.lstat(path).st_mode) else b""
    except OSError:
        return b""  # it is not itself a link


def _add_file(entry: os.DirEntry[bytes], name: bytes, listing: Listing) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return  # deleted meanwhile
    listing.files.append((name, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    if status.st_nlink > 1:
        listing.linked[name] = f"{status.st_dev}:{status.st_ino}"


def _open_plain_file(path: bytes, *, follow: bool) -> Tuple[int, os.stat_result]:
    """Open a plain file. Refuses links unless ``follow``. Never blocks on a pipe."""
    nofollow = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | nofollow | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file")
    return descriptor, status
