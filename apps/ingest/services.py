"""Storing a batch: one transaction, one answer per window. The same door for collectors, imports and declarations."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from uuid import UUID

from django.db import transaction

from apps.catalog.selectors import model_of
from apps.core.intervals import hours_touched
from apps.core.jobs import request_job
from apps.core.sql import bulk_insert
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.ingest import calc, selectors
from apps.ingest.calc import ClockFacts, WindowIn
from apps.ingest.choices import QUALITY_OF, ShareQuality
from apps.ingest.keys import consumer_ids, epoch_ids, known_devices
from apps.ingest.models import Batch, DeclaredGap, QuarantinedWindow
from apps.ingest.parsing import BatchIn, GapIn

Answer = list[str]
ACCEPTED, DUPLICATE = ["accepted"], ["duplicate"]


@dataclass(frozen=True)
class Stored:
    """A window that is about to be accepted, with all its numbers."""

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
class _Context:
    """What one batch needs to know, read once."""

    node: Node
    devices: dict[str, Device]
    epochs: dict[tuple[int, str], int]
    digests: dict[tuple[int, int], int]
    aside: dict[tuple[int, str, int, int], str]
    taken: dict[int, list[tuple[int, int]]]
    read: dict[int, list[tuple[int, int]]]
    shifts: dict[int, int | None]
    limits: dict[int, int | None]
    set_aside: list[tuple[WindowIn, int, str, int]] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)


@transaction.atomic
def accept_batch(*, node: Node, batch: BatchIn, received_us: int) -> list[Answer]:
    """Store a collector's batch and answer for each window, in order. Replaying it changes nothing."""
    header = batch.header
    clock = ClockFacts(received_us, header.sent_at, header.monotonic, header.boot)
    devices = known_devices(node, header.devices, header.device_facts)
    answers: list[Answer] = []
    allowed: list[WindowIn | None] = []
    for i, window in enumerate(batch.windows):
        refused = batch.refused.get(i, "")
        if window is not None and window.device not in devices:
            refused = "this node may not push for this device"
        elif window is not None and window.measurement not in calc.PUSHED_MEASUREMENTS:
            refused = "a collector cannot push this measurement"
        allowed.append(None if refused else window)
        answers.append(["rejected", refused] if refused else ["retry"])
    _store(node, devices, allowed, answers, clock, batch_uuid=header.batch, sent_us=header.sent_at, origin="")
    _store_gaps(header.gaps, header.devices, devices)
    Node.objects.filter(pk=node.pk).update(
        last_push_us=received_us, skew_us=calc.skew_us(received_us, header.sent_at), health=header.health
    )
    return answers


@transaction.atomic
def accept_declared(
    *, node: Node, device: Device, windows: list[WindowIn], batch_uuid: UUID, origin: str, now: int
) -> list[Answer]:
    """Store windows that a person or an import declares for a node without a collector. Same rules, same answers."""
    answers: list[Answer] = []
    allowed: list[WindowIn | None] = []
    for window in windows:
        reason = calc.problem(window)
        allowed.append(None if reason else window)
        answers.append(["rejected", reason] if reason else ["retry"])
    clock = ClockFacts(received_us=now, sent_us=now, sent_monotonic_us=-1, boot="\x00")
    _store(node, {device.key: device}, allowed, answers, clock, batch_uuid=batch_uuid, sent_us=None, origin=origin)
    return answers


def _store(
    node: Node,
    devices: dict[str, Device],
    windows: list[WindowIn | None],
    answers: list[Answer],
    clock: ClockFacts,
    *,
    batch_uuid: UUID,
    sent_us: int | None,
    origin: str,
) -> None:
    good = [window for window in windows if window is not None]
    if not good:
        return
    context = _read_context(node, devices, good)
    for i, window in enumerate(windows):
        if window is not None:
            answers[i] = _decide(context, window, clock)
    if not context.stored and not context.set_aside:
        return
    row = Batch.objects.create(
        node=node,
        uuid=batch_uuid,
        received_us=clock.received_us,
        sent_us=sent_us,
        skew_us=calc.skew_us(clock.received_us, sent_us) if sent_us is not None else None,
        windows=len(context.stored),
        origin=origin,
    )
    _write_windows(context, row)
    _write_set_aside(context, row)


def _read_context(node: Node, devices: dict[str, Device], windows: list[WindowIn]) -> _Context:
    used = {window.device for window in windows}
    ids = sorted(devices[key].pk for key in used)
    # Windows and the settling of a device's hours take turns (SQLite: the whole database does).
    list(Device.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk", flat=True))
    epochs = epoch_ids({(devices[window.device].pk, window.epoch) for window in windows})
    by_epoch: dict[int, list[int]] = defaultdict(list)
    by_device: dict[int, list[int]] = defaultdict(list)
    for window in windows:
        device_id = devices[window.device].pk
        by_epoch[epochs[device_id, window.epoch]].append(window.sequence)
        by_device[device_id] += (window.start_us, window.end_us)
    ranges = {device: (min(times), max(times)) for device, times in by_device.items()}
    return _Context(
        node=node,
        devices=devices,
        epochs=epochs,
        digests=selectors.digests({epoch: (min(seqs), max(seqs)) for epoch, seqs in by_epoch.items()}),
        aside=selectors.set_aside(ids, {window.sequence for window in windows}),
        taken=selectors.taken(ranges),
        read={device: [pair] for device, pair in ranges.items()},
        shifts={},
        limits={devices[key].pk: _limit_mw(devices[key]) for key in used},
    )


def _limit_mw(device: Device) -> int | None:
    if device.kind not in calc.DEFAULT_LIMIT_MW:
        return None
    model = model_of("cpu" if device.kind == DeviceKind.CPU else "gpu", device.name)
    return calc.power_limit_mw(device.kind, model.tdp_mw if model else None)


def _decide(context: _Context, window: WindowIn, clock: ClockFacts) -> Answer:
    device_id = context.devices[window.device].pk
    epoch_id = context.epochs[device_id, window.epoch]
    digest = calc.content_digest(window)
    known = context.digests.get((epoch_id, window.sequence))
    if known == digest:
        return DUPLICATE
    # The reply was lost: it stays set aside, though its time may be over or its clock right by now.
    decided = context.aside.get((device_id, window.epoch, window.sequence, digest))
    if decided is not None:
        return ["quarantined", decided]
    placed = calc.place(window, clock, lambda: _known_shift(context, epoch_id))
    start_us, end_us = window.start_us + placed.shift_us, window.end_us + placed.shift_us
    reason = placed.reason
    if known is not None:
        reason = "conflict"
    elif not reason and calc.impossible(window.energy_mj, end_us - start_us, context.limits[device_id]):
        reason = "impossible"
    taken = _taken_near(context, device_id, start_us, end_us)
    at = bisect_left(taken, (start_us, start_us))
    if not reason and calc.overlaps(taken, at, start_us, end_us):
        reason = "overlap"
    if reason:
        context.set_aside.append((window, device_id, reason, digest))
        context.aside[device_id, window.epoch, window.sequence, digest] = reason
        return ["quarantined", reason]
    insort(taken, (start_us, end_us))
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
            placed.quality,
            window.flags | placed.flags,
            placed.shift_us,
            digest,
        )
    )
    return ACCEPTED


def _taken_near(context: _Context, device_id: int, start_us: int, end_us: int) -> list[tuple[int, int]]:
    """Return the taken intervals of a device; those around a window that the clock rule moved far are read first."""
    taken = context.taken.setdefault(device_id, [])
    if any(low <= start_us and end_us <= high for low, high in context.read[device_id]):
        return taken
    wide = (start_us - US_PER_HOUR, end_us + US_PER_HOUR)
    context.read[device_id].append(wide)
    taken[:] = sorted({*taken, *selectors.taken({device_id: wide}).get(device_id, [])})
    return taken


def _known_shift(context: _Context, epoch_id: int) -> int | None:
    if epoch_id not in context.shifts:
        context.shifts[epoch_id] = selectors.last_clock_shift(epoch_id)
    return context.shifts[epoch_id]


def _write_windows(context: _Context, batch: Batch) -> None:
    rows = context.stored
    if not rows:
        return
    consumers = consumer_ids(context.node.lab, {key for row in rows for key, _ in row.window.shares})
    windows = [row.window for row in rows]
    measurements = [calc.MEASUREMENTS[window.measurement] for window in windows]
    count = len(rows)
    bulk_insert(
        "ingest_energywindow",
        {
            "epoch_id": ("bigint", [row.epoch_id for row in rows]),
            "sequence": ("bigint", [window.sequence for window in windows]),
            "device_id": ("bigint", [row.device_id for row in rows]),
            "node_id": ("bigint", [context.node.pk] * count),
            "batch_id": ("bigint", [batch.pk] * count),
            "start_us": ("bigint", [row.start_us for row in rows]),
            "end_us": ("bigint", [row.end_us for row in rows]),
            "energy_mj": ("bigint", [window.energy_mj for window in windows]),
            "counter_start": ("bigint", [window.counter_start for window in windows]),
            "counter_end": ("bigint", [window.counter_end for window in windows]),
            "measurement": ("smallint", measurements),
            "energy_quality": ("smallint", [int(QUALITY_OF[measurement]) for measurement in measurements]),
            "share_quality": ("smallint", [_share_quality(window) for window in windows]),
            "placement_quality": ("smallint", [int(row.placement_quality) for row in rows]),
            "flags": ("integer", [row.flags for row in rows]),
            "clock_shift_us": ("bigint", [row.shift_us for row in rows]),
            "util_mean_pm": ("smallint", [window.util_mean_pm for window in windows]),
            "util_max_pm": ("smallint", [window.util_max_pm for window in windows]),
            "mem_mean_mib": ("integer", [window.mem_mean_mib for window in windows]),
            "mem_max_mib": ("integer", [window.mem_max_mib for window in windows]),
            "processes": ("integer", [window.processes for window in windows]),
            "digest": ("bigint", [row.digest for row in rows]),
        },
    )
    shares = [(row, key, energy_mj) for row in rows for key, energy_mj in row.window.shares]
    if shares:
        bulk_insert(
            "ingest_windowshare",
            {
                "epoch_id": ("bigint", [row.epoch_id for row, _, _ in shares]),
                "sequence": ("bigint", [row.window.sequence for row, _, _ in shares]),
                "consumer_id": ("bigint", [consumers[key] for _, key, _ in shares]),
                "energy_mj": ("bigint", [energy_mj for _, _, energy_mj in shares]),
            },
        )
    mark_dirty(context.node, {(row.device_id, hour) for row in rows for hour in hours_touched(row.start_us, row.end_us)})


def _share_quality(window: WindowIn) -> int:
    used = sum(1 for _, energy_mj in window.shares if energy_mj)
    return int(ShareQuality.WHOLE if used <= 1 else ShareQuality.SPLIT)


def mark_dirty(node: Node, hours: Iterable[tuple[int, int]]) -> None:
    """Note the (device id, hour)s to settle and ask for the job, in the caller's transaction."""
    ordered = sorted(hours)
    bulk_insert(
        "ingest_dirtyhour",
        {"device_id": ("bigint", [device for device, _ in ordered]), "hour": ("bigint", [hour for _, hour in ordered])},
        on_conflict="ON CONFLICT DO NOTHING",
    )
    request_job(kind="energy.settle", key=str(node.pk))


def _write_set_aside(context: _Context, batch: Batch) -> None:
    QuarantinedWindow.objects.bulk_create(
        [
            QuarantinedWindow(
                device_id=device_id,
                node=context.node,
                batch=batch,
                epoch_key=window.epoch,
                sequence=window.sequence,
                reason=reason,
                energy_mj=window.energy_mj,
                digest=digest,
                content=asdict(window),
            )
            for window, device_id, reason, digest in context.set_aside
        ],
        ignore_conflicts=True,
    )


def _store_gaps(gaps: list[GapIn], keys: list[str], devices: dict[str, Device]) -> None:
    rows = [
        DeclaredGap(
            device=devices[keys[gap.device]],
            epoch_key=gap.epoch[:200],
            from_us=gap.start,
            to_us=gap.end,
            reason=gap.reason[:32],
        )
        for gap in gaps
        if 0 <= gap.device < len(keys) and keys[gap.device] in devices and gap.end >= gap.start
    ]
    DeclaredGap.objects.bulk_create(rows, ignore_conflicts=True)
