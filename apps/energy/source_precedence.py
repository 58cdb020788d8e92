"""Collectors take precedence over trackers, minute by minute. Pure.

The window of a tracker is unchanged. The ledger excludes the part that a collector also measured.
The rule applies per node, component (GPU, CPU, memory) and whole UTC minute. If a collector
measured the component in a minute, only the collector counts. The rule depends only on windows, so
their order of arrival has no effect.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from apps.core.intervals import merge_intervals, split_by_hour
from apps.core.units import US_PER_HOUR
from apps.energy.ledger_entries import EntryKey, ShareRow
from apps.fleet.choices import DeviceKind
from apps.ingest.choices import PlacementQuality

US_PER_MINUTE = 60_000_000
COMPONENT = "component"  # in a device's facts: the component that a tracker reported
KINDS_OF = {
    "gpu": (DeviceKind.GPU, DeviceKind.MIG),
    "cpu": (DeviceKind.CPU,),
    "ram": (DeviceKind.DRAM,),
}
SUPERSEDING = frozenset(kind for kinds in KINDS_OF.values() for kind in kinds)


def whole_minutes(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the UTC minutes that ``intervals`` (µs) touch, as disjoint intervals in order."""
    return list(
        merge_intervals(
            (start // US_PER_MINUTE * US_PER_MINUTE, -(-end // US_PER_MINUTE) * US_PER_MINUTE)
            for start, end in intervals
            if start < end
        )
    )


def superseded_mj(
    energy_mj: int, start_us: int, end_us: int, minutes: Sequence[tuple[int, int]]
) -> int:
    """Return the part of ``energy_mj``, spread evenly over ``[start_us, end_us)``, that falls in
    ``minutes`` (disjoint).

    Floors of one running sum: the superseded and the remaining part add up to the total for all
    cuts.
    """
    length = end_us - start_us

    def until(time_us: int) -> int:
        return energy_mj * (min(max(time_us, start_us), end_us) - start_us) // length

    return sum(until(end) - until(start) for start, end in minutes)


def remaining_energy(
    shares: Iterable[ShareRow],
    hours: frozenset[int],
    minutes_of: Mapping[int, Sequence[tuple[int, int]]],
) -> dict[EntryKey, int]:
    """Return the remaining ledger energy of a tracker's windows. ``minutes_of``: node id → minutes
    of the collector.

    An hour without remaining energy has no entry.
    """
    result: dict[EntryKey, int] = defaultdict(int)
    for share in shares:
        for hour, part in split_by_hour(
            share.energy_mj, share.start_us, share.end_us, hours
        ).items():
            start_us = max(share.start_us, hour * US_PER_HOUR)
            end_us = min(share.end_us, (hour + 1) * US_PER_HOUR)
            away = [
                (a, b) for a, b in minutes_of.get(share.node_id, ()) if a < end_us and b > start_us
            ]
            stays = part - superseded_mj(part, start_us, end_us, away)
            if stays or not away:
                placement = int(PlacementQuality.IMPUTED) if away else share.placement_quality
                key = EntryKey(
                    hour,
                    share.node_id,
                    share.consumer_id,
                    share.energy_quality,
                    share.share_quality,
                    placement,
                )
                result[key] += stays
    return result
