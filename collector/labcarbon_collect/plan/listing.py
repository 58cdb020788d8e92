"""What lies at a place, listed. Anything that the digest would not cover is a reason to leave all of it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import List, Tuple

from labcarbon_collect.cleanup.safe_paths import Stays, mount_of, open_folder, what

FILE, FOLDER = "file", "folder"
_MOST_FILES, _DEEPEST = 2_000_000, 64
_UNREGISTERED = "it holds what was not registered"


@dataclass(frozen=True)
class File:
    """A plain file. ``name``: its path below the folder, empty for a file by itself."""

    __slots__ = ("ctime_ns", "inode", "mtime_ns", "name", "size")  # there may be millions of them

    name: bytes
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass
class Listing:
    """What lies at a place. ``folders``: path below and inode of each, the deepest last; of a file none."""

    form: str
    device: int
    files: List[File] = field(default_factory=list)
    folders: List[Tuple[bytes, int]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The sum of the files' sizes."""
        return sum(file.size for file in self.files)

    def same_after_a_move(self, other: Listing) -> bool:
        """Whether ``other`` is the very same thing under another name. Moving changes the ctime of what is moved, not of
        what lies in it."""
        if self.form == FILE:
            mine, others = ([(f.inode, f.size, f.mtime_ns) for f in each.files] for each in (self, other))
            return mine == others and (self.form, self.device) == (other.form, other.device)
        return self == other


def listed(folder: int, name: str) -> Listing:
    """List what lies at a place. Raises Stays for what is no plain file or folder of plain, visible files of its own."""
    try:
        about = os.lstat(name, dir_fd=folder)
    except FileNotFoundError as error:
        raise Stays("nothing lies there") from error
    except OSError as error:
        raise Stays(f"it cannot be looked at: {error.strerror}") from error
    if about.st_dev != os.fstat(folder).st_dev:
        raise Stays("a file system is mounted there")
    if stat.S_ISREG(about.st_mode):
        found = Listing(FILE, about.st_dev)
        found.files.append(file_of(b"", about))
        return found
    if not stat.S_ISDIR(about.st_mode):
        raise Stays(f"it is {what(folder, name)}")
    found = Listing(FOLDER, about.st_dev)
    top = open_folder(folder, name)
    try:
        _list(top, b"", 0, mount_of(folder), found)
    finally:
        os.close(top)
    found.files.sort(key=lambda file: file.name)
    return found


def file_of(name: bytes, about: os.stat_result) -> File:
    """A plain file as it is. Raises Stays for one of several names."""
    if about.st_nlink > 1:
        whose = f"{os.fsdecode(name)} in it has" if name else "it has"
        raise Stays(f"{whose} {about.st_nlink} names (hard links): taking one away would free nothing")
    return File(name, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _list(folder: int, path: bytes, depth: int, mount: str, found: Listing) -> None:
    if mount_of(folder) != mount:
        raise Stays(f"a file system is mounted in it, at {os.fsdecode(path) or 'its top'}")
    found.folders.append((path, os.fstat(folder).st_ino))
    try:
        with os.scandir(folder) as entries:
            names = sorted(os.fsencode(entry.name) for entry in entries)
    except OSError as error:
        raise Stays(f"{os.fsdecode(path)} in it cannot be read: {error.strerror}") from error
    for name in names:
        below, shown = (path + b"/" + name if path else name), os.fsdecode(name)
        if name.startswith(b".") or name == b"__pycache__":
            raise Stays(f"{_UNREGISTERED}: {os.fsdecode(below)}")
        try:
            about = os.lstat(shown, dir_fd=folder)
        except OSError as error:
            raise Stays(f"{os.fsdecode(below)} in it cannot be looked at: {error.strerror}") from error
        if about.st_dev != found.device:
            raise Stays(f"a file system is mounted in it, at {os.fsdecode(below)}")
        if stat.S_ISREG(about.st_mode):
            found.files.append(file_of(below, about))
        elif stat.S_ISDIR(about.st_mode):
            _into(folder, shown, below, depth, mount, found)
        else:
            raise Stays(f"{_UNREGISTERED}: {os.fsdecode(below)} is {what(folder, shown)}")
        if len(found.files) > _MOST_FILES:
            raise Stays(f"it holds more than {_MOST_FILES:,} files")


def _into(folder: int, name: str, path: bytes, depth: int, mount: str, found: Listing) -> None:
    if depth >= _DEEPEST:
        raise Stays(f"it is more than {_DEEPEST} folders deep")
    inner = open_folder(folder, name)
    try:
        _list(inner, path, depth + 1, mount, found)
    finally:
        os.close(inner)
