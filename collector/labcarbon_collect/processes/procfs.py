"""Public data of processes in /proc: stat line, real uid, cgroup. The environment is never read."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

_KERNEL_THREAD = 0x0020_0000  # PF_KTHREAD in the flags of /proc/<pid>/stat


class Stat(NamedTuple):
    """The stat line of a process. Times are in kernel ticks."""

    pid: int
    start_ticks: int  # since boot; with the pid, the identity of a process
    comm: str
    ppid: int
    group: int
    session: int
    cpu_ticks: int  # user and system time of its own threads
    children_ticks: int  # of waited-for children and their descendants
    kernel: bool
    threads: int  # 0 in a zombie
    minor_faults: int = 0  # page faults without a read from disk
    resident_pages: int = 0
    has_ended: bool = False  # a zombie: its parent has not waited for it


def parse_stat(line: bytes) -> Stat:
    """Parse /proc/<pid>/stat. The name is in parentheses and may contain parentheses and spaces."""
    before, _, rest = line.partition(b"(")
    comm, _, after = rest.rpartition(b")")
    fields = after.split()
    return Stat(
        pid=int(before),
        start_ticks=int(fields[19]),
        comm=comm.decode("utf-8", "replace"),
        ppid=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        children_ticks=int(fields[13]) + int(fields[14]),
        kernel=bool(int(fields[6]) & _KERNEL_THREAD),
        threads=int(fields[17]),
        minor_faults=int(fields[7]),
        resident_pages=int(fields[21]),
        has_ended=fields[0] in (b"Z", b"X"),
    )


def read_stat(proc_root: str, pid: int) -> Optional[Stat]:
    """Return the stat line of a process, None if it is hidden or has ended."""
    line = _read(f"{proc_root}/{pid}/stat")
    return parse_stat(line) if line else None


def real_uid(proc_root: str, pid: int) -> Optional[int]:
    """Return the real uid of a process, None if it is hidden or has ended. A set-uid program
    belongs to the user who started it.
    """
    status = _read(f"{proc_root}/{pid}/status") or b""
    _, _, rest = status.partition(b"\nUid:")
    return int(rest.split(None, 1)[0]) if rest else None


def cgroup_paths(proc_root: str, pid: int) -> str:
    """Return the text of /proc/<pid>/cgroup, a line per hierarchy, "" if the process is hidden or
    has ended.
    """
    return (_read(f"{proc_root}/{pid}/cgroup") or b"").decode("utf-8", "replace")


class KernelFile:
    """A file of the kernel that is read repeatedly through one descriptor."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: Optional[int] = None
        self._size = 4096

    def __del__(self) -> None:
        self._close()

    def read(self) -> bytes:
        """Return its text as of now, empty if it cannot be read."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            text = os.pread(self._descriptor, self._size, 0)
            while len(text) == self._size:
                self._size *= 2
                text = os.pread(self._descriptor, self._size, 0)
        except OSError:
            self._close()  # a device that returns has another file
            return b""
        return text

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _read(path: str) -> Optional[bytes]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, 65536)
    except OSError:
        return None
    finally:
        os.close(file)
