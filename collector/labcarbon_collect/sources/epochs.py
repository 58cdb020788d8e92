"""Continuity of energy counters. Pure.

An energy counter restarts with its driver, and a driver may be reloaded between two readings. Two
readings belong to one epoch if the later one is not below the earlier one and not above the
possible energy of the device in between: ``reading ≤ previous + 1.5 × TDP × gap``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Optional, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import FLAG_BRIDGED

CONTINUES, RESTARTED, JUMPED = "continues", "restarted", "jumped"

# The driver refreshes a counter every 20–100 ms, so two quick readings may contain the energy of a
# longer period.
REFRESH_US = 1_000_000
# For a device without a known power limit: above any existing card.
DEFAULT_LIMIT_MW = 3_000_000
# After a fall, a power reading places the energy since the restart. It is not valid for a longer
# gap.
BRIDGE_US = 60_000_000


class CounterReading(NamedTuple):
    """The last reading of a counter."""

    epoch: str
    counter_mj: int
    monotonic_us: int
    wall_us: int


def max_energy_mj(gap_us: int, limit_mw: int) -> int:
    """Return the maximum energy in mJ of a device with power limit ``limit_mw`` (0: unknown) in
    ``gap_us``.
    """
    return (limit_mw or DEFAULT_LIMIT_MW) * 3 * (max(gap_us, 0) + REFRESH_US) // 2_000_000


def classify_reading(before_mj: int, after_mj: int, gap_us: int, limit_mw: int) -> str:
    """Return CONTINUES, RESTARTED (from zero, within the gap) or JUMPED (the energy of the gap is
    unknown).
    """
    limit_mj = max_energy_mj(gap_us, limit_mw)
    if before_mj <= after_mj <= before_mj + limit_mj:
        return CONTINUES
    return RESTARTED if after_mj < before_mj and after_mj <= limit_mj else JUMPED


def since_restart_us(counter_mj: int, gap_us: int, power_mw: int) -> int:
    """Return the time since a counter's restart from zero, estimated by the current power, at most
    ``gap_us``.
    """
    if power_mw <= 0:
        return gap_us
    return min(gap_us, counter_mj * 1_000_000 // power_mw)


class CounterStep(NamedTuple):
    """Result of one counter reading: readings in order with flags, and the end of a gap, if any."""

    readings: Tuple[Tuple[CounterReading, int], ...]
    gap_until_us: Optional[int] = None  # wall time; the gap starts at the previous reading


def place_reading(
    before: Optional[CounterReading],
    counter_mj: int,
    clock: Clock,
    *,
    load: str,
    limit_mw: int,
    power_mw: Optional[int],
    moved_us: Optional[int] = None,
) -> CounterStep:
    """Place a counter reading after the previous one: in the same epoch, or in a new one with a
    gap.

    ``load`` identifies this boot and driver load and is its first epoch. After a restart from zero
    within the gap, the counter contains the energy since the restart. ``power_mw`` only estimates
    the time of the restart (FLAG_BRIDGED). ``moved_us``: monotonic time at which the counter last
    moved, if that was before the previous reading; a counter that stood still may rise by all the
    energy since then.
    """
    monotonic_us, wall_us = clock
    if before is None:
        return CounterStep(((CounterReading(load, counter_mj, monotonic_us, wall_us), 0),))
    gap_us = monotonic_us - before.monotonic_us
    continuity = classify_reading(before.counter_mj, counter_mj, gap_us, limit_mw)
    if continuity == JUMPED and moved_us is not None and counter_mj >= before.counter_mj:
        moving_us = max(gap_us, monotonic_us - moved_us)
        continuity = classify_reading(before.counter_mj, counter_mj, moving_us, limit_mw)
    is_same_load = before.epoch == load or before.epoch.startswith(load + ".")
    if is_same_load and continuity == CONTINUES:
        return CounterStep(((CounterReading(before.epoch, counter_mj, monotonic_us, wall_us), 0),))
    epoch = f"{load}.{monotonic_us:x}" if is_same_load else load
    last = CounterReading(epoch, counter_mj, monotonic_us, wall_us)
    bridged = continuity == RESTARTED and gap_us <= BRIDGE_US
    counted_us = since_restart_us(counter_mj, gap_us - 1, power_mw or 0) if bridged else 0
    if counted_us <= 0:
        return CounterStep(((last, 0),), last.wall_us)
    restart = CounterReading(
        last.epoch, 0, last.monotonic_us - counted_us, last.wall_us - counted_us
    )
    return CounterStep(((restart, 0), (last, FLAG_BRIDGED)), restart.wall_us)


def driver_load(sys_root: str = "/sys", module: str = "nvidia") -> int:
    """Return a number that changes with each load of the kernel module, 0 without the module.

    sysfs numbers its nodes in order of creation, so the inode of the module's folder identifies the
    load.
    """
    try:
        return (Path(sys_root) / "module" / module).stat().st_ino
    except OSError:
        return 0
