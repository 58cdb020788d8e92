"""Work time of the processors since boot, from /proc/stat."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict

# Columns of a cpu line that count as work: user, nice, system, irq, softirq. guest is included in
# user. idle and iowait are no work. steal belongs to another guest.
_WORK_COLUMNS = (0, 1, 2, 5, 6)


def tick_us() -> int:
    """Return the microseconds of a kernel clock tick."""
    return 1_000_000 // os.sysconf("SC_CLK_TCK")


def busy_us_by_cpu(proc: Path = Path("/proc")) -> Dict[int, int]:
    """Return the µs of work since boot by logical processor, empty if /proc/stat cannot be read."""
    try:
        lines = (proc / "stat").read_text().splitlines()
    except OSError:
        return {}
    busy = {}
    one_tick_us = tick_us()
    for line in lines:
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit():
            ticks = [int(value) for value in rest.split()]
            busy[int(name[3:])] = sum(ticks[column] for column in _WORK_COLUMNS) * one_tick_us
    return busy


def busy_us(proc: Path = Path("/proc")) -> int:
    """Return the µs of work of all processors since boot."""
    return sum(busy_us_by_cpu(proc).values())
