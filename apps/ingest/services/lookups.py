"""Keys of devices, epochs and consumers become ids: found, or made at their first appearance."""

from typing import Any

from apps.accounts.models import Lab
from apps.core.jobs import enqueue
from apps.fleet.calc import device_kind
from apps.fleet.models import Device, Node
from apps.ingest.calc import consumer_kind, run_of
from apps.ingest.models import Consumer, Epoch


def known_devices(node: Node, keys: list[str], facts: dict[str, dict[str, Any]]) -> dict[str, Device]:
    """Return the devices of a batch by key, made or moved to this node as needed; keys it may not push are left out."""
    kinds = {key: kind for key in dict.fromkeys(keys) if (kind := device_kind(key, str(node.uuid)))}
    found = {device.key: device for device in Device.objects.filter(lab=node.lab, key__in=kinds)}
    missing = [Device(lab=node.lab, key=key, kind=kind, node=node) for key, kind in kinds.items() if key not in found]
    if missing:
        Device.objects.bulk_create(missing, ignore_conflicts=True)
        found = {device.key: device for device in Device.objects.filter(lab=node.lab, key__in=kinds)}
    for key, device in found.items():
        told = facts.get(key, {})
        name = str(told.get("name", ""))[:200] or device.name
        rest = {str(k)[:64]: str(v)[:256] for k, v in list(told.items())[:32] if k != "name"} or device.facts
        if device.node_id != node.pk:  # what the old node left to settle is the new one's from now on
            enqueue(kind="energy.settle", key=str(node.pk))
        if (device.node_id, device.name, device.facts) != (node.pk, name, rest):
            device.node, device.name, device.facts = node, name, rest
            device.save(update_fields=["node", "name", "facts"])
    return found


def epoch_ids(wanted: set[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Return the ids of (device id, epoch key)s, made as needed."""

    def read() -> dict[tuple[int, str], int]:
        rows = Epoch.objects.filter(device_id__in={device for device, _ in wanted}, key__in={key for _, key in wanted})
        return {(row.device_id, row.key): row.pk for row in rows}

    known = read()
    missing = sorted(wanted - known.keys())
    if missing:
        Epoch.objects.bulk_create([Epoch(device_id=device, key=key) for device, key in missing], ignore_conflicts=True)
        known = read()
    return known


def consumer_ids(lab: Lab, keys: set[str]) -> dict[str, int]:
    """Return the ids of consumer keys, made as needed."""

    def read() -> dict[str, int]:
        return dict(Consumer.objects.filter(lab=lab, key__in=keys).values_list("key", "pk"))

    known = read()
    missing = sorted(keys - known.keys())
    if missing:
        Consumer.objects.bulk_create(
            [Consumer(lab=lab, key=key, kind=consumer_kind(key) or "unknown", run_uuid=run_of(key)) for key in missing],
            ignore_conflicts=True,
        )
        known = read()
    return known
