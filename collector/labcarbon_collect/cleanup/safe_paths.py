"""Opens paths component by component from the root. Follows no link, and no component can be
replaced meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
from contextlib import contextmanager
from typing import Any, Iterator, List

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRAVERSE_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class ItemBlocked(Exception):
    """An item is left as it is. The text says why."""


def split_path(path: str) -> List[str]:
    """Return the components of an absolute path. Raises ItemBlocked for a relative path or one with
    ``..``.
    """
    if not path.startswith("/"):
        raise ItemBlocked("its path is not absolute")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ItemBlocked("its path cannot be encoded on this machine") from error
    result = path[1:].split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in result):
        raise ItemBlocked(
            "its path is not normalised: it has an empty part, '.', '..' or a zero byte"
        )
    return result


@contextmanager
def open_parent(path: str) -> Iterator[int]:
    """Open the parent folder of an absolute path. Yields its descriptor. Raises ItemBlocked."""
    descriptor = os.open("/", _TRAVERSE_FLAGS)
    try:
        parents = split_path(path)[:-1]
        for number, part in enumerate(parents):
            is_last = number == len(parents) - 1
            descriptor, previous = (
                _open_part(
                    descriptor,
                    part,
                    FOLDER_FLAGS if is_last else _TRAVERSE_FLAGS,
                    "/" + "/".join(parents[: number + 1]),
                ),
                descriptor,
            )
            os.close(previous)
        if not parents:
            descriptor, previous = os.open("/", FOLDER_FLAGS), descriptor
            os.close(previous)
        yield descriptor
    finally:
        os.close(descriptor)


def _open_part(descriptor: int, part: str, flags: int, path: str) -> int:
    try:
        return os.open(part, flags, dir_fd=descriptor)
    except FileNotFoundError as error:
        raise ItemBlocked(f"there is no folder {path}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ItemBlocked(
                f"{path} is {describe_type(descriptor, part)}, not a folder: links are not followed"
            ) from error
        raise ItemBlocked(f"{path} cannot be opened: {error.strerror}") from error


def open_file(folder: int, name: str) -> int:
    """Open a plain file for reading. Refuses links and never blocks on a pipe. Raises
    ItemBlocked.
    """
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    except OSError as error:
        raise ItemBlocked(f"{name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ItemBlocked(f"{name} is no longer a plain file")
    return descriptor


def open_folder(folder: int, name: str) -> int:
    """Open a subfolder. Refuses links. Raises ItemBlocked."""
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        raise ItemBlocked(f"{name} cannot be opened as a folder: {error.strerror}") from error


def exists(folder: int, name: str) -> bool:
    """Return whether a folder has an entry with this name, including broken links. Raises
    ItemBlocked if that is unknown.
    """
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ItemBlocked(f"{name} cannot be inspected: {error.strerror}") from error
    return True


def describe_type(folder: int, name: str) -> str:
    """Return the type of an entry in words."""
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except OSError:
        return "gone"
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISDIR, "a folder"),
    )
    return next((description for predicate, description in kinds if predicate(mode)), "a file")


def mount_id(descriptor: int) -> str:
    """Return the mount of an open file or folder. Two mounts of one device differ, such as a bind
    mount.
    """
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("mnt_id:"):
                    return line.split()[1]
    except OSError:
        pass
    return f"device {os.fstat(descriptor).st_dev}"


def sync_folder(folder: int) -> None:
    """Flush the names in a folder to disk, if its file system supports it."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


_RENAME_NOREPLACE = 1
# of renameat2, for C libraries without it
_SYSCALL_NUMBERS = {"x86_64": 316, "aarch64": 276, "ppc64le": 357}
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def rename_exclusive(from_folder: int, name: str, to_folder: int, new: str) -> None:
    """Rename without overwriting. Raises FileExistsError if the name is taken, and OSError."""
    try:
        _renameat2(from_folder, name, to_folder, new)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _rename_fallback(from_folder, name, to_folder, new)


def _renameat2(from_folder: int, name: str, to_folder: int, new: str) -> None:
    library: Any = ctypes.CDLL(None, use_errno=True)
    arguments = (
        from_folder,
        os.fsencode(name),
        to_folder,
        os.fsencode(new),
        ctypes.c_uint(_RENAME_NOREPLACE),
    )
    if hasattr(library, "renameat2"):
        failed = library.renameat2(*arguments)
    elif platform.machine() in _SYSCALL_NUMBERS:
        failed = library.syscall(ctypes.c_long(_SYSCALL_NUMBERS[platform.machine()]), *arguments)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        number = ctypes.get_errno()
        # Python selects the subclass by the number.
        raise OSError(number, os.strerror(number), new)


def _rename_fallback(from_folder: int, name: str, to_folder: int, new: str) -> None:
    """Rename on file systems without renameat2 (NFS). A link fails if the name is taken. A folder
    can replace only an empty one.
    """
    if stat.S_ISDIR(os.lstat(name, dir_fd=from_folder).st_mode):
        os.rename(name, new, src_dir_fd=from_folder, dst_dir_fd=to_folder)
        return
    os.link(name, new, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
    os.unlink(name, dir_fd=from_folder)
