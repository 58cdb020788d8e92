"""Opening paths one part at a time from the root: no link is followed, no part can be swapped for one meanwhile."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
from contextlib import contextmanager
from typing import Any, Iterator, List

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSING = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Stays(Exception):
    """Something is left as it is; the text says why."""


def parts(path: str) -> List[str]:
    """The parts of an absolute path. Raises Stays for one that is relative, or leads back by ``..``."""
    if not path.startswith("/"):
        raise Stays("its path is not absolute")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise Stays("its path is none that this machine can write") from error
    found = path[1:].split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in found):
        raise Stays("its path is not in its plain form: it has an empty part, '.', '..' or a zero byte")
    return found


@contextmanager
def folder_of(path: str) -> Iterator[int]:
    """Open the folder that an absolute path lies in; yields its descriptor. Raises Stays."""
    here = os.open("/", _PASSING)
    try:
        above = parts(path)[:-1]
        for number, part in enumerate(above):
            last = number == len(above) - 1
            here, left = _into(here, part, FOLDER if last else _PASSING, "/" + "/".join(above[: number + 1])), here
            os.close(left)
        if not above:
            here, left = os.open("/", FOLDER), here
            os.close(left)
        yield here
    finally:
        os.close(here)


def _into(here: int, part: str, flags: int, path: str) -> int:
    try:
        return os.open(part, flags, dir_fd=here)
    except FileNotFoundError as error:
        raise Stays(f"there is no folder {path}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Stays(f"{path} is {what(here, part)}, no folder: a link could lead anywhere") from error
        raise Stays(f"{path} cannot be opened: {error.strerror}") from error


def open_file(folder: int, name: str) -> int:
    """Open a plain file for reading, never a link, never waiting for a pipe. Raises Stays."""
    try:
        opened = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        raise Stays(f"{name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise Stays(f"{name} is no plain file any more")
    return opened


def open_folder(folder: int, name: str) -> int:
    """Open a folder below another, never through a link. Raises Stays."""
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except OSError as error:
        raise Stays(f"{name} cannot be opened as a folder: {error.strerror}") from error


def lies(folder: int, name: str) -> bool:
    """Whether anything has this name in a folder, be it a link to nothing. Raises Stays where that cannot be told."""
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Stays(f"{name} cannot be looked at: {error.strerror}") from error
    return True


def what(folder: int, name: str) -> str:
    """What something is, in words."""
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except OSError:
        return "gone"
    kinds = (
        (stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a device"), (stat.S_ISCHR, "a device"), (stat.S_ISDIR, "a folder"),
    )  # fmt: skip
    return next((word for is_it, word in kinds if is_it(mode)), "a file")


def mount_of(opened: int) -> str:
    """The mount that an open file or folder lies on: two mounts of one device differ, as a bind mount does."""
    try:
        with open(f"/proc/self/fdinfo/{opened}", encoding="ascii") as told:
            for line in told:
                if line.startswith("mnt_id:"):
                    return line.split()[1]
    except OSError:
        pass
    return f"device {os.fstat(opened).st_dev}"


def on_disk(folder: int) -> None:
    """Have names in a folder survive a power cut, where its file system can."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


_NOREPLACE = 1
_NUMBERS = {"x86_64": 316, "aarch64": 276, "ppc64le": 357}  # of renameat2, where the C library is too old to have it
_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def move_anew(from_folder: int, name: str, to_folder: int, new: str) -> None:
    """Give something another name. Raises FileExistsError where that name is taken, and OSError."""
    try:
        _renameat2(from_folder, name, to_folder, new)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        _without_it(from_folder, name, to_folder, new)


def _renameat2(from_folder: int, name: str, to_folder: int, new: str) -> None:
    library: Any = ctypes.CDLL(None, use_errno=True)
    words = (from_folder, os.fsencode(name), to_folder, os.fsencode(new), ctypes.c_uint(_NOREPLACE))
    if hasattr(library, "renameat2"):
        failed = library.renameat2(*words)
    elif platform.machine() in _NUMBERS:
        failed = library.syscall(ctypes.c_long(_NUMBERS[platform.machine()]), *words)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), new)  # Python picks the subclass by the number


def _without_it(from_folder: int, name: str, to_folder: int, new: str) -> None:
    """For file systems that cannot (NFS): a second name fails where one is, and a folder replaces an empty one at most."""
    if stat.S_ISDIR(os.lstat(name, dir_fd=from_folder).st_mode):
        os.rename(name, new, src_dir_fd=from_folder, dst_dir_fd=to_folder)
        return
    os.link(name, new, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
    os.unlink(name, dir_fd=from_folder)
