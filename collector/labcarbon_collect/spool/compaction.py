"""Compaction of a full spool: adjacent windows are merged. Energy and shares are exact, resolution
is lost.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from labcarbon_collect.energy.windows import HOUR_US, Window
from labcarbon_collect.sources.base import FLAG_MERGED
from labcarbon_collect.spool.schema import pack_window, unpack_window

MINUTE_US = 60_000_000
BUCKETS_US = (10 * MINUTE_US, HOUR_US)
_CHUNK = 5_000
_Row = Tuple[int, Window]


def merge_windows(windows: Sequence[Window]) -> Window:
    """Merge adjacent windows of one device and epoch into one with the first sequence. Pure."""
    first, last = windows[0], windows[-1]
    shares: Dict[str, int] = {}
    for window in windows:
        for consumer, energy_mj in window.shares:
            shares[consumer] = shares.get(consumer, 0) + energy_mj
    flags = FLAG_MERGED
    for window in windows:
        flags |= window.flags
    return replace(
        first,
        end_us=last.end_us,
        mono_end_us=last.mono_end_us,
        counter_end_mj=last.counter_end_mj,
        energy_mj=sum(window.energy_mj for window in windows),
        flags=flags,
        util_mean_pm=_mean([(w.util_mean_pm, w.end_us - w.start_us) for w in windows]),
        util_max_pm=_highest([w.util_max_pm for w in windows]),
        mem_mean_mib=_mean([(w.mem_mean_mib, w.end_us - w.start_us) for w in windows]),
        mem_max_mib=_highest([w.mem_max_mib for w in windows]),
        processes=max(window.processes for window in windows),
        shares=tuple(sorted(shares.items())),
    )


def are_adjacent(before: Window, after: Window, bucket_us: int) -> bool:
    """Whether two windows can be merged within buckets of ``bucket_us``: nothing between them, same
    bucket.
    """
    return (
        (before.device, before.epoch, before.measurement)
        == (after.device, after.epoch, after.measurement)
        and before.end_us == after.start_us
        and before.counter_end_mj == after.counter_start_mj
        and before.start_us // bucket_us == (after.end_us - 1) // bucket_us
    )


def merge_spool(
    database: sqlite3.Connection, *, bucket_us: int, before_us: int, max_rows: int
) -> int:
    """Merge within buckets that ended before ``before_us``. Returns the rows freed, about
    ``max_rows``. Run in a transaction.

    Windows that were ever sent are not merged: the server may know them by their identity.
    """
    freed = 0
    names = dict(database.execute("SELECT id, text FROM name"))
    for device, epoch in database.execute("SELECT DISTINCT device, epoch FROM window").fetchall():
        group: List[_Row] = []
        for row_id, window in _rows(database, (device, epoch), names, before_us):
            if group and not are_adjacent(group[-1][1], window, bucket_us):
                freed += _replace(database, group)
                group = []
                if freed >= max_rows:
                    return freed
            group.append((row_id, window))
        freed += _replace(database, group)
    return freed


def _rows(
    database: sqlite3.Connection, key: Tuple[int, int], names: Dict[int, str], before_us: int
) -> Iterator[_Row]:
    after_seq = -1
    while True:
        rows = database.execute(
            "SELECT id, seq, start_us, end_us, energy_mj, body FROM window WHERE device = ? AND "
            "epoch = ? "
            "AND sent = 0 AND end_us <= ? AND seq > ? ORDER BY seq LIMIT ?",
            (*key, before_us, after_seq, _CHUNK),
        ).fetchall()
        for row in rows:
            yield row[0], unpack_window(names[key[0]], names[key[1]], row[1:])
        if len(rows) < _CHUNK:
            return
        after_seq = rows[-1][1]


def _replace(database: sqlite3.Connection, group: List[_Row]) -> int:
    if len(group) < 2:
        return 0
    window = merge_windows([window for _, window in group])
    database.executemany("DELETE FROM window WHERE id = ?", [(row_id,) for row_id, _ in group[1:]])
    row: Tuple[Any, ...] = (window.end_us, window.energy_mj, pack_window(window), group[0][0])
    database.execute("UPDATE window SET end_us = ?, energy_mj = ?, body = ? WHERE id = ?", row)
    return len(group) - 1


def _mean(values: Sequence[Tuple[Optional[int], int]]) -> Optional[int]:
    present = [(value, weight) for value, weight in values if value is not None]
    weights = sum(weight for _, weight in present)
    return sum(value * weight for value, weight in present) // weights if weights else None


def _highest(values: Sequence[Optional[int]]) -> Optional[int]:
    present = [value for value in values if value is not None]
    return max(present) if present else None
