"""Classify a window: accepted, duplicate, or quarantined with a reason."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from apps.catalog.selectors import model_of
from apps.core.sql import lock_rows
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.ingest import sealed_selectors, selectors, window_rules
from apps.ingest.choices import PlacementQuality
from apps.ingest.placement import (
    AGREEMENT_US,
    BatchClocks,
    BootOffset,
    Candidates,
    Placed,
    boot_of,
    candidates,
    imputed,
    is_running_boot,
    place_declared,
)
from apps.ingest.sealed_selectors import SealedLimits
from apps.ingest.selectors import FormerOwner, OverlappingWindow
from apps.ingest.services.lookups import epoch_ids
from apps.ingest.window_rules import WindowIn

Result = list[str]
ACCEPTED, DUPLICATE = ["accepted"], ["duplicate"]
MIN_TRIMMED_US = US_PER_S
PENDING_MOVE = "pending_move"
SEALED = "sealed"
MOVE_TOLERANCE_US = 300 * US_PER_S  # clocks of two nodes and lengths of windows


class Stored(NamedTuple):
    """An accepted window with its stored values."""

    window: WindowIn
    device_id: int
    epoch_id: int
    start_us: int
    end_us: int
    placement_quality: int
    flags: int
    shift_us: int
    digest: int


@dataclass(frozen=True)
class Quarantined:
    """A window that is not accepted, with its reason and possible times."""

    window: WindowIn
    device_id: int
    reason: str
    digest: int
    possible: tuple[Placed, ...]


@dataclass
class BatchContext:
    """Stored data for the classification of one batch, read once."""

    node: Node
    devices: dict[str, Device]
    device_ids: dict[str, int]
    epochs: dict[tuple[int, str], int]
    digests: dict[tuple[int, int], int]
    quarantined: dict[tuple[int, str, int, int], str]
    occupied_intervals: dict[int, list[tuple[int, int]]]
    read: dict[int, list[tuple[int, int]]]
    limits: dict[int, int | None]
    sealed: SealedLimits
    unreadable: set[tuple[int, int]]  # keys that a damaged part of the archive may contain
    clocks: BatchClocks | None  # None: declared windows
    received_us: int
    boot_offsets: dict[str, BootOffset]
    former_owners: dict[int, FormerOwner | None]  # devices of other nodes; None: never this node's
    possible: dict[tuple[str, int, int], Candidates]  # times known from an earlier examination
    changed_boots: set[str] = field(default_factory=set)
    quarantine_reasons: list[Quarantined] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    returned: set[int] = field(default_factory=set)  # moves that this batch contradicts

    def candidates(self, window: WindowIn, digest: int) -> Candidates:
        """Return the possible times of a window."""
        known = self.possible.get((window.epoch, window.sequence, digest))
        if known is not None:
            return known
        if self.clocks is None:
            return place_declared(window, self.received_us)
        return candidates(window, self.clocks, self.boot_offsets.get(boot_of(window.epoch)))

    def note_placed(self, window: WindowIn, placed: Placed) -> None:
        """Remember the offset of the running boot by its latest window."""
        if self.clocks is None or not is_running_boot(window, self.clocks):
            return
        boot, offset_us = boot_of(window.epoch), placed.end_us - window.mono_end_us
        known = self.boot_offsets.get(boot)
        is_outdated = known is not None and (
            abs(known.offset_us - self.clocks.offset_us) >= AGREEMENT_US
        )
        if known is None or is_outdated or window.mono_end_us > known.monotonic_us:
            self.boot_offsets[boot] = BootOffset(window.mono_end_us, offset_us)
            self.changed_boots.add(boot)


def read_context(
    node: Node,
    devices: dict[str, Device],
    windows: list[WindowIn],
    clocks: BatchClocks | None,
    received_us: int,
    *,
    former_owners: Mapping[int, FormerOwner | None],
    possible: Mapping[tuple[str, int, int], Candidates] = MappingProxyType({}),
) -> BatchContext:
    device_ids = {key: devices[key].pk for key in {window.device for window in windows}}
    ids = sorted(device_ids.values())
    # These locks exclude the settle job of the devices (in SQLite: all writers).
    lock_rows("fleet_device", ids)
    epochs = epoch_ids({(device_ids[window.device], window.epoch) for window in windows})
    by_epoch: dict[int, list[int]] = defaultdict(list)
    by_device: dict[int, list[int]] = defaultdict(list)
    for window in windows:
        device_id = device_ids[window.device]
        by_epoch[epochs[device_id, window.epoch]].append(window.sequence)
        by_device[device_id] += (window.start_us, window.end_us)
    ranges = {device: (min(times), max(times)) for device, times in by_device.items()}
    sealed = sealed_selectors.sealed_limits(node.pk, ids, sorted(by_epoch))
    archived, unreadable = _archived_digests(sealed, by_epoch)
    return BatchContext(
        node=node,
        devices=devices,
        device_ids=device_ids,
        epochs=epochs,
        digests=archived
        | selectors.digests({epoch: (min(seqs), max(seqs)) for epoch, seqs in by_epoch.items()}),
        quarantined=selectors.quarantine_reasons(ids, {window.sequence for window in windows}),
        occupied_intervals=selectors.occupied_intervals(ranges),
        read={device: [pair] for device, pair in ranges.items()},
        limits={device_id: _limit_mw(devices[key]) for key, device_id in device_ids.items()},
        sealed=sealed,
        unreadable=unreadable,
        clocks=clocks,
        received_us=received_us,
        boot_offsets={}
        if clocks is None
        else selectors.boot_offsets(node, {boot_of(window.epoch) for window in windows}),
        former_owners=dict(former_owners),
        possible=dict(possible),
    )


def _archived_digests(
    sealed: SealedLimits, sequences: Mapping[int, list[int]]
) -> tuple[dict[tuple[int, int], int], set[tuple[int, int]]]:
    """Return the digests of the windows that are archived, and the keys of unreadable ones."""
    old: dict[int, set[int]] = {}
    for epoch, numbers in sequences.items():
        latest = sealed.sequences.get(epoch)
        if latest is not None and (wanted := {number for number in numbers if number <= latest}):
            old[epoch] = wanted
    return sealed_selectors.archived_digests(old) if old else ({}, set())


_CATALOGUE_KINDS: dict[str, str] = {
    DeviceKind.CPU: "cpu",
    DeviceKind.GPU: "gpu",
    DeviceKind.MIG: "gpu",
}


def _limit_mw(device: Device) -> int | None:
    if device.kind not in window_rules.DEFAULT_LIMIT_MW:
        return None
    kind = _CATALOGUE_KINDS.get(device.kind)
    model = model_of(kind, device.name) if kind else None
    return window_rules.power_limit_mw(device.kind, model.tdp_mw if model else None)


def decide(context: BatchContext, window: WindowIn) -> Result:
    device_id = context.device_ids[window.device]
    epoch_id = context.epochs[device_id, window.epoch]
    digest = window_rules.content_digest(window)
    known = context.digests.get((epoch_id, window.sequence))
    if known == digest:
        return DUPLICATE
    # The response was lost: the window stays quarantined, even if its time or clock is plausible
    # now.
    decided = context.quarantined.get((device_id, window.epoch, window.sequence, digest))
    if decided is not None:
        return ["quarantined", decided]
    possible = context.candidates(window, digest)
    if possible.times and not _may_write(context, device_id, possible.times[0].end_us):
        placed, reason = None, PENDING_MOVE
    else:
        placed, reason = _place(context, window, device_id, epoch_id, possible)
    if known is not None:
        reason = "conflict"
    elif (epoch_id, window.sequence) in context.unreadable:
        reason = SEALED
    elif reason in ("", "overlap", SEALED) and window_rules.impossible(
        window.energy_mj, window.measured_us, context.limits[device_id]
    ):
        reason = "impossible"
    if reason or placed is None:
        context.quarantine_reasons.append(
            Quarantined(window, device_id, reason, digest, possible.times)
        )
        context.quarantined[device_id, window.epoch, window.sequence, digest] = reason
        return ["quarantined", reason]
    insort(context.occupied_intervals[device_id], (placed.start_us, placed.end_us))
    context.digests[epoch_id, window.sequence] = digest
    context.note_placed(window, placed)
    context.stored.append(
        Stored(
            window,
            device_id,
            epoch_id,
            placed.start_us,
            placed.end_us,
            PlacementQuality.IMPUTED if window.imputed else placed.quality,
            window.flags | placed.flags,
            placed.end_us - window.end_us,
            digest,
        )
    )
    return ACCEPTED


def _may_write(context: BatchContext, device_id: int, end_us: int) -> bool:
    """Return whether the node may add windows of a device that end at ``end_us``.

    It may for its own devices, and for a former one: before the move as late data, after the move
    because the device is evidently still there, which withdraws the move.
    """
    if device_id not in context.former_owners:
        return True
    former = context.former_owners[device_id]
    if former is None:
        return False
    if end_us <= former.until_us + MOVE_TOLERANCE_US:
        return True
    if former.move_id is None:
        return False
    context.returned.add(former.move_id)
    return True


def _place(
    context: BatchContext, window: WindowIn, device_id: int, epoch_id: int, possible: Candidates
) -> tuple[Placed | None, str]:
    """Return the first possible time that no other window occupies, or the reason why there is
    none.
    """
    for placed in possible.times:
        if context.sealed.is_sealed(device_id, placed.start_us, placed.end_us):
            return None, SEALED
        occupied = _occupied_near(context, device_id, placed.start_us, placed.end_us)
        at = bisect_left(occupied, (placed.start_us, placed.start_us))
        if not window_rules.overlaps(occupied, at, placed.start_us, placed.end_us):
            return placed, ""
        trimmed = _trimmed(context, window, placed, device_id, epoch_id)
        if trimmed is not None:
            return trimmed, ""
    return None, possible.reason or "overlap"


def _trimmed(
    context: BatchContext, window: WindowIn, placed: Placed, device_id: int, epoch_id: int
) -> Placed | None:
    """Return ``placed`` without the time of its neighbours.

    None if too little remains, or if a neighbour may contain the same energy: one of another epoch,
    or with common counter readings.
    """
    if window.counter_start is None or window.counter_end is None:
        return None
    start_us, end_us = placed.start_us, placed.end_us
    for other in _overlapping(context, device_id, start_us, end_us):
        if other.epoch_id != epoch_id or other.counter_start is None or other.counter_end is None:
            return None
        if other.counter_end <= window.counter_start and other.sequence < window.sequence:
            start_us = max(start_us, other.end_us)
        elif other.counter_start >= window.counter_end and other.sequence > window.sequence:
            end_us = min(end_us, other.start_us)
        else:
            return None
    return imputed(start_us, end_us) if end_us - start_us >= MIN_TRIMMED_US else None


def _overlapping(
    context: BatchContext, device_id: int, start_us: int, end_us: int
) -> list[OverlappingWindow]:
    """Return the windows of a device that overlap a time: stored ones, and those of this batch."""
    own = [
        OverlappingWindow(
            row.epoch_id,
            row.window.sequence,
            row.start_us,
            row.end_us,
            row.window.counter_start,
            row.window.counter_end,
        )
        for row in context.stored
        if row.device_id == device_id and row.start_us < end_us and row.end_us > start_us
    ]
    return own + selectors.overlapping_windows(device_id, start_us, end_us)


def _occupied_near(
    context: BatchContext, device_id: int, start_us: int, end_us: int
) -> list[tuple[int, int]]:
    """Return the occupied intervals of a device. Reads those around a window with a large shift
    first.
    """
    occupied_intervals = context.occupied_intervals.setdefault(device_id, [])
    for low, high in context.read[device_id]:
        if low <= start_us and end_us <= high:
            return occupied_intervals
    wide = (start_us - US_PER_HOUR, end_us + US_PER_HOUR)
    context.read[device_id].append(wide)
    occupied_intervals[:] = sorted(
        {*occupied_intervals, *selectors.occupied_intervals({device_id: wide}).get(device_id, [])}
    )
    return occupied_intervals
