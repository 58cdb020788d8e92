"""Renaming that never replaces anything: renameat2(2), which Python does not have."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
from typing import Any

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
