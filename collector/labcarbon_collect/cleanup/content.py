"""What was listed at a place: read, held still, deleted.

The digest is that of docs/artifacts.md: SHA-256 of a file, or of the sorted list of a folder's files.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing, contextmanager
from typing import Callable, Generator, Iterator, Tuple

from labcarbon_collect.cleanup.open_files import nobody_writes
from labcarbon_collect.cleanup.safe_paths import Stays, lies, mount_of, on_disk, open_file, open_folder
from labcarbon_collect.files.sequential_reader import Once
from labcarbon_collect.lc1 import manifest_hash
from labcarbon_collect.plan.listing import FILE, File, Listing, file_of, listed

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
    once, view = Once(opened, about), memoryview(bytearray(min(_BLOCK, about.st_size + 1)))
    left = about.st_size
    try:
        while left >= 0 and (count := once.read_into(view)):
            yield view[:count]
            left -= count
        once.done()
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
