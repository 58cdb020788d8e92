"""Bulk writes of a batch."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from django.db.models import F

from apps.core.erasure.names import erased_names
from apps.core.intervals import hours_touched
from apps.core.jobs import enqueue
from apps.core.sql import bulk_insert, greatest_sql
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device, Node
from apps.ingest import selectors, window_rules
from apps.ingest.choices import QUALITY_OF, ShareQuality
from apps.ingest.models import (
    Batch,
    ConsumerHour,
    DeclaredGap,
    EnergyWindow,
    QuarantinedWindow,
)
from apps.ingest.parsing import GapIn
from apps.ingest.services.classify import BatchContext, Stored
from apps.ingest.services.lookups import consumer_ids
from apps.ingest.window_rules import WindowIn

_QUALITIES = {int(measurement): int(quality) for measurement, quality in QUALITY_OF.items()}
_WHOLE, _SPLIT = int(ShareQuality.WHOLE), int(ShareQuality.SPLIT)


def write_windows(context: BatchContext, batch: Batch) -> None:
    rows = context.stored
    if not rows:
        return
    consumers = consumer_ids(
        context.node.lab_id, {key for row in rows for key, _ in row.window.shares}
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
                [_QUALITIES[measurement] for measurement in measurements],
            ),
            "share_quality": ("smallint", [_share_quality(window) for window in windows]),
            "placement_quality": ("smallint", [row.placement_quality for row in rows]),
            "flags": ("integer", [row.flags for row in rows]),
            "clock_shift_us": ("bigint", [row.shift_us for row in rows]),
            "util_mean_pm": ("smallint", [window.util_mean_pm for window in windows]),
            "util_max_pm": ("smallint", [window.util_max_pm for window in windows]),
            "mem_mean_mib": ("integer", [window.mem_mean_mib for window in windows]),
            "mem_max_mib": ("integer", [window.mem_max_mib for window in windows]),
            "processes": ("integer", [window.processes for window in windows]),
            "digest": ("bigint", [row.digest for row in rows]),
            "shares": ("text", [_share_text(window, consumers) for window in windows]),
        },
    )
    _add_consumer_hours(rows, consumers)
    mark_dirty(
        context.node,
        {(row.device_id, hour) for row in rows for hour in hours_touched(row.start_us, row.end_us)},
    )
    for owner_id in {device.node_id for device in context.devices.values()} - {context.node.pk}:
        enqueue(kind="energy.settle", key=str(owner_id))  # the owner settles hours of its devices


def _share_text(window: WindowIn, consumers: dict[str, int]) -> str:
    parts = [f'"{consumers[key]}":{energy_mj}' for key, energy_mj in window.shares]
    return f"{{{','.join(parts)}}}"


def _add_consumer_hours(rows: list[Stored], consumers: dict[str, int]) -> None:
    sums: dict[tuple[int, int, int], list[int]] = {}  # by consumer, device, hour: mJ, last end
    for row in rows:
        hour, end_us = row.start_us // US_PER_HOUR, row.end_us
        for key, part_mj in row.window.shares:
            place = (consumers[key], row.device_id, hour)
            known = sums.get(place)
            if known is None:
                sums[place] = [part_mj, end_us]
            else:
                known[0] += part_mj
                known[1] = max(known[1], end_us)
    if not sums:
        return
    table = "ingest_consumerhour"
    bulk_insert(
        table,
        {
            "consumer_id": ("bigint", [consumer for consumer, _, _ in sums]),
            "device_id": ("bigint", [device for _, device, _ in sums]),
            "hour": ("bigint", [hour for _, _, hour in sums]),
            "energy_mj": ("bigint", [energy_mj for energy_mj, _ in sums.values()]),
            "last_us": ("bigint", [last_us for _, last_us in sums.values()]),
        },
        on_conflict=(
            "ON CONFLICT (consumer_id, device_id, hour) DO UPDATE SET "
            f"energy_mj = {table}.energy_mj + excluded.energy_mj, "
            f"last_us = {greatest_sql(f'{table}.last_us', 'excluded.last_us')}"
        ),
    )


def delete_window(window: EnergyWindow) -> None:
    """Delete a window that a decision added, with its part of the consumers' hours."""
    hour = window.start_us // US_PER_HOUR
    EnergyWindow.objects.filter(epoch_id=window.epoch_id, sequence=window.sequence).delete()
    shares = {int(consumer): part for consumer, part in json.loads(window.shares).items()}
    ends = selectors.last_ends(window.device_id, hour, shares)
    for consumer_id, part_mj in shares.items():
        consumer_hours = ConsumerHour.objects.filter(
            consumer_id=consumer_id, device_id=window.device_id, hour=hour
        )
        if consumer_id in ends:
            consumer_hours.update(energy_mj=F("energy_mj") - part_mj, last_us=ends[consumer_id])
        else:
            consumer_hours.delete()


def _share_quality(window: WindowIn) -> int:
    if window.split:
        return _SPLIT
    if len(window.shares) < 2:
        return _WHOLE
    return _SPLIT if len([1 for _, energy_mj in window.shares if energy_mj]) > 1 else _WHOLE


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
    if not context.quarantine_reasons:
        return
    names = erased_names(context.node.lab_id)
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
                content=names.replace(asdict(row.window)),
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
    boots = sorted(context.changed_boots)
    offsets = [context.boot_offsets[boot] for boot in boots]
    bulk_insert(
        "ingest_bootclock",
        {
            "node_id": ("bigint", [context.node.pk] * len(boots)),
            "boot": ("text", boots),
            "monotonic_us": ("bigint", [offset.monotonic_us for offset in offsets]),
            "offset_us": ("bigint", [offset.offset_us for offset in offsets]),
        },
        on_conflict=(
            "ON CONFLICT (node_id, boot) DO UPDATE SET "
            "monotonic_us = excluded.monotonic_us, offset_us = excluded.offset_us"
        ),
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
    if rows:
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
    for gap in stored:
        end_us = ends.get((gap.device_id, gap.epoch_key, gap.from_us), 0)
        if end_us > gap.to_us:
            gap.to_us = end_us
            changed.append(gap)
    DeclaredGap.objects.bulk_update(changed, ["to_us"])
