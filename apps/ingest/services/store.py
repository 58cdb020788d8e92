"""Bulk writes of a batch."""

from collections.abc import Iterable
from dataclasses import asdict

from apps.core.intervals import hours_touched
from apps.core.jobs import enqueue
from apps.core.sql import bulk_insert
from apps.fleet.models import Device, Node
from apps.ingest import window_rules
from apps.ingest.choices import QUALITY_OF, ShareQuality
from apps.ingest.models import Batch, BootClock, DeclaredGap, QuarantinedWindow
from apps.ingest.parsing import GapIn
from apps.ingest.services.classify import BatchContext
from apps.ingest.services.lookups import consumer_ids
from apps.ingest.window_rules import WindowIn


def write_windows(context: BatchContext, batch: Batch) -> None:
    rows = context.stored
    if not rows:
        return
    consumers = consumer_ids(
        context.node.lab, {key for row in rows for key, _ in row.window.shares}
    )
    windows = [row.window for row in rows]
    measurements = [window_rules.MEASUREMENTS[window.measurement] for window in windows]
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
            "energy_quality": (
                "smallint",
                [int(QUALITY_OF[measurement]) for measurement in measurements],
            ),
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
    mark_dirty(
        context.node,
        {(row.device_id, hour) for row in rows for hour in hours_touched(row.start_us, row.end_us)},
    )
    for owner_id in {device.node_id for device in context.devices.values()} - {context.node.pk}:
        enqueue(kind="energy.settle", key=str(owner_id))  # the owner settles hours of its devices


def _share_quality(window: WindowIn) -> int:
    used = sum(1 for _, energy_mj in window.shares if energy_mj)
    return int(ShareQuality.SPLIT if used > 1 or window.split else ShareQuality.WHOLE)


def mark_dirty(node: Node, hours: Iterable[tuple[int, int]]) -> None:
    """Mark (device id, hour)s as dirty and enqueue the job, in the caller's transaction."""
    ordered = sorted(hours)
    bulk_insert(
        "ingest_dirtyhour",
        {
            "device_id": ("bigint", [device for device, _ in ordered]),
            "hour": ("bigint", [hour for _, hour in ordered]),
        },
        on_conflict="ON CONFLICT DO NOTHING",
    )
    enqueue(kind="energy.settle", key=str(node.pk))


def write_quarantined(context: BatchContext, batch: Batch) -> None:
    QuarantinedWindow.objects.bulk_create(
        [
            QuarantinedWindow(
                device_id=row.device_id,
                node=context.node,
                batch=batch,
                epoch_key=row.window.epoch,
                sequence=row.window.sequence,
                reason=row.reason,
                energy_mj=row.window.energy_mj,
                digest=row.digest,
                content=asdict(row.window),
                possible=[
                    [placed.start_us, placed.end_us, int(placed.quality), placed.flags]
                    for placed in row.possible
                ],
            )
            for row in context.quarantine_reasons
        ],
        ignore_conflicts=True,
    )


def write_boot_clocks(context: BatchContext) -> None:
    """Store the offsets of boots that this batch changed."""
    if not context.changed_boots:
        return
    BootClock.objects.bulk_create(
        [
            BootClock(
                node=context.node,
                boot=boot,
                monotonic_us=context.boot_offsets[boot].monotonic_us,
                offset_us=context.boot_offsets[boot].offset_us,
            )
            for boot in sorted(context.changed_boots)
        ],
        update_conflicts=True,
        unique_fields=["node", "boot"],
        update_fields=["monotonic_us", "offset_us"],
    )


def store_gaps(gaps: list[GapIn], keys: list[str], devices: dict[str, Device]) -> None:
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
    _extend_gaps(rows)


def _extend_gaps(rows: list[DeclaredGap]) -> None:
    """Move the end of stored gaps that a collector declares again with a later end."""
    ends: dict[tuple[int, str, int], int] = {}
    for row in rows:
        key = (row.device_id, row.epoch_key, row.from_us)
        ends[key] = max(ends.get(key, 0), row.to_us)
    stored = DeclaredGap.objects.filter(
        device__in={row.device_id for row in rows}, from_us__in={row.from_us for row in rows}
    )
    changed = []
    for gap in stored if rows else ():
        end_us = ends.get((gap.device_id, gap.epoch_key, gap.from_us), 0)
        if end_us > gap.to_us:
            gap.to_us = end_us
            changed.append(gap)
    DeclaredGap.objects.bulk_update(changed, ["to_us"])
