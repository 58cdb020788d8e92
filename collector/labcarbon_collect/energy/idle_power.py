"""Idle power of a device, estimated from its own windows: the 5th percentile over the last 14 days.

It is stored in the spool as a histogram per day, so that two weeks of minutes are a few hundred
rows.
"""

from __future__ import annotations

import sqlite3
from typing import Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.energy.windows import IDLE, SECOND_US, UNKNOWN, Window
from labcarbon_collect.sources.base import FLAG_BRIDGED, FLAG_MERGED, FLAG_RECOVERED

DAY_US = 86_400 * SECOND_US
DAYS = 14
BIN_MW = 500
# Fewer idle windows than this yield no estimate.
MIN_WINDOWS = 10
_MW_PER_MJ_PER_US = 1_000_000  # 1 mJ/µs = 1 kW
# A shorter window holds too few updates of a counter.
_MIN_DURATION_US = SECOND_US


def idle_bin(window: Window) -> Optional[int]:
    """Return the histogram bin of a window in which no consumer used the device, None for any
    other. Pure.

    A GPU that idles above the assumed power is ``unknown`` until its idle power is learnt, so its
    windows count if the driver reports no use at all.
    """
    duration_us = window.mono_end_us - window.mono_start_us
    is_unused_gpu = (
        window.device.startswith("gpu:") and window.util_max_pm == 0 and not window.processes
    )
    unused = {IDLE, UNKNOWN} if is_unused_gpu else {IDLE}
    is_used = any(consumer not in unused for consumer, _ in window.shares)
    is_unusual = window.flags & (FLAG_BRIDGED | FLAG_RECOVERED | FLAG_MERGED)
    if is_used or is_unusual or not window.energy_mj or duration_us < _MIN_DURATION_US:
        return None
    return window.energy_mj * _MW_PER_MJ_PER_US // duration_us // BIN_MW


def percentile_mw(bins: Sequence[Tuple[int, int]], percent: int = 5) -> Optional[int]:
    """Return the percentile of ``(bin, count)`` in mW (the middle of its bin), None with too few
    windows. Pure.
    """
    total = sum(count for _, count in bins)
    if total < MIN_WINDOWS:
        return None
    cumulative = 0
    for index, count in sorted(bins):
        cumulative += count
        if cumulative * 100 >= total * percent:
            return index * BIN_MW + BIN_MW // 2
    return None


def record(database: sqlite3.Connection, windows: Sequence[Window]) -> None:
    """Count idle windows and delete expired days, inside the transaction that stores the
    windows.
    """
    for window in windows:
        bin_index, day = idle_bin(window), window.start_us // DAY_US
        if bin_index is None:
            continue
        database.execute(
            (
                "INSERT INTO idle VALUES (?,?,?,1) ON CONFLICT (device, day, bin) DO UPDATE SET "
                "windows = windows + 1"
            ),
            (window.device, day, bin_index),
        )
        database.execute(
            "DELETE FROM idle WHERE device = ? AND day <= ?", (window.device, day - DAYS)
        )


def estimated_mw(database: sqlite3.Connection) -> Dict[str, int]:
    """Return the idle power in mW by device, for devices with enough windows."""
    bins: Dict[str, List[Tuple[int, int]]] = {}
    for device, index, count in database.execute(
        "SELECT device, bin, SUM(windows) FROM idle GROUP BY device, bin"
    ):
        bins.setdefault(device, []).append((index, count))
    powers = {device: percentile_mw(device_bins) for device, device_bins in bins.items()}
    return {device: power_mw for device, power_mw in powers.items() if power_mw is not None}
