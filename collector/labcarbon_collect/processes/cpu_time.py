"""Work time of the processors since boot, from /proc/stat."""

from __future__ import annotations

import os
from typing import Dict

from labcarbon_collect.processes.procfs import KernelFile

# Columns of a cpu line that count as work: user, nice, system, irq, softirq. guest is included in
# user. idle and iowait are no work. steal belongs to another guest.
_WORK_COLUMNS = (0, 1, 2, 5, 6)


def tick_us() -> int:
    """Return the microseconds of a kernel clock tick."""
    return 1_000_000 // os.sysconf("SC_CLK_TCK")


class BusyTime:
    """Work of the processors, read repeatedly from one /proc."""

    def __init__(self, proc: str = "/proc") -> None:
        self._stat = KernelFile(f"{proc}/stat")

    def text(self) -> bytes:
        """Return /proc/stat as of now, empty if it cannot be read."""
        return self._stat.read()

    def by_cpu(self) -> Dict[int, int]:
        """Return the µs of work since boot by logical processor, empty if /proc/stat cannot be
        read.
        """
        return parse_busy_us(self.text())

    def total_us(self) -> int:
        """Return the µs of work of all processors since boot."""
        return sum(self.by_cpu().values())


def parse_busy_us(text: bytes) -> Dict[int, int]:
    """Return the µs of work by logical processor from the text of /proc/stat. Pure."""
    busy = {}
    one_tick_us = tick_us()
    for line in text.partition(b"\nintr ")[0].splitlines():
        name, _, rest = line.partition(b" ")
        if name.startswith(b"cpu") and name != b"cpu":
            ticks = rest.split()
            busy[int(name[3:])] = one_tick_us * sum(int(ticks[column]) for column in _WORK_COLUMNS)
    return busy
