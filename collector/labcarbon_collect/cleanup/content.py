"""What was listed at a place: read, held still, deleted.

The digest is that of docs/artifacts.md: SHA-256 of a file, or of the sorted list of a folder's files.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Callable, Generator, Iterator, List, Tuple

from labcarbon_collect.cleanup.open_files import nobody_writes
from labcarbon_collect.cleanup.safe_paths import Stays, lies, mount_of, on_disk, open_file, open_folder, what
from labcarbon_collect.files.sequential_reader import SequentialReader
from labcarbon_collect.lc1 import manifest_hash

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


_BLOCK = 1 << 20
_OTHER = "{} is not what was to be deleted, it was changed since: move it away if it is wanted, else delete it by hand"
Hashed = Callable[[int], None]  # told of each block read, in bytes
_Files = Generator[Tuple[File, str, int], None, None]


def digest_of(folder: int, name: str, listing: Listing, hashed: Hashed, may_be_busy: bool = True) -> str:
    """Read all that was listed and return its digest. Raises Stays where anything is not as it was listed, and Busy where it
    may not be, for a file that a program has open for writing when it is to be read."""
    mount, rows = mount_of(folder), []
    with closing(_opened(folder, name, listing)) as files:
        for file, last, opened in files:
            if mount_of(opened) != mount:
                raise Stays(f"a file system is mounted at {last}")
            if not may_be_busy:
                with nobody_writes(opened, _shown(file)):
                    pass
            rows.append((file.name, file.size, _digest(opened, last, file, hashed)))
    if listed(folder, name) != listing:
        raise Stays("it changed while it was read")
    return rows[0][2].hex() if listing.form == FILE else manifest_hash(rows)


@contextmanager
def idle(folder: int, name: str, listing: Listing) -> Iterator[None]:
    """No program has open for writing what was listed. Of a file, none opens it so until this ends, which is to be soon; of
    a folder, that is asked file by file and can change behind us. Raises Stays, Busy."""
    with closing(_opened(folder, name, listing)) as files:
        for file, _, opened in files:
            with nobody_writes(opened, _shown(file)):
                if os.fstat(opened).st_ino != file.inode:
                    raise Stays("it changed after it was read")
                if listing.form == FILE:
                    yield
    if listing.form != FILE:
        yield


def delete(folder: int, name: str, listing: Listing) -> None:
    """Delete exactly what was listed, through no link; what is gone already is no mistake. Raises Stays for what is left."""
    if listing.form == FILE:
        _unlink(folder, name, listing.files[0])
        on_disk(folder)
        return
    if not lies(folder, name):
        return
    top, mount = open_folder(folder, name), mount_of(folder)
    try:
        if mount_of(top) != mount:
            raise Stays("a file system is mounted there")
        with closing(_Below(top)) as below:
            for file in listing.files:
                within, last = below.folder_of(file.name)
                if within >= 0 and mount_of(within) != mount:
                    raise Stays("a file system is mounted in it")
                if within >= 0:
                    _unlink(within, last, file)
        with closing(_Below(top)) as below:
            for path, _ in reversed(listing.folders[1:]):
                within, last = below.folder_of(path)
                if within >= 0:
                    _rmdir(within, last)
    finally:
        os.close(top)
    _rmdir(folder, name)
    on_disk(folder)


class _Below:
    """Opens folders below one, part by part; the last one opened is kept, as files come sorted."""

    def __init__(self, top: int) -> None:
        self._top, self._path, self._open = top, b"", -1

    def close(self) -> None:
        """Let go of the last one."""
        if self._open >= 0:
            os.close(self._open)

    def folder_of(self, path: bytes) -> Tuple[int, str]:
        """The folder that a path below lies in (-1: it is gone), and its last part. Raises Stays."""
        above, _, last = path.rpartition(b"/")
        if not above:
            return self._top, os.fsdecode(last)
        if self._open < 0 or above != self._path:
            fresh = self._opened(above)
            if self._open >= 0:
                os.close(self._open)
            self._path, self._open = above, fresh
        return self._open, os.fsdecode(last)

    def _opened(self, path: bytes) -> int:
        here = os.dup(self._top)
        for part in path.split(b"/"):
            try:
                if not lies(here, os.fsdecode(part)):
                    return -1
                fresh = open_folder(here, os.fsdecode(part))
            finally:
                os.close(here)
            here = fresh
        return here


def _opened(folder: int, name: str, listing: Listing) -> _Files:
    """Open each file that was listed, one after the other: it, the last part of its name, its descriptor. Raises Stays."""
    if listing.form == FILE:
        yield from _each(folder, name, listing.files[0])
        return
    top = open_folder(folder, name)
    try:
        with closing(_Below(top)) as below:
            for file in listing.files:
                within, last = below.folder_of(file.name)
                if within < 0:
                    raise Stays("it changed while it was read")
                yield from _each(within, last, file)
    finally:
        os.close(top)


def _each(folder: int, name: str, file: File) -> _Files:
    opened = open_file(folder, name)
    try:
        yield file, name, opened
    finally:
        os.close(opened)


def _shown(file: File) -> str:
    return f"{os.fsdecode(file.name)} in it" if file.name else "it"


def _digest(opened: int, name: str, file: File, hashed: Hashed) -> bytes:
    digest = hashlib.sha256()
    for block in _blocks(opened, name, _as_listed(opened, name, file)):
        digest.update(block)
        hashed(len(block))
    _as_listed(opened, name, file)
    return digest.digest()


def _as_listed(opened: int, name: str, file: File) -> os.stat_result:
    try:
        about = os.fstat(opened)
    except OSError as error:
        raise Stays(f"{name} cannot be looked at: {error.strerror}") from error
    if file_of(file.name, about) != file:
        raise Stays("it changed while it was read")
    return about


def _blocks(opened: int, name: str, about: os.stat_result) -> Iterator[memoryview]:
    """What an open file holds, block by block, up to its size in ``about``; of one that grew, a bit more. Raises Stays."""
    once, view = SequentialReader(opened, about), memoryview(bytearray(min(_BLOCK, about.st_size + 1)))
    left = about.st_size
    try:
        while left >= 0 and (count := once.read_into(view)):
            yield view[:count]
            left -= count
        once.finish()
    except OSError as error:
        raise Stays(f"{name} cannot be read: {error.strerror}") from error


def _unlink(folder: int, name: str, file: File) -> None:
    """Delete a file if it is the one that was listed: nothing of ours changes even its ctime, as it has no other name."""
    try:
        if not lies(folder, name):
            return
        if file_of(file.name, os.lstat(name, dir_fd=folder)) != file:
            raise Stays(_OTHER.format(name))
        opened = open_file(folder, name)
        try:
            with nobody_writes(opened, name):
                about = os.lstat(name, dir_fd=folder)
                if file_of(file.name, about) != file or not os.path.samestat(about, os.fstat(opened)):
                    raise Stays(_OTHER.format(name))
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(opened)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Stays(f"{name} cannot be deleted: {error.strerror}") from error


def _rmdir(folder: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Stays(f"the folder {name} cannot be deleted: {error.strerror}") from error
