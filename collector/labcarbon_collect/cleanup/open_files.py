"""Whether a program has a file open for writing, or mapped so that it can be written: what is written to a page of a map
that was written before changes none of the file's times, so that no comparison of them tells of it.

The kernel gives a read lease (fcntl(2), "Leases") on a file that nobody has open for writing, and fails with EAGAIN
otherwise; a map keeps its file open. While a lease is held, whoever opens the file for writing waits, and its holder is told
by a signal: SIGIO would end us, so it is SIGURG, which nobody minds.
"""

from __future__ import annotations

import errno
import fcntl
import signal
from contextlib import contextmanager, suppress
from typing import Iterator

from labcarbon_collect.cleanup.safe_paths import ItemBlocked, mount_id

_HAS_LEASES = all(hasattr(fcntl, name) for name in ("F_SETLEASE", "F_SETSIG"))
# No leases on this file system, none for us (the file is another's, and we lack CAP_LEASE), or no such call.
_LEASE_UNSUPPORTED = (errno.EINVAL, errno.EACCES, errno.EPERM, errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS)
# Their EAGAIN also means that the server lent no delegation or oplock (Linux: nfs4_add_lease, cifs_setlease).
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3")


class FileBusy(ItemBlocked):
    """A program has a file open for writing: for now it is left as it is."""


@contextmanager
def read_lease(descriptor: int, label: str) -> Iterator[None]:
    """Hold a lease on a file that is open for reading: nobody has it open for writing, nor does until this ends, which is to
    be soon. Where the kernel cannot tell, nothing is held. ``what``: the file, in words. Raises Busy where somebody has."""
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
            reason = f"{label} is open for writing by a program: end it (fuser shows which), then the same command goes on"
            raise FileBusy(reason) from error
        if error.errno not in (*_LEASE_UNSUPPORTED, errno.EAGAIN):
            raise ItemBlocked(f"it cannot be told whether {label} is open for writing: {error.strerror}") from error
        return False
    return True


def _file_system(descriptor: int) -> str:
    """The type of the file system that an open file lies on, '' where that is not known: proc_pid_mountinfo(5)."""
    mount = mount_id(descriptor)
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            fields, _, about = line.partition(" - ")
            if fields.split(" ", 1)[0] == mount:
                return about.split(" ", 1)[0]
    return ""
