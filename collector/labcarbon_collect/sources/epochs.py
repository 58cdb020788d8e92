"""When does a meter's counter still count on from its last reading? Pure.

An energy counter restarts with its driver, and a driver may unload while nobody looks. Two readings belong to one
epoch when the later is not below the earlier and not above what the device could have drawn in between:
``reading ≤ previous + 1.5 × TDP × gap``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import FLAG_BRIDGED

CONTINUES, RESTARTED, JUMPED = "continues", "restarted", "jumped"

# A counter is refreshed by the driver about every 20–100 ms, so two quick readings may hold a longer stretch of energy.
REFRESH_US = 1_000_000
# A device whose power limit is not told: above any card sold.
DEFAULT_LIMIT_MW = 3_000_000
# After a fall, the energy since the restart is placed by a power reading; that one no longer stands for a longer gap.
BRIDGE_US = 60_000_000


@dataclass(frozen=True)
class CounterReading:
    """The last reading of a counter."""

    epoch: str
    counter_mj: int
    monotonic_us: int
    wall_us: int


def max_energy_mj(gap_us: int, limit_mw: int) -> int:
    """The most a device of power limit ``limit_mw`` (0: not told) can draw in ``gap_us``, in mJ."""
    return (limit_mw or DEFAULT_LIMIT_MW) * 3 * (max(gap_us, 0) + REFRESH_US) // 2_000_000


def classify_reading(before_mj: int, after_mj: int, gap_us: int, limit_mw: int) -> str:
    """CONTINUES, RESTARTED (from nought, within the gap) or JUMPED (nothing is known of the gap)."""
    limit_mj = max_energy_mj(gap_us, limit_mw)
    if before_mj <= after_mj <= before_mj + limit_mj:
        return CONTINUES
    return RESTARTED if after_mj < before_mj and after_mj <= limit_mj else JUMPED


def since_restart_us(counter_mj: int, gap_us: int, power_mw: int) -> int:
    """How long a counter that restarted from nought has been counting, by the power read now: at most ``gap_us``."""
    if power_mw <= 0:
        return gap_us
    return min(gap_us, counter_mj * 1_000_000 // power_mw)


@dataclass(frozen=True)
class CounterStep:
    """What one look at a counter says: readings in order (each with flags), and where a gap in the energy ends, if any."""

    readings: Tuple[Tuple[CounterReading, int], ...]
    gap_until_us: Optional[int] = None  # wall time; the gap begins at the reading before


def place_reading(
    before: Optional[CounterReading], counter_mj: int, clock: Clock, *, load: str, limit_mw: int, power_mw: Optional[int]
) -> CounterStep:
    """Place a counter's reading after the one before it: same epoch, or a new one with its gap.

    ``load`` names this boot and this load of the driver: the first epoch of it. After a restart from nought within the
    gap, the energy since then is known by the counter; ``power_mw`` only tells when it began (FLAG_BRIDGED).
    """
    last = CounterReading(load, counter_mj, clock.monotonic_us, clock.wall_us)
    if before is None:
        return CounterStep(((last, 0),))
    gap_us = clock.monotonic_us - before.monotonic_us
    continuity = classify_reading(before.counter_mj, counter_mj, gap_us, limit_mw)
    is_same_load = before.epoch == load or before.epoch.startswith(load + ".")
    if is_same_load and continuity == CONTINUES:
        return CounterStep(((replace(last, epoch=before.epoch), 0),))
    if is_same_load:
        last = replace(last, epoch=f"{load}.{clock.monotonic_us:x}")
    bridged = continuity == RESTARTED and gap_us <= BRIDGE_US
    counted_us = since_restart_us(counter_mj, gap_us - 1, power_mw or 0) if bridged else 0
    if counted_us <= 0:
        return CounterStep(((last, 0),), last.wall_us)
    restart = CounterReading(last.epoch, 0, last.monotonic_us - counted_us, last.wall_us - counted_us)
    return CounterStep(((restart, 0), (last, FLAG_BRIDGED)), restart.wall_us)


def driver_load(sys_root: str = "/sys", module: str = "nvidia") -> int:
    """A number that changes whenever the kernel module is loaded anew; 0 where there is no such module.

    sysfs numbers its nodes in order of creation, so the inode of the module's folder names this very load.
    """
    try:
        return (Path(sys_root) / "module" / module).stat().st_ino
    except OSError:
        return 0
