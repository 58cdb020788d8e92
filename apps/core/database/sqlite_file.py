"""The file of the SQLite database: what is wrong with it, judged without SQLite. Costs some
microseconds, so that each connection and each ``/readyz`` can afford it.

The file format: https://www.sqlite.org/fileformat.html.
"""

import os
import pwd
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from apps.core.database_problems import Problem

MAGIC = b"SQLite format 3\x00"
SUFFIXES = ("", "-wal", "-shm")
_HEADER_BYTES = 100
# A checkpoint writes page 1 before the pages at the end, so the file is short for this time.
_CHECKPOINT_S = 5.0
_MIN_FREE_BYTES = 1 << 20
_opening = threading.Lock()
_descriptors: dict[tuple[int, int], int] = {}  # by device and inode


@dataclass(frozen=True)
class FileProblem:
    """A problem of the database. ``detail``: what was observed, with names but without folders."""

    problem: Problem
    detail: str


class UnusableDatabase(sqlite3.OperationalError):
    """The driver's error for a file that SQLite would accept, or would explain wrongly."""

    def __init__(self, cause: FileProblem) -> None:
        super().__init__(cause.detail)
        self.problem = cause.problem


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return what distinguishes the file from another one of the same name. None: no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def state_of(path: Path) -> tuple[int, ...] | None:
    """Return what changes when anybody replaces or writes the file. None: no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def content_problem(path: Path) -> FileProblem | None:
    """Return the problem if the file is missing, empty, cut off, or no database."""
    return _existence_problem(path) or _header_problem(path)


def _existence_problem(path: Path) -> FileProblem | None:
    """Return the problem if there is no content. SQLite would treat both as a new database."""
    try:
        if path.stat().st_size:
            return None
    except FileNotFoundError:
        return FileProblem(Problem.MISSING, f"there is no {path.name}")
    except OSError:
        return None  # the rights are checked elsewhere
    return FileProblem(Problem.DAMAGED, f"{path.name} has 0 bytes")


def file_problem(path: Path) -> FileProblem | None:
    """Return what is wrong with the database file, its companions, its folder or its disk."""
    return (
        _existence_problem(path)
        or _access_problem(path)
        or _header_problem(path)
        or _space_problem(path.parent)
    )


def _access_problem(path: Path) -> FileProblem | None:
    if not os.access(path.parent, os.X_OK):
        return FileProblem(Problem.NO_ACCESS, _rights_of(path.parent, "its folder"))
    for file in (path.with_name(path.name + suffix) for suffix in SUFFIXES):
        if file.exists() and not os.access(file, os.R_OK | os.W_OK):
            is_readable = os.access(file, os.R_OK)
            return FileProblem(
                Problem.READ_ONLY if is_readable else Problem.NO_ACCESS, _rights_of(file, file.name)
            )
    if not os.access(path.parent, os.W_OK):
        return FileProblem(Problem.READ_ONLY, _rights_of(path.parent, "its folder"))
    return None


def _rights_of(path: Path, name: str) -> str:
    """Return owner and mode of a file, and who has no access."""
    try:
        status = path.stat()
    except OSError as error:
        return f"{name}: {error.strerror}"
    return (
        f"{name} belongs to {_user_name(status.st_uid)} with mode {status.st_mode & 0o7777:04o}, "
        f"and the server runs as {_user_name(os.geteuid())}"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _header_problem(path: Path) -> FileProblem | None:
    try:
        descriptor = _descriptor_of(path)
        header = os.pread(descriptor, _HEADER_BYTES, 0)
        status = os.fstat(descriptor)
    except PermissionError:
        return FileProblem(Problem.NO_ACCESS, _rights_of(path, path.name))
    except OSError as error:
        return FileProblem(Problem.DISK_ERROR, f"{path.name} cannot be read: {error.strerror}")
    if not header.startswith(MAGIC):
        return FileProblem(Problem.DAMAGED, f"{path.name} does not begin as a SQLite database")
    page = int.from_bytes(header[16:18], "big")
    page = 65_536 if page == 1 else page
    if page < 512 or page & (page - 1):
        return FileProblem(Problem.DAMAGED, f"the header of {path.name} has no valid page size")
    pages = int.from_bytes(header[28:32], "big")
    # The number of pages is valid only if both counters agree.
    is_short = header[24:28] == header[92:96] and status.st_size < pages * page
    if is_short and not _may_be_in_checkpoint(path, status.st_mtime):
        return FileProblem(
            Problem.DAMAGED,
            f"{path.name} has {status.st_size} bytes, and its header requires {pages * page}",
        )
    return None


def _descriptor_of(path: Path) -> int:
    """Return a descriptor of the file, which stays open until the process ends.

    Closing any descriptor of a file cancels all locks that the process holds on it, those of SQLite
    too. Another process would then delete the write-ahead log that is in use:
    https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    """
    with _opening:
        identity = identity_of(path)
        if identity is not None and identity in _descriptors:
            return _descriptors[identity]
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        return _descriptors.setdefault((status.st_dev, status.st_ino), descriptor)


def _may_be_in_checkpoint(path: Path, changed_s: float) -> bool:
    try:
        has_log = path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False
    return has_log and time.time() - changed_s < _CHECKPOINT_S


def _space_problem(folder: Path) -> FileProblem | None:
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return FileProblem(Problem.DISK_ERROR, f"the disk cannot be read: {error.strerror}")
    free = disk.f_bavail * disk.f_frsize
    if free < _MIN_FREE_BYTES:
        return FileProblem(Problem.DISK_FULL, f"{free} bytes are free")
    return None


def create_file(path: Path) -> None:
    """Create an empty database with a valid header. It gets its name when it is complete."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        with closing(sqlite3.connect(partial)) as database:
            database.execute("VACUUM")  # writes page 1
        os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
