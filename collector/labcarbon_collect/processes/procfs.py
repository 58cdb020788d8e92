"""What /proc tells every user of every process: its stat line, its real uid, its cgroup. Never its environment."""

from __future__ import annotations

import os
from typing import Dict, NamedTuple, Optional

_KERNEL_THREAD = 0x0020_0000  # PF_KTHREAD in the flags of /proc/<pid>/stat


class Stat(NamedTuple):
    """One process at one moment. Times in kernel ticks."""

    pid: int
    start_ticks: int  # since boot; with the pid, the identity of a process
    comm: str
    ppid: int
    group: int
    session: int
    cpu_ticks: int  # user and system time of its own threads
    children_ticks: int  # of the children it has waited for, and theirs
    kernel: bool


def parse_stat(line: bytes) -> Stat:
    """Parse /proc/<pid>/stat. The name stands in brackets and may itself hold brackets and spaces."""
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
    )


def read_stat(proc_root: str, pid: int) -> Optional[Stat]:
    """The stat of one process; None if it is gone or hidden from us."""
    line = _read(f"{proc_root}/{pid}/stat")
    return parse_stat(line) if line else None


def scan_processes(proc_root: str) -> Dict[int, Stat]:
    """All processes we can see, by pid."""
    processes = {}
    for name in os.listdir(proc_root):
        if name.isdigit():
            stat = read_stat(proc_root, int(name))
            if stat is not None:
                processes[stat.pid] = stat
    return processes


def real_uid(proc_root: str, pid: int) -> Optional[int]:
    """Who started the process (the real uid: a set-uid program still belongs to its user); None if hidden or gone."""
    for line in (_read(f"{proc_root}/{pid}/status") or b"").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def cgroup_paths(proc_root: str, pid: int) -> str:
    """The text of /proc/<pid>/cgroup: a line per hierarchy; "" if hidden or gone."""
    return (_read(f"{proc_root}/{pid}/cgroup") or b"").decode("utf-8", "replace")


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
