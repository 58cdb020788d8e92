"""Settling: computing the ledger entries of dirty device-hours again. The only writer of the ledger."""

from collections import defaultdict

from django.db import transaction

from apps.accounts.models import Lab
from apps.core.jobs import request_job
from apps.core.units import US_PER_HOUR
from apps.energy import calc, selectors
from apps.energy.calc import EntryKey
from apps.energy.models import DeviceHour, LedgerEntry
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality
from apps.ingest.models import Consumer, DirtyHour, EnergyWindow

CHUNK = 100  # device-hours a transaction: some tens of milliseconds on SQLite


def settle_node(*, node: Node) -> int:
    """Settle all dirty hours of a node's devices; return how many there were."""
    total = 0
    while settled := settle_chunk(node=node, limit=CHUNK):
        total += settled
    return total


@transaction.atomic
def settle_chunk(*, node: Node, limit: int) -> int:
    """Settle up to ``limit`` dirty device-hours of a node; return how many."""
    Node.objects.select_for_update().get(pk=node.pk)
    waiting = (
        DirtyHour.objects.filter(device__node=node).order_by("device_id", "hour").values_list("device_id", "hour")[:limit]
    )
    device_ids = sorted({device_id for device_id, _ in waiting})
    if not device_ids:
        return 0
    # Ingest holds the same locks while it writes windows and marks hours: what is read below is whole.
    devices = {device.pk: device for device in Device.objects.select_for_update().filter(pk__in=device_ids).order_by("pk")}
    dirty = list(
        DirtyHour.objects.filter(device_id__in=device_ids)
        .order_by("device_id", "hour")
        .values_list("device_id", "hour")[:limit]
    )
    hours: dict[int, set[int]] = defaultdict(set)
    for device_id, hour in dirty:
        hours[device_id].add(hour)
    for device_id, wanted in hours.items():
        DirtyHour.objects.filter(device_id=device_id, hour__in=wanted).delete()
        for from_hour, to_hour in calc.runs_of_hours(wanted):
            settle_hours(device=devices[device_id], from_hour=from_hour, to_hour=to_hour)
    settle_overhead(node=node, hours={hour for device_id, hour in dirty if devices[device_id].kind != DeviceKind.HOST})
    return len(dirty)


def settle_hours(*, device: Device, from_hour: int, to_hour: int) -> None:
    """Write the ledger entries of ``[from_hour, to_hour)`` of one device from its windows."""
    hours = frozenset(range(from_hour, to_hour))
    energy: dict[EntryKey, int] = defaultdict(int, selectors.sums_inside(device.pk, from_hour, to_hour))
    for key, part in calc.spread(selectors.shares_spanning(device.pk, from_hour, to_hour), hours).items():
        energy[key] += part
    _replace(device, hours, energy)
    by_hour: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in selectors.intervals([device.pk], from_hour, to_hour):
        for hour in range(
            max(from_hour, row["start_us"] // US_PER_HOUR), min(to_hour, (row["end_us"] - 1) // US_PER_HOUR + 1)
        ):
            by_hour[hour, row["node_id"]].append((row["start_us"], row["end_us"]))
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for key, part in energy.items():
        sums[key.hour, key.node_id] += part
    DeviceHour.objects.filter(device=device, hour__in=hours).delete()
    DeviceHour.objects.bulk_create(
        [
            DeviceHour(
                device=device,
                hour=hour,
                node_id=node_id,
                lab_id=device.lab_id,
                covered_us=calc.covered_us(found, hour),
                windows=len(found),
                energy_mj=sums[hour, node_id],
            )
            for (hour, node_id), found in sorted(by_hour.items())
        ]
    )


def _replace(device: Device, hours: frozenset[int], energy: dict[EntryKey, int]) -> None:
    LedgerEntry.objects.filter(device=device, hour__in=hours).delete()
    LedgerEntry.objects.bulk_create(
        [
            LedgerEntry(
                lab_id=device.lab_id,
                device=device,
                node_id=key.node_id,
                hour=key.hour,
                consumer_id=key.consumer_id,
                energy_quality=key.energy_quality,
                share_quality=key.share_quality,
                placement_quality=key.placement_quality,
                energy_mj=part,
            )
            for key, part in sorted(energy.items(), key=lambda item: (item[0].hour, item[0].consumer_id))
        ],
        batch_size=500,
    )


def settle_overhead(*, node: Node, hours: set[int]) -> None:
    """Write the rest of a node for the hours: modelled from its static power; no entry where that is not known."""
    host = Device.objects.filter(lab_id=node.lab_id, key=f"host:{node.uuid}").first()
    static_power_mw = Node.objects.values_list("static_power_mw", flat=True).get(pk=node.pk)
    if host is None and static_power_mw is None:
        return
    if host is None:
        host = Device.objects.create(
            lab_id=node.lab_id, key=f"host:{node.uuid}", kind=DeviceKind.HOST, node=node, name="Rest of the node"
        )
    consumer, _ = Consumer.objects.get_or_create(lab_id=node.lab_id, key="overhead", defaults={"kind": "overhead"})
    inner = list(
        Device.objects.filter(node=node).exclude(kind__in=(DeviceKind.HOST, DeviceKind.METER)).values_list("pk", flat=True)
    )
    for hour in sorted(hours):
        seen = [
            (row["start_us"], row["end_us"])
            for row in selectors.intervals(inner, hour, hour + 1)
            if row["node_id"] == node.pk
        ]
        covered = calc.covered_us(seen, hour)
        energy: dict[EntryKey, int] = {}
        if static_power_mw is not None and covered:
            measured = selectors.energy_of_kinds(node.pk, hour, (DeviceKind.CPU, DeviceKind.DRAM))
            key = EntryKey(
                hour,
                node.pk,
                consumer.pk,
                int(EnergyQuality.MODELLED),
                int(ShareQuality.WHOLE),
                int(PlacementQuality.EXACT),
            )
            energy[key] = calc.overhead_mj(static_power_mw, covered, measured)
        _replace(host, frozenset({hour}), energy)


@transaction.atomic
def resettle_node(*, node: Node) -> None:
    """Mark all hours of a node dirty (its static power changed, or the ledger is to be rebuilt)."""
    marks: set[tuple[int, int]] = set()
    for device_id, start_us, end_us in EnergyWindow.objects.filter(node=node).values_list("device_id", "start_us", "end_us"):
        marks.update((device_id, hour) for hour in range(start_us // US_PER_HOUR, (end_us - 1) // US_PER_HOUR + 1))
    DirtyHour.objects.bulk_create(
        [DirtyHour(device_id=device_id, hour=hour) for device_id, hour in sorted(marks)],
        ignore_conflicts=True,
        batch_size=500,
    )
    request_job(kind="energy.settle", key=str(node.pk))


@transaction.atomic
def rebuild_ledger(*, lab: Lab) -> int:
    """Drop a lab's ledger and compute it from its windows again; return how many entries there are."""
    LedgerEntry.objects.filter(lab=lab).delete()
    DeviceHour.objects.filter(lab=lab).delete()
    for node in Node.objects.filter(lab=lab):
        resettle_node(node=node)
        settle_node(node=node)
    return LedgerEntry.objects.filter(lab=lab).count()
