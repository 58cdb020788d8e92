"""Detects programs that have a file open for writing, or mapped for writing. Writes through a
mapping may change no timestamp, so comparing timestamps is not enough.

The kernel grants a read lease (fcntl(2), "Leases") if nobody has the file open for writing, and
fails with EAGAIN otherwise. A mapping keeps its file open. During a lease, a process that opens the
file for writing waits, and the holder gets a signal. SIGIO would end this process, so the lease
uses SIGURG, which is ignored by default.
"""

from __future__ import annotations

import errno
import fcntl
import signal
from contextlib import contextmanager, suppress
from typing import Iterator

from labcarbon_collect.cleanup.safe_paths import ItemBlocked, mount_id

_HAS_LEASES = all(hasattr(fcntl, name) for name in ("F_SETLEASE", "F_SETSIG"))
# No leases on this file system, no permission (another owner without CAP_LEASE), or no such call.
_LEASE_UNSUPPORTED = (
    errno.EINVAL,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTSUP,
    errno.ENOLCK,
    errno.ENOSYS,
)
# EAGAIN can also mean that the server granted no delegation or oplock (Linux: nfs4_add_lease,
# cifs_setlease).
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3")


class FileBusy(ItemBlocked):
    """A program has a file open for writing. The item is skipped for now."""


@contextmanager
def read_lease(descriptor: int, label: str) -> Iterator[None]:
    """Hold a read lease on an open file: until the end of the context nobody has it open for
    writing.

    Keep the context short. Without support of the kernel there is no lease. ``label``: the file in
    messages. Raises FileBusy if a program has it open for writing.
    """
    has_lease = _take_lease(descriptor, label)
    try:
        yield
    finally:
        if has_lease:
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _take_lease(descriptor: int, label: str) -> bool:
    if not _HAS_LEASES:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN and _file_system(descriptor) not in _NETWORK_FILE_SYSTEMS:
            reason = (
                f"{label} is open for writing by a program: stop it (fuser shows which), then "
                "run the same command again"
            )
            raise FileBusy(reason) from error
        if error.errno not in (*_LEASE_UNSUPPORTED, errno.EAGAIN):
            raise ItemBlocked(
                f"it is unknown whether {label} is open for writing: {error.strerror}"
            ) from error
        return False
    return True


def _file_system(descriptor: int) -> str:
    """Return the file system type of an open file, "" if unknown: proc_pid_mountinfo(5)."""
    mount = mount_id(descriptor)
    with (
        suppress(OSError),
        open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts,
    ):
        for line in mounts:
            fields, _, about = line.partition(" - ")
            if fields.split(" ", 1)[0] == mount:
                return about.split(" ", 1)[0]
    return ""
