"""From windows to ledger entries. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from apps.core.intervals import merged, split_by_hour
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.ingest.choices import PlacementQuality


@dataclass(frozen=True)
class EntryKey:
    """What a ledger entry is the sum of, beside its device."""

    hour: int
    node_id: int
    consumer_id: int
    energy_quality: int
    share_quality: int
    placement_quality: int


@dataclass(frozen=True)
class ShareRow:
    """One share of one window that spans hours."""

    start_us: int
    end_us: int
    node_id: int
    consumer_id: int
    energy_quality: int
    share_quality: int
    energy_mj: int


def spread(shares: Iterable[ShareRow], hours: frozenset[int]) -> dict[EntryKey, int]:
    """Divide shares of windows that span hours by duration, IMPUTED; return the parts that fall in ``hours``.

    Each share's parts over all its hours sum to the share exactly, whichever hours are asked for in which order.
    """
    result: dict[EntryKey, int] = defaultdict(int)
    for share in shares:
        for hour, part in split_by_hour(share.energy_mj, share.start_us, share.end_us).items():
            if hour in hours:
                key = EntryKey(
                    hour,
                    share.node_id,
                    share.consumer_id,
                    share.energy_quality,
                    share.share_quality,
                    int(PlacementQuality.IMPUTED),
                )
                result[key] += part
    return result


def runs_of_hours(hours: Iterable[int]) -> list[tuple[int, int]]:
    """Return ``hours`` as half-open stretches of neighbours."""
    stretches: list[tuple[int, int]] = []
    for hour in sorted(set(hours)):
        if stretches and stretches[-1][1] == hour:
            stretches[-1] = (stretches[-1][0], hour + 1)
        else:
            stretches.append((hour, hour + 1))
    return stretches


def covered_us(intervals: Iterable[tuple[int, int]], hour: int) -> int:
    """Return how many µs of ``hour`` the union of ``intervals`` covers."""
    start_us, end_us = hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR
    clipped = ((max(start, start_us), min(end, end_us)) for start, end in intervals)
    return sum(end - start for start, end in merged(part for part in clipped if part[0] < part[1]))


def overhead_mj(static_power_mw: int, covered: int, inner_mj: int) -> int:
    """Return the modelled energy of the rest of a node over ``covered`` µs: static power minus what inner CPU and DRAM
    meters already hold, never below zero."""
    return max(0, static_power_mw * covered // US_PER_S - inner_mj)
