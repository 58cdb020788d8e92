"""Settle the ledger: recompute the entries of dirty device-hours. The only writer of the ledger."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from apps.accounts.models import Lab
from apps.attribution.services.derive import attribute_new
from apps.attribution.signals import attribution_changed
from apps.core.clock import now_us
from apps.core.jobs import enqueue
from apps.core.sql import bulk_insert
from apps.core.units import END_HOUR, US_PER_HOUR
from apps.energy import ledger_entries, selectors, signals, source_precedence
from apps.energy.ledger_entries import EntryKey
from apps.energy.models import DeviceHour, LedgerEntry
from apps.energy.services.idle import enqueue_spread
from apps.energy.services.utilization import record_utilization
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device, Node
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality
from apps.ingest.models import Consumer, DirtyHour, EnergyWindow, SealedHour
from apps.ingest.sealed_selectors import sealed_device_hours, sealed_hours_of_node

CHUNK = 100  # device-hours per transaction: some tens of milliseconds on SQLite


def settle_node(*, node: Node) -> int:
    """Settle all dirty hours of a node's devices. Return their number. Writers of dirty hours
    enqueue the job.
    """
    total, more = 0, True
    while more:
        settled, more = settle_chunk(node=node, limit=CHUNK)
        total += settled
    return total


@transaction.atomic
def settle_chunk(*, node: Node, limit: int) -> tuple[int, bool]:
    """Settle up to ``limit`` dirty device-hours of a node. Return their number, and whether more
    can remain.
    """
    waiting = (
        DirtyHour.objects.filter(device__node=node)
        .order_by("device_id", "hour")
        .values_list("device_id", flat=True)[:limit]
    )
    device_ids = sorted(set(waiting))
    if not device_ids:
        return 0, False
    # Ingest holds the same locks while it writes windows and marks hours, so the reads below are
    # consistent.
    devices = {
        device.pk: device
        for device in Device.objects.select_for_update(no_key=True)
        .filter(pk__in=device_ids)
        .order_by("pk")
    }
    dirty = list(
        DirtyHour.objects.filter(device_id__in=device_ids)
        .order_by("device_id", "hour")
        .values_list("device_id", "hour")[:limit]
    )
    hours: dict[int, set[int]] = defaultdict(set)
    for device_id, hour in dirty:
        hours[device_id].add(hour)
    closed = _closed_hours(devices.values(), {hour for _, hour in dirty})
    overhead_hours: set[int] = set()
    used: dict[int, set[int]] = defaultdict(set)  # node → consumers
    measured: set[tuple[int, int]] = set()
    for device_id, device_hours in hours.items():
        DirtyHour.objects.filter(device_id=device_id, hour__in=device_hours).delete()
        if devices[device_id].kind == DeviceKind.HOST:
            overhead_hours |= device_hours
            continue
        device_hours -= closed[device_id]
        if not device_hours:
            continue
        touched = _nodes_of(device_id, device_hours) | {(node.pk, hour) for hour in device_hours}
        for from_hour, to_hour in ledger_entries.runs_of_hours(device_hours):
            keys, measured_hours = settle_hours(
                device=devices[device_id], from_hour=from_hour, to_hour=to_hour
            )
            record_utilization(device=devices[device_id], from_hour=from_hour, to_hour=to_hour)
            touched |= measured_hours
            for key in keys:
                used[key.node_id].add(key.consumer_id)
        overhead_hours |= {hour for node_id, hour in touched if node_id == node.pk}
        _enqueue_overhead({(node_id, hour) for node_id, hour in touched if node_id != node.pk})
        if devices[device_id].kind in source_precedence.SUPERSEDING:
            measured |= touched
    _enqueue_declared_devices(measured)
    for node_id, consumer_ids in sorted(used.items()):
        attribute_new(lab=node.lab, node_id=node_id, consumer_ids=consumer_ids)
    settle_overhead(node=node, hours=overhead_hours)
    enqueue_spread(lab=node.lab, now=now_us())
    signals.settled.send(sender=LedgerEntry, lab=node.lab, hours={hour for _, hour in dirty})
    return len(dirty), len(waiting) == limit


def _closed_hours(devices: Iterable[Device], hours: set[int]) -> dict[int, set[int]]:
    """Return the hours of each device that must not be summed again: their windows are archived.

    The energy of a tracker's device depends on the windows of its node, so it is closed with them.
    """
    listed = list(devices)
    closed: dict[int, set[int]] = defaultdict(set)
    for device_id, hour in sealed_device_hours([device.pk for device in listed], hours):
        closed[device_id].add(hour)
    for device in listed:
        if source_precedence.COMPONENT in device.facts:
            closed[device.pk] |= sealed_hours_of_node(device.node_id, hours)
    return closed


def _nodes_of(device_id: int, hours: set[int]) -> set[tuple[int, int]]:
    """Return the settled (node id, hour)s in which a device was measured."""
    return set(
        DeviceHour.objects.filter(device_id=device_id, hour__in=hours).values_list(
            "node_id", "hour"
        )
    )


def _enqueue_overhead(touched: set[tuple[int, int]]) -> None:
    """Enqueue the overhead of other nodes in which a moved device was measured."""
    others = Node.objects.filter(pk__in={node_id for node_id, _ in touched})
    hosts = {node.pk: host.pk for node in others if (host := _host(node)) is not None}
    DirtyHour.objects.bulk_create(
        [
            DirtyHour(device_id=hosts[node_id], hour=hour)
            for node_id, hour in sorted(touched)
            if node_id in hosts
        ],
        ignore_conflicts=True,
    )
    for node_id in sorted(hosts):
        enqueue(kind="energy.settle", key=str(node_id))


def _enqueue_declared_devices(measured: set[tuple[int, int]]) -> None:
    """Enqueue the tracker devices of the (node id, hour)s, because a collector measured there
    too.
    """
    for node_id in sorted({node_id for node_id, _ in measured}):
        tracker_devices = Device.objects.filter(
            node_id=node_id, kind=DeviceKind.DECLARED, facts__has_key=source_precedence.COMPONENT
        )
        hours = {hour for at, hour in measured if at == node_id}
        settled = DeviceHour.objects.filter(
            node_id=node_id, hour__in=hours, device__in=tracker_devices
        )
        marks = [
            DirtyHour(device_id=row[0], hour=row[1])
            for row in settled.values_list("device_id", "hour")
        ]
        if marks:
            DirtyHour.objects.bulk_create(marks, ignore_conflicts=True, batch_size=500)
            enqueue(kind="energy.settle", key=str(node_id))


def _host(node: Node) -> Device | None:
    """Return the device of the node overhead, None if its power was never set."""
    host = Device.objects.filter(lab_id=node.lab_id, key=f"host:{node.uuid}").first()
    if host is None and node.static_power_mw is not None:
        host = Device.objects.create(
            lab_id=node.lab_id,
            key=f"host:{node.uuid}",
            kind=DeviceKind.HOST,
            node=node,
            name="Node overhead",
        )
    return host


def settle_hours(
    *, device: Device, from_hour: int, to_hour: int
) -> tuple[set[EntryKey], set[tuple[int, int]]]:
    """Write the ledger entries of ``[from_hour, to_hour)`` of a device from its windows. Return
    their keys, and the (node id, hour)s in which the device was measured.
    """
    hours = frozenset(range(from_hour, to_hour))
    energy: dict[EntryKey, int] = defaultdict(int)
    if source_precedence.COMPONENT in device.facts:
        minutes = selectors.measured_minutes(device, from_hour, to_hour)
        energy.update(
            source_precedence.remaining_energy(
                selectors.shares_touching(device.pk, from_hour, to_hour), hours, minutes
            )
        )
    elif (
        device.kind != DeviceKind.METER
    ):  # contains the inner meters, whose energy would count twice
        energy.update(selectors.sums_inside(device.pk, from_hour, to_hour))
        for key, part in ledger_entries.spread(
            selectors.shares_spanning(device.pk, from_hour, to_hour), hours
        ).items():
            energy[key] += part
    _replace(device, from_hour, to_hour, energy)
    by_hour = _intervals_by_hour([device.pk], from_hour, to_hour)
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for key, part in energy.items():
        sums[key.node_id, key.hour] += part
    _replace_hours(device, from_hour, to_hour, by_hour, sums)
    return set(energy), set(by_hour)


def _intervals_by_hour(
    device_ids: list[int], from_hour: int, to_hour: int
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return {(node id, hour): (start, end) of the windows of the devices that touch the hour}."""
    by_hour: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in selectors.intervals(device_ids, from_hour, to_hour):
        for hour in range(
            max(from_hour, row["start_us"] // US_PER_HOUR),
            min(to_hour, (row["end_us"] - 1) // US_PER_HOUR + 1),
        ):
            by_hour[row["node_id"], hour].append((row["start_us"], row["end_us"]))
    return by_hour


def _replace_hours(
    device: Device,
    from_hour: int,
    to_hour: int,
    windows: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
    sums: Mapping[tuple[int, int], int],
) -> None:
    """Write the covered time of device-hours. ``windows`` and ``sums``: by (node id, hour)."""
    DeviceHour.objects.filter(device=device, hour__gte=from_hour, hour__lt=to_hour).delete()
    places = sorted(windows, key=lambda place: (place[1], place[0]))
    if not places:
        return
    columns = {
        "device_id": ("bigint", [device.pk] * len(places)),
        "hour": ("bigint", [hour for _, hour in places]),
        "node_id": ("bigint", [node_id for node_id, _ in places]),
        "lab_id": ("bigint", [device.lab_id] * len(places)),
        "covered_us": (
            "bigint",
            [ledger_entries.covered_us(windows[place], place[1]) for place in places],
        ),
        "windows": ("integer", [len(windows[place]) for place in places]),
        "energy_mj": ("bigint", [sums.get(place, 0) for place in places]),
    }
    bulk_insert("energy_devicehour", columns)


def _replace(device: Device, from_hour: int, to_hour: int, energy: Mapping[EntryKey, int]) -> None:
    LedgerEntry.objects.filter(device=device, hour__gte=from_hour, hour__lt=to_hour).delete()
    if not energy:
        return
    keys = sorted(energy, key=lambda key: (key.hour, key.consumer_id))
    columns = {
        "lab_id": ("bigint", [device.lab_id] * len(keys)),
        "device_id": ("bigint", [device.pk] * len(keys)),
        "node_id": ("bigint", [key.node_id for key in keys]),
        "hour": ("bigint", [key.hour for key in keys]),
        "consumer_id": ("bigint", [key.consumer_id for key in keys]),
        "energy_quality": ("smallint", [key.energy_quality for key in keys]),
        "share_quality": ("smallint", [key.share_quality for key in keys]),
        "placement_quality": ("smallint", [key.placement_quality for key in keys]),
        "energy_mj": ("bigint", [energy[key] for key in keys]),
    }
    bulk_insert("energy_ledgerentry", columns)


def settle_overhead(*, node: Node, hours: set[int]) -> None:
    """Write the modelled overhead of a node for the hours. Without a static power, no entry is
    written.
    """
    node = Node.objects.get(
        pk=node.pk
    )  # the static power can have changed since the caller read it
    static_power_mw = node.static_power_mw
    host = _host(node)
    if host is None or not hours:
        return
    hours = hours - sealed_hours_of_node(node.pk, hours)
    consumer, _ = Consumer.objects.get_or_create(
        lab_id=node.lab_id, key="overhead", defaults={"kind": "overhead"}
    )
    # Devices count in the node that measured them, so moved hardware does not change past hours.
    inner = list(
        DeviceHour.objects.filter(node=node, hour__in=hours)
        # Declared energy does not show that the machine was on.
        .exclude(device__kind__in=(DeviceKind.HOST, DeviceKind.METER, DeviceKind.DECLARED))
        .values_list("device_id", flat=True)
        .distinct()
    )
    for from_hour, to_hour in ledger_entries.runs_of_hours(hours):
        energy: dict[EntryKey, int] = {}
        if static_power_mw is not None:
            intervals = _intervals_by_hour(inner, from_hour, to_hour)
            measured = selectors.energy_of_kinds(
                node.pk, from_hour, to_hour, (DeviceKind.CPU, DeviceKind.DRAM)
            )
            for hour in range(from_hour, to_hour):
                covered = ledger_entries.covered_us(intervals.get((node.pk, hour), ()), hour)
                if covered:
                    key = EntryKey(
                        hour,
                        node.pk,
                        consumer.pk,
                        int(EnergyQuality.MODELLED),
                        int(ShareQuality.WHOLE),
                        int(PlacementQuality.EXACT),
                    )
                    energy[key] = ledger_entries.overhead_mj(
                        static_power_mw, covered, measured.get(hour, 0)
                    )
        _replace(host, from_hour, to_hour, energy)


@transaction.atomic
def resettle_node(*, node: Node) -> None:
    """Mark all hours of a node dirty, after a change of its static power or before a rebuild."""
    marks: set[tuple[int, int]] = set()
    for device_id, start_us, end_us in EnergyWindow.objects.filter(node=node).values_list(
        "device_id", "start_us", "end_us"
    ):
        marks.update(
            (device_id, hour)
            for hour in range(start_us // US_PER_HOUR, (end_us - 1) // US_PER_HOUR + 1)
        )
    DirtyHour.objects.bulk_create(
        [DirtyHour(device_id=device_id, hour=hour) for device_id, hour in sorted(marks)],
        ignore_conflicts=True,
        batch_size=500,
    )
    # A moved device is settled by its current node, which enqueues the overhead of this one.
    holders = Device.objects.filter(pk__in={device_id for device_id, _ in marks}).values_list(
        "node_id", flat=True
    )
    for node_id in sorted({node.pk, *holders}):
        enqueue(kind="energy.settle", key=str(node_id))


@transaction.atomic
def rebuild_ledger(*, lab: Lab) -> int:
    """Delete the ledger of a lab and recompute it from windows. Return the number of entries.
    Hours whose windows are archived stay as they are.
    """
    entries = LedgerEntry.objects.filter(lab=lab).exclude(_is_closed())
    device_hours = DeviceHour.objects.filter(lab=lab).exclude(_is_closed())
    dropped = set(device_hours.values_list("hour", flat=True).distinct())
    entries.delete()
    device_hours.delete()
    signals.settled.send(sender=LedgerEntry, lab=lab, hours=dropped)
    nodes = list(Node.objects.filter(lab=lab).order_by("pk"))
    for node in nodes:
        resettle_node(node=node)
    while sum(settle_node(node=node) for node in nodes):  # until no node enqueues another
        pass
    return LedgerEntry.objects.filter(lab=lab).count()


def _is_closed() -> Q:
    """Return the condition for rows of hours that are never summed again."""
    of_node = SealedHour.objects.filter(node=OuterRef("node"), hour=OuterRef("hour"))
    return Q(
        Exists(SealedHour.objects.filter(device=OuterRef("device"), hour=OuterRef("hour")))
    ) | Q(Exists(of_node), device__kind__in=(DeviceKind.HOST, DeviceKind.DECLARED))


def attribute_ledger(*, lab: Lab) -> None:
    """Derive the missing attributions of a lab's ledger, node by node."""
    for node in Node.objects.filter(lab=lab).order_by("pk"):
        pending = list(
            LedgerEntry.objects.filter(node=node)
            .values_list("consumer_id", flat=True)
            .order_by("consumer_id")
            .distinct()
        )
        for start in range(0, len(pending), CHUNK):
            with transaction.atomic():
                part = pending[start : start + CHUNK]
                attribute_new(lab=lab, node_id=node.pk, consumer_ids=part)
                attribution_changed.send(
                    sender=LedgerEntry, lab=lab, consumer_ids=part, from_hour=0, to_hour=END_HOUR
                )
