"""Ledger entries from windows. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from apps.core.intervals import merge_intervals, split_by_hour
from apps.core.units import US_PER_HOUR, US_PER_S, largest_remainder
from apps.ingest.choices import PlacementQuality


@dataclass(frozen=True)
class EntryKey:
    """The key of a ledger entry, without its device."""

    hour: int
    node_id: int
    consumer_id: int
    energy_quality: int
    share_quality: int
    placement_quality: int


@dataclass(frozen=True)
class ShareRow:
    """A share of a window that spans hours, or of any window of a tracker."""

    start_us: int
    end_us: int
    node_id: int
    consumer_id: int
    energy_quality: int
    share_quality: int
    energy_mj: int
    placement_quality: int = int(PlacementQuality.IMPUTED)


def spread(shares: Iterable[ShareRow], hours: frozenset[int]) -> dict[EntryKey, int]:
    """Divide shares of windows that span hours by duration, IMPUTED. Return the parts in ``hours``.

    The parts of a share over all its hours sum to the share exactly, independent of ``hours``.
    """
    result: dict[EntryKey, int] = defaultdict(int)
    for share in shares:
        for hour, part in split_by_hour(
            share.energy_mj, share.start_us, share.end_us, hours
        ).items():
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
    """Return ``hours`` as half-open intervals."""
    intervals: list[tuple[int, int]] = []
    for hour in sorted(set(hours)):
        if intervals and intervals[-1][1] == hour:
            intervals[-1] = (intervals[-1][0], hour + 1)
        else:
            intervals.append((hour, hour + 1))
    return intervals


def covered_us(intervals: Iterable[tuple[int, int]], hour: int) -> int:
    """Return how many µs of ``hour`` the union of ``intervals`` covers."""
    start_us, end_us = hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR
    clipped = ((max(start, start_us), min(end, end_us)) for start, end in intervals)
    return sum(
        end - start for start, end in merge_intervals(part for part in clipped if part[0] < part[1])
    )


def overhead_mj(static_power_mw: int, covered: int, inner_mj: int) -> int:
    """Return the modelled node overhead over ``covered`` µs: static power minus the energy of
    CPU and DRAM meters, at least 0.
    """
    return max(0, static_power_mw * covered // US_PER_S - inner_mj)


SHARES = 1_000_000


@dataclass(frozen=True)
class IdleSpan:
    """A period with one policy for idle energy: a month of the lab, or a part of one."""

    from_hour: int
    to_hour: int
    policy: str


def idle_spans(
    *, policies: Sequence[tuple[int, str]], months: Sequence[tuple[int, int]], visible: str
) -> list[IdleSpan]:
    """Cut ``months`` (half-open, in whole hours) at changes of the policy. Leave out periods with
    ``visible``.

    ``policies``: (from_hour, policy). The last one at or before an hour is valid. Before the first,
    ``visible`` is.
    """
    ordered = sorted(policies)
    idle_periods = []
    for month_from, month_to in months:
        edges = sorted(
            {month_from, month_to, *(hour for hour, _ in ordered if month_from < hour < month_to)}
        )
        for start, end in pairwise(edges):
            visible_policies = [policy for hour, policy in ordered if hour <= start]
            if visible_policies and visible_policies[-1] != visible:
                idle_periods.append(IdleSpan(start, end, visible_policies[-1]))
    return idle_periods


def month_edges(first_hour: int, end_hour: int, zone: ZoneInfo) -> list[tuple[int, int]]:
    """Return the months of ``zone`` that touch ``[first_hour, end_hour)``, each from the first
    whole UTC hour in it.
    """
    month_start = datetime.fromtimestamp(first_hour * 3600, tz=zone)
    year, month = month_start.year, month_start.month
    edges: list[int] = []
    while not edges or edges[-1] < end_hour:
        moment = datetime(year, month, 1, tzinfo=zone)
        edges.append(-(-int(moment.timestamp()) // 3600))
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    return list(pairwise(edges))


def cumulative(weights: dict[int, int]) -> list[tuple[int, int, int]]:
    """Return (key, low, high): the part of SHARES of each key by weight, sorted by key. Empty if
    all weights are 0.
    """
    keys = sorted(key for key, weight in weights.items() if weight > 0)
    parts = largest_remainder(SHARES, [weights[key] for key in keys]) if keys else []
    ranges, low = [], 0
    for key, part in zip(keys, parts, strict=True):
        if part:
            ranges.append((key, low, low + part))
        low += part
    return ranges
