"""What a path of data holds: files by their path below it, size and time of change. Nothing is opened."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence, Set, Tuple

from labcarbon_collect.files.budget import Budget, BudgetExceeded
from labcarbon_collect.lc1 import manifest_hash, summed

MOST_FILES, _DEEPEST = 2_000_000, 64
Follow = Callable[[bytes], None]


@dataclass(frozen=True)
class File:
    """A plain file below a path of data. ``name``: its path below, ``/`` between parts; empty for the path itself."""

    name: bytes
    path: bytes
    size: int
    mtime_ns: int
    device: int
    inode: int
    ctime_ns: int


@dataclass
class Manifest:
    """The files of one path, sorted by name. Links are followed; each folder is listed once."""

    role: str
    path: str
    files: List[File] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The sum of their sizes."""
        return sum(file.size for file in self.files)

    def weak_hash(self) -> str:
        """SHA-256 over name, size and time of change of each."""
        return summed((file.name, b"%d %d" % (file.size, file.mtime_ns)) for file in self.files)

    def verified_hash(self, digests: Sequence[bytes]) -> str:
        """SHA-256 over name, size and content's digest of each; ``digests`` in the order of ``files``."""
        return manifest_hash((file.name, file.size, digest) for file, digest in zip(self.files, digests))


def manifest(
    role: str, path: str, budget: Budget, *, max_files: int = MOST_FILES, follow: Optional[Follow] = None
) -> Manifest:
    """List a path. Hidden files, ``__pycache__``, pipes, devices and sockets are left out; times of folders do not count.

    ``follow`` is shown each link below the path before it is followed, and may raise.
    Raises OutOfBudget, and OSError when a folder cannot be read: what is not seen is not known.
    """
    found = Manifest(role, path)
    top = os.fsencode(path)
    about = os.stat(top)
    if stat.S_ISREG(about.st_mode):
        found.files.append(_file(b"", top, about))
        return found
    seen: Set[Tuple[int, int]] = {(about.st_dev, about.st_ino)}
    waiting: List[Tuple[bytes, bytes, int]] = [(top, b"", 0)]
    while waiting:
        folder, name, depth = waiting.pop()
        budget.check()
        _list(folder, name, depth, found.files, seen, waiting, budget, follow)
        if len(found.files) > max_files:
            raise BudgetExceeded(f"it holds more than {max_files} files")
    found.files.sort(key=lambda file: file.name)
    return found


def _list(
    folder: bytes, name: bytes, depth: int, files: List[File], seen: Set[Tuple[int, int]],
    waiting: List[Tuple[bytes, bytes, int]], budget: Budget, follow: Optional[Follow],
) -> None:  # fmt: skip
    with os.scandir(folder) as entries:
        listed = [entry for entry in entries if not entry.name.startswith(b".") and entry.name != b"__pycache__"]
    # A folder that two links lead to is listed under one of them, so the order must not be the file system's.
    listed.sort(key=lambda entry: entry.name, reverse=True)
    for number, entry in enumerate(listed):
        if number % 256 == 0:
            budget.check()
        if follow is not None and entry.is_symlink():
            follow(entry.path)
        try:
            about = entry.stat()
        except FileNotFoundError:
            continue  # a link to nothing
        except OSError:
            if entry.is_symlink():
                continue  # a link to itself
            raise
        below = name + b"/" + entry.name if name else entry.name
        if stat.S_ISREG(about.st_mode):
            files.append(_file(below, entry.path, about))
        elif stat.S_ISDIR(about.st_mode) and depth < _DEEPEST and (about.st_dev, about.st_ino) not in seen:
            seen.add((about.st_dev, about.st_ino))
            waiting.append((entry.path, below, depth + 1))


def _file(name: bytes, path: bytes, about: os.stat_result) -> File:
    return File(name, path, about.st_size, about.st_mtime_ns, about.st_dev, about.st_ino, about.st_ctime_ns)
