"""Folders of this machine, as a scan reads them: listed, opened, never followed out of what is scanned."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Protocol, Sequence, Tuple

from labcarbon_collect.files.budget import Budget
from labcarbon_collect.files.manifests import manifest
from labcarbon_collect.files.sequential_reader import SequentialReader
from labcarbon_collect.scan.medium import Mediums

Stamp = Tuple[bytes, int, int, int]  # name, size, time of change in ns, time of the inode's change in ns


class LeadsOut(Exception):
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


class Stood(NamedTuple):
    """How a file was when it was opened or closed: size in bytes, time of change in ns."""

    size: int
    mtime_ns: int


class Reader(Protocol):
    """An open file, wherever it lies. ``owner``: the number of its user; None where there are no such."""

    owner: Optional[int]

    def close(self) -> None:
        """Let go of it."""

    def stood(self) -> Stood:
        """How it is now."""

    def expect(self, size: int) -> None:
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

    def listing(self, path: bytes) -> Listing:
        """What a folder holds."""

    def manifest(self, path: bytes) -> List[Stamp]:
        """The files below a folder, as docs/artifacts.md counts them, sorted. Raises also LeadsOut and OutOfBudget."""

    def opened(self, path: bytes, *, follow: bool = False) -> Reader:
        """Open a plain file; ``follow`` links, of a folder whose links were looked at."""

    def owner(self, path: bytes) -> Optional[int]:
        """The number of the user whose a folder is; None where there are no such."""

    def stay(self, path: bytes) -> None:
        """Raise LeadsOut if a path leads out of what is scanned."""


class LocalReader:
    """An open file of this machine."""

    def __init__(self, path: bytes, *, follow: bool) -> None:
        self._descriptor, about = _opened(path, follow=follow)
        self.owner: Optional[int] = about.st_uid
        self._opened_as: Optional[Stood] = Stood(about.st_size, about.st_mtime_ns)  # asked for once
        self._once = SequentialReader(self._descriptor, about)

    def close(self) -> None:
        """Let go of it."""
        try:
            self._once.done()
        finally:
            os.close(self._descriptor)

    def stood(self) -> Stood:
        """How it is now, by its descriptor; the first answer is from when it was opened."""
        if self._opened_as is not None:
            stood, self._opened_as = self._opened_as, None
            return stood
        about = os.fstat(self._descriptor)
        return Stood(about.st_size, about.st_mtime_ns)

    def expect(self, size: int) -> None:
        """Its first ``size`` bytes are read soon."""
        self._once.expect(size)

    def read_into(self, buffer: memoryview) -> int:
        """Read on; the number of bytes, 0 at the end."""
        return self._once.read_into(buffer)

    def at(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer at the end."""
        return os.pread(self._descriptor, max(0, length), offset) if 0 <= offset < 1 << 62 else b""


class Local:
    """This machine's folders below ``roots`` (absolute, links resolved)."""

    open_ahead = 3

    def __init__(self, roots: Sequence[bytes]) -> None:
        self._roots = [root.rstrip(b"/") + b"/" for root in roots]
        self._mediums = Mediums()

    def parts(self, address: bytes) -> List[bytes]:
        """The names of the way to a folder; that of the outermost is empty."""
        return [b"", *address.strip(b"/").split(b"/")] if address.strip(b"/") else [b""]

    def medium(self, path: bytes) -> str:
        """The medium that a folder lies on: hdd, ssd or unknown."""
        return self._mediums.of(path or b"/")

    def listing(self, path: bytes) -> Listing:
        """List a folder. Raises OSError."""
        found = Listing()
        with os.scandir(path or b"/") as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(b".") or name == b"__pycache__":
                    continue
                if entry.is_file(follow_symlinks=False):
                    _note_file(entry, name, found)
                elif entry.is_symlink():
                    found.links.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    found.folders.append(name)
                else:
                    found.special += 1
        found.files.sort()
        found.folders.sort()
        return found

    def manifest(self, path: bytes) -> List[Stamp]:
        """The files below a folder, as docs/artifacts.md counts them, sorted. Raises OSError, LeadsOut, OutOfBudget."""
        found = manifest("artifact", os.fsdecode(path), Budget(float("inf")), follow=self.stay)
        return [(file.name, file.size, file.mtime_ns, file.ctime_ns) for file in found.files]

    def opened(self, path: bytes, *, follow: bool = False) -> LocalReader:
        """Open a plain file; ``follow`` links, of a folder whose links were looked at. Raises OSError."""
        return LocalReader(path, follow=follow)

    def owner(self, path: bytes) -> Optional[int]:
        """The number of the user whose a folder is. Raises OSError."""
        return os.lstat(path).st_uid

    def stay(self, path: bytes) -> None:
        """Raise LeadsOut if a path leads out of what is scanned."""
        aim = os.path.realpath(path)
        if not any(aim.startswith(root) for root in self._roots):
            raise LeadsOut(f"{os.fsdecode(os.path.basename(path))} in it is a link that leads out of what is scanned")


def _note_file(entry: os.DirEntry[bytes], name: bytes, found: Listing) -> None:
    try:
        about = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return  # it went while we looked
    found.files.append((name, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
    if about.st_nlink > 1:
        found.linked[name] = f"{about.st_dev}:{about.st_ino}"


def _opened(path: bytes, *, follow: bool) -> Tuple[int, os.stat_result]:
    """Open a plain file, one that is no link now unless ``follow``; never waits for the other end of a pipe."""
    no_link = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | no_link | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no plain file")
    return descriptor, about
