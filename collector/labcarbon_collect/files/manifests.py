"""Manifests of data paths: relative path, size and modification time of each file. No file is
opened.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence, Set, Tuple

from labcarbon_collect.files.read_limits import Budget, BudgetExceeded
from labcarbon_collect.lc1 import hash_rows, manifest_hash

MAX_FILES, _MAX_DEPTH = 2_000_000, 64
LinkHandler = Callable[[bytes], None]
_Folder = Tuple[bytes, bytes, int, bool]  # path, relative path, depth, whether behind a link


@dataclass(frozen=True)
class File:
    """A regular file of a data path. ``name``: its relative path with ``/``, empty for the path
    itself. ``hard_links``: number of its names. ``is_behind_link``: its path contains a link.
    """

    name: bytes
    path: bytes
    size: int
    mtime_ns: int
    device: int
    inode: int
    ctime_ns: int
    hard_links: int = 1
    is_behind_link: bool = False


@dataclass
class Manifest:
    """The files of one path, sorted by name. Links are followed. Each folder is listed one time."""

    role: str
    path: str
    files: List[File] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Sum of the file sizes."""
        return sum(file.size for file in self.files)

    def weak_hash(self) -> str:
        """SHA-256 over name, size and modification time of each file."""
        return hash_rows((file.name, b"%d %d" % (file.size, file.mtime_ns)) for file in self.files)

    def verified_hash(self, digests: Sequence[bytes]) -> str:
        """SHA-256 over name, size and content digest of each file. ``digests`` are in the order of
        ``files``.
        """
        return manifest_hash(
            (file.name, file.size, digest) for file, digest in zip(self.files, digests)
        )


def manifest(
    role: str,
    path: str,
    budget: Budget,
    *,
    max_files: int = MAX_FILES,
    on_link: Optional[LinkHandler] = None,
) -> Manifest:
    """List a path. Hidden files, ``__pycache__``, pipes, devices and sockets are skipped. Folder
    times do not count.

    ``on_link`` receives each link below the path before it is followed and may raise. Raises
    BudgetExceeded, and OSError if a folder cannot be read: an incomplete list would be wrong.
    """
    result = Manifest(role, path)
    top = os.fsencode(path)
    status = os.stat(top)
    if stat.S_ISREG(status.st_mode):
        result.files.append(_file(b"", top, status))
        return result
    seen: Set[Tuple[int, int]] = {(status.st_dev, status.st_ino)}
    pending: List[_Folder] = [(top, b"", 0, False)]
    while pending:
        budget.check()
        _list(pending.pop(), result.files, seen, pending, budget, on_link)
        if len(result.files) > max_files:
            raise BudgetExceeded(f"it contains more than {max_files} files")
    result.files.sort(key=lambda file: file.name)
    return result


def _list(
    listed: _Folder,
    files: List[File],
    seen: Set[Tuple[int, int]],
    pending: List[_Folder],
    budget: Budget,
    on_link: Optional[LinkHandler],
) -> None:
    folder, name, depth, is_behind_link = listed
    with os.scandir(folder) as entries:
        visible = [
            entry
            for entry in entries
            if not entry.name.startswith(b".") and entry.name != b"__pycache__"
        ]
    # A folder with two links is listed under one of them. The order must not depend on the file
    # system.
    visible.sort(key=lambda entry: entry.name, reverse=True)
    for number, entry in enumerate(visible):
        if number % 256 == 0:
            budget.check()
        is_link = entry.is_symlink()
        if on_link is not None and is_link:
            on_link(entry.path)
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue  # a link to nothing
        except OSError:
            if is_link:
                continue  # a link to itself
            raise
        relative = name + b"/" + entry.name if name else entry.name
        if stat.S_ISREG(status.st_mode):
            files.append(
                _file(relative, entry.path, status, is_behind_link=is_behind_link or is_link)
            )
        elif (
            stat.S_ISDIR(status.st_mode)
            and depth < _MAX_DEPTH
            and (status.st_dev, status.st_ino) not in seen
        ):
            seen.add((status.st_dev, status.st_ino))
            pending.append((entry.path, relative, depth + 1, is_behind_link or is_link))


def _file(
    name: bytes, path: bytes, status: os.stat_result, *, is_behind_link: bool = False
) -> File:
    return File(
        name,
        path,
        status.st_size,
        status.st_mtime_ns,
        status.st_dev,
        status.st_ino,
        status.st_ctime_ns,
        status.st_nlink,
        is_behind_link,
    )
