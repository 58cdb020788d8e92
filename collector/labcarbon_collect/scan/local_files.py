"""Folders of this machine, as a scan reads them: listed, opened, never followed out of what is scanned."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Protocol, Sequence, Tuple

from labcarbon_collect.files.budget import Budget
from labcarbon_collect.files.manifests import manifest
from labcarbon_collect.files.sequential_reader import SequentialReader
from labcarbon_collect.scan.medium import MediumDetector

Stamp = Tuple[bytes, int, int, int]  # name, size, time of change in ns, time of the inode's change in ns


class LinkOutsideRoot(Exception):
    """A folder that is one artifact holds a link that leads out of what is scanned; the text says where."""


@dataclass
class Listing:
    """What a folder holds: plain files (sorted by name), folders and links, hidden ones left out; how many pipes,
    devices and sockets. ``linked``: name → key of the inode, of files with several names."""

    files: List[Stamp] = field(default_factory=list)
    folders: List[bytes] = field(default_factory=list)
    linked: Dict[bytes, str] = field(default_factory=dict)
    links: List[bytes] = field(default_factory=list)
    special: int = 0


class FileStat(NamedTuple):
    """How a file was when it was opened or closed: size in bytes, time of change in ns."""

    size: int
    mtime_ns: int


class Reader(Protocol):
    """An open file, wherever it lies. ``owner``: the number of its user; None where there are no such."""

    owner: Optional[int]

    def close(self) -> None:
        """Let go of it."""

    def stat(self) -> FileStat:
        """How it is now."""

    def prefetch(self, size: int) -> None:
        """Its first ``size`` bytes are read soon."""

    def read_into(self, buffer: memoryview) -> int:
        """Read on; the number of bytes, 0 at the end."""

    def at(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer at the end."""


class Tree(Protocol):
    """Folders that can be scanned: of this machine, or of an object store. All raise OSError. ``open_ahead``: how many files
    a thread opens before it reads them."""

    open_ahead: int

    def parts(self, address: bytes) -> List[bytes]:
        """The names of the way to a folder, from the outermost."""

    def medium(self, path: bytes) -> str:
        """The medium that a folder lies on."""

    def list_folder(self, path: bytes) -> Listing:
        """What a folder holds."""

    def manifest(self, path: bytes) -> List[Stamp]:
        """The files below a folder, as docs/artifacts.md counts them, sorted. Raises also LeadsOut and OutOfBudget."""

    def open_file(self, path: bytes, *, follow: bool = False) -> Reader:
        """Open a plain file; ``follow`` links, of a folder whose links were looked at."""

    def owner(self, path: bytes) -> Optional[int]:
        """The number of the user whose a folder is; None where there are no such."""

    def check_inside(self, path: bytes) -> None:
        """Raise LeadsOut if a path leads out of what is scanned."""


class LocalReader:
    """An open file of this machine."""

    def __init__(self, path: bytes, *, follow: bool) -> None:
        self._descriptor, status = _open_plain_file(path, follow=follow)
        self.owner: Optional[int] = status.st_uid
        self._first_stat: Optional[FileStat] = FileStat(status.st_size, status.st_mtime_ns)  # asked for once
        self._reader = SequentialReader(self._descriptor, status)

    def close(self) -> None:
        """Let go of it."""
        try:
            self._reader.finish()
        finally:
            os.close(self._descriptor)

    def stat(self) -> FileStat:
        """How it is now, by its descriptor; the first answer is from when it was opened."""
        if self._first_stat is not None:
            first_stat, self._first_stat = self._first_stat, None
            return first_stat
        status = os.fstat(self._descriptor)
        return FileStat(status.st_size, status.st_mtime_ns)

    def prefetch(self, size: int) -> None:
        """Its first ``size`` bytes are read soon."""
        self._reader.prefetch(size)

    def read_into(self, buffer: memoryview) -> int:
        """Read on; the number of bytes, 0 at the end."""
        return self._reader.read_into(buffer)

    def at(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer at the end."""
        return os.pread(self._descriptor, max(0, length), offset) if 0 <= offset < 1 << 62 else b""


class LocalTree:
    """This machine's folders below ``roots`` (absolute, links resolved)."""

    open_ahead = 3

    def __init__(self, roots: Sequence[bytes]) -> None:
        self._roots = [root.rstrip(b"/") + b"/" for root in roots]
        self._medium_detector = MediumDetector()

    def parts(self, address: bytes) -> List[bytes]:
        """The names of the way to a folder; that of the outermost is empty."""
        return [b"", *address.strip(b"/").split(b"/")] if address.strip(b"/") else [b""]

    def medium(self, path: bytes) -> str:
        """The medium that a folder lies on: hdd, ssd or unknown."""
        return self._medium_detector.medium_of(path or b"/")

    def list_folder(self, path: bytes) -> Listing:
        """List a folder. Raises OSError."""
        listing = Listing()
        with os.scandir(path or b"/") as entries:
            for entry in entries:
                name = entry.name
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

    def manifest(self, path: bytes) -> List[Stamp]:
        """The files below a folder, as docs/artifacts.md counts them, sorted. Raises OSError, LeadsOut, OutOfBudget."""
        content = manifest("artifact", os.fsdecode(path), Budget(float("inf")), on_link=self.check_inside)
        return [(file.name, file.size, file.mtime_ns, file.ctime_ns) for file in content.files]

    def open_file(self, path: bytes, *, follow: bool = False) -> LocalReader:
        """Open a plain file; ``follow`` links, of a folder whose links were looked at. Raises OSError."""
        return LocalReader(path, follow=follow)

    def owner(self, path: bytes) -> Optional[int]:
        """The number of the user whose a folder is. Raises OSError."""
        return os.lstat(path).st_uid

    def check_inside(self, path: bytes) -> None:
        """Raise LeadsOut if a path leads out of what is scanned."""
        target = os.path.realpath(path)
        if not any(target.startswith(root) for root in self._roots):
            raise LinkOutsideRoot(f"{os.fsdecode(os.path.basename(path))} in it is a link that leads out of what is scanned")


def _add_file(entry: os.DirEntry[bytes], name: bytes, listing: Listing) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return  # it went while we looked
    listing.files.append((name, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    if status.st_nlink > 1:
        listing.linked[name] = f"{status.st_dev}:{status.st_ino}"


def _open_plain_file(path: bytes, *, follow: bool) -> Tuple[int, os.stat_result]:
    """Open a plain file, one that is no link now unless ``follow``; never waits for the other end of a pipe."""
    nofollow = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | nofollow | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no plain file")
    return descriptor, status
