"""Classify a window: accepted, duplicate, or quarantined with a reason."""

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field

from apps.catalog.selectors import model_of
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.ingest import selectors, window_rules
from apps.ingest.choices import PlacementQuality
from apps.ingest.services.lookups import epoch_ids
from apps.ingest.window_rules import ClockFacts, WindowIn

Result = list[str]
ACCEPTED, DUPLICATE = ["accepted"], ["duplicate"]


@dataclass(frozen=True)
class Stored:
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


@dataclass
class BatchContext:
    """Stored data for the classification of one batch, read once."""

    node: Node
    devices: dict[str, Device]
    epochs: dict[tuple[int, str], int]
    digests: dict[tuple[int, int], int]
    quarantined: dict[tuple[int, str, int, int], str]
    occupied_intervals: dict[int, list[tuple[int, int]]]
    read: dict[int, list[tuple[int, int]]]
    shifts: dict[int, int | None]
    limits: dict[int, int | None]
    quarantine_reasons: list[tuple[WindowIn, int, str, int]] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)


def read_context(node: Node, devices: dict[str, Device], windows: list[WindowIn]) -> BatchContext:
    used = {window.device for window in windows}
    ids = sorted(devices[key].pk for key in used)
    # These locks exclude the settle job of the devices (in SQLite: all writers).
    list(
        Device.objects.select_for_update(no_key=True)
        .filter(pk__in=ids)
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    epochs = epoch_ids({(devices[window.device].pk, window.epoch) for window in windows})
    by_epoch: dict[int, list[int]] = defaultdict(list)
    by_device: dict[int, list[int]] = defaultdict(list)
    for window in windows:
        device_id = devices[window.device].pk
        by_epoch[epochs[device_id, window.epoch]].append(window.sequence)
        by_device[device_id] += (window.start_us, window.end_us)
    ranges = {device: (min(times), max(times)) for device, times in by_device.items()}
    return BatchContext(
        node=node,
        devices=devices,
        epochs=epochs,
        digests=selectors.digests(
            {epoch: (min(seqs), max(seqs)) for epoch, seqs in by_epoch.items()}
        ),
        quarantined=selectors.quarantine_reasons(ids, {window.sequence for window in windows}),
        occupied_intervals=selectors.occupied_intervals(ranges),
        read={device: [pair] for device, pair in ranges.items()},
        shifts={},
        limits={devices[key].pk: _limit_mw(devices[key]) for key in used},
    )


def _limit_mw(device: Device) -> int | None:
    if device.kind not in window_rules.DEFAULT_LIMIT_MW:
        return None
    model = model_of("cpu" if device.kind == DeviceKind.CPU else "gpu", device.name)
    return window_rules.power_limit_mw(device.kind, model.tdp_mw if model else None)


def decide(context: BatchContext, window: WindowIn, clock: ClockFacts) -> Result:
    device_id = context.devices[window.device].pk
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
    placed = window_rules.place(window, clock, lambda: _known_shift(context, epoch_id))
    start_us, end_us = window.start_us + placed.shift_us, window.end_us + placed.shift_us
    reason = placed.reason
    if known is not None:
        reason = "conflict"
    elif not reason and window_rules.impossible(
        window.energy_mj, end_us - start_us, context.limits[device_id]
    ):
        reason = "impossible"
    occupied_intervals = _occupied_near(context, device_id, start_us, end_us)
    at = bisect_left(occupied_intervals, (start_us, start_us))
    if not reason and window_rules.overlaps(occupied_intervals, at, start_us, end_us):
        reason = "overlap"
    if reason:
        context.quarantine_reasons.append((window, device_id, reason, digest))
        context.quarantined[device_id, window.epoch, window.sequence, digest] = reason
        return ["quarantined", reason]
    insort(occupied_intervals, (start_us, end_us))
    context.digests[epoch_id, window.sequence] = digest
    if placed.shift_us:
        context.shifts[epoch_id] = placed.shift_us
    context.stored.append(
        Stored(
            window,
            device_id,
            epoch_id,
            start_us,
            end_us,
            PlacementQuality.IMPUTED if window.imputed else placed.quality,
            window.flags | placed.flags,
            placed.shift_us,
            digest,
        )
    )
    return ACCEPTED


def _occupied_near(
    context: BatchContext, device_id: int, start_us: int, end_us: int
) -> list[tuple[int, int]]:
    """Return the occupied intervals of a device. Reads those around a window with a large shift
    first.
    """
    occupied_intervals = context.occupied_intervals.setdefault(device_id, [])
    if any(low <= start_us and end_us <= high for low, high in context.read[device_id]):
        return occupied_intervals
    wide = (start_us - US_PER_HOUR, end_us + US_PER_HOUR)
    context.read[device_id].append(wide)
    occupied_intervals[:] = sorted(
        {*occupied_intervals, *selectors.occupied_intervals({device_id: wide}).get(device_id, [])}
    )
    return occupied_intervals


def _known_shift(context: BatchContext, epoch_id: int) -> int | None:
    if epoch_id not in context.shifts:
        context.shifts[epoch_id] = selectors.last_clock_shift(epoch_id)
    return context.shifts[epoch_id]
