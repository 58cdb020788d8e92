"""Ids of devices, epochs and consumers by key. Missing rows are created."""

from typing import Any

from apps.accounts.models import Lab
from apps.fleet.dated_facts import device_kind
from apps.fleet.models import Device, Node
from apps.ingest.models import Consumer, Epoch
from apps.ingest.window_rules import consumer_kind, run_of


def get_or_create_devices(
    node: Node, keys: list[str], facts: dict[str, dict[str, Any]]
) -> dict[str, Device]:
    """Return the devices of a batch by key, created if new. Packages of other nodes are left out.

    A device that belongs to another node is returned unchanged: naming it moves nothing.
    """
    kinds = {key: kind for key in dict.fromkeys(keys) if (kind := device_kind(key, str(node.uuid)))}
    devices = {device.key: device for device in Device.objects.filter(lab=node.lab, key__in=kinds)}
    missing = [
        Device(lab=node.lab, key=key, kind=kind, node=node)
        for key, kind in kinds.items()
        if key not in devices
    ]
    if missing:
        Device.objects.bulk_create(missing, ignore_conflicts=True)
        devices = {
            device.key: device for device in Device.objects.filter(lab=node.lab, key__in=kinds)
        }
    for key, device in devices.items():
        if device.node_id != node.pk:
            continue
        device_facts = facts.get(key, {})
        name = str(device_facts.get("name", ""))[:200] or device.name
        rest = {
            str(k)[:64]: str(v)[:256] for k, v in list(device_facts.items())[:32] if k != "name"
        } or device.facts
        if (device.name, device.facts) != (name, rest):
            device.name, device.facts = name, rest
            device.save(update_fields=["name", "facts"])
    return devices


def epoch_ids(keys: set[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Return the ids of (device id, epoch key)s. Missing rows are created."""

    def read() -> dict[tuple[int, str], int]:
        rows = Epoch.objects.filter(
            device_id__in={device for device, _ in keys}, key__in={key for _, key in keys}
        )
        return {(row.device_id, row.key): row.pk for row in rows}

    ids = read()
    missing = sorted(keys - ids.keys())
    if missing:
        Epoch.objects.bulk_create(
            [Epoch(device_id=device, key=key) for device, key in missing], ignore_conflicts=True
        )
        ids = read()
    return ids


def consumer_ids(lab: Lab, keys: set[str]) -> dict[str, int]:
    """Return the ids of consumer keys. Missing rows are created."""

    def read() -> dict[str, int]:
        return dict(Consumer.objects.filter(lab=lab, key__in=keys).values_list("key", "pk"))

    ids = read()
    missing = sorted(keys - ids.keys())
    if missing:
        Consumer.objects.bulk_create(
            [
                Consumer(
                    lab=lab, key=key, kind=consumer_kind(key) or "unknown", run_uuid=run_of(key)
                )
                for key in missing
            ],
            ignore_conflicts=True,
        )
        ids = read()
    return ids
