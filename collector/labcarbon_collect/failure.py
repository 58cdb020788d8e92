"""Why a command failed, as far as its end alone tells; "" is unknown."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Optional

HOST_MEMORY = "host_memory"


class OomKills:
    """How often the kernel has killed for want of memory in our own cgroup, which is the work's too."""

    def __init__(self, cgroup: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> None:
        self._events = _events_file(cgroup, root)
        self._before = self._count()

    def rose(self) -> bool:
        """Whether it happened since."""
        now = self._count()
        return now is not None and self._before is not None and now > self._before

    def _count(self) -> Optional[int]:
        if self._events is None:
            return None
        try:
            rows = dict(line.split() for line in self._events.read_text().splitlines() if line.count(" ") == 1)
            return int(rows["oom_kill"])
        except (OSError, KeyError, ValueError):
            return None


def failure_class(killed_by: int, exit_code: int, kills: OomKills) -> str:
    """``host_memory`` where the kernel killed for memory and the work died of SIGKILL, itself or a part of it."""
    by_kill = killed_by == signal.SIGKILL or exit_code == 128 + signal.SIGKILL
    return HOST_MEMORY if by_kill and kills.rose() else ""


def _events_file(cgroup: Path, root: Path) -> Optional[Path]:
    try:
        lines = cgroup.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("0::"):
            path = root / line[3:].lstrip("/") / "memory.events"
            return path if path.is_file() else None
    return None
